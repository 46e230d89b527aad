"""One word for one thing: the words that docs/glossary.md retires are no names of the product."""

import io
import re
import tokenize
from collections.abc import Iterator

import pytest

from tests.tidy.rules import PRODUCT
from tests.tidy.tree import python_files, read

ROW = re.compile(r"^\| (?P<word>[^|]+) \| (?P<meaning>[^|]+) \|(?P<retired>[^|]*)\|$", re.MULTILINE)


def glossary() -> list[tuple[str, tuple[str, ...]]]:
    rows = list(ROW.finditer(read("docs/glossary.md")))[1:]
    return [(row["word"], tuple(re.findall(r"\w+", row["retired"]))) for row in rows]


def retired() -> frozenset[str]:
    return frozenset(word for _, words in glossary() for word in words)


def names(source: str) -> Iterator[tuple[int, str]]:
    """The words that names are made of, with their lines: `SomeName` and `some_name` have two."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            for word in re.findall(r"[A-Z]?[a-z]+", token.string):
                yield token.start[0], word.lower()


def test_the_glossary_retires_words() -> None:
    assert {"parcel", "desk", "courier"} <= retired()


def test_words_are_listed_once() -> None:
    words = [word for word, _ in glossary()]
    assert len(words) == len(set(words))
    assert not retired() & {word.lower() for word in words}


def test_no_name_of_the_product_is_a_retired_word() -> None:
    gone = retired() | {f"{word}s" for word in retired()}
    found = [
        f"{path}:{line}: {word!r}, see docs/glossary.md"
        for path in python_files()
        if path.startswith(PRODUCT)
        for line, word in names(read(path))
        if word in gone
    ]
    if found:
        pytest.fail("\n".join(found), pytrace=False)


def test_a_retired_word_is_found_in_a_name() -> None:
    assert (1, "parcel") in names("class LostParcel: ...")
    assert (1, "desk") in names("the_desk = 1")
