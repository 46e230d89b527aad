"""Sentences of the pages for people are short: somebody reads them in a second language."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.tree import files

ROOT = Path(__file__).resolve().parents[2]
WORDS_MAX = 25
NAMES = sorted(path for path in files() if path.endswith(".md"))
FENCE = re.compile(r"^ *```.*?^ *``` *$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
ANCHOR = re.compile(r"<a id=[^>]*></a>")
CODE = re.compile(r"`[^`]*`")
LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
EMPHASIS = re.compile(r"\*+(?=\S)|(?<=\S)\*+")
ITEM = re.compile(r"(?:[-*]|\d+\.) +")
END = re.compile(r"(?<=[.!?])[)\"]?\s+")
WORD = re.compile(r"\S*\w\S*")


def blocks(page: str) -> Iterator[str]:
    """Paragraphs, items of lists and cells of tables, without code; code in a line is one word."""
    plain = COMMENT.sub("\n\n", FENCE.sub("\n\n", page))
    plain = LINK.sub(r"\1", CODE.sub("CODE", ANCHOR.sub("", plain)))
    plain = EMPHASIS.sub("", plain)
    paragraph: list[str] = []
    for whole in (*plain.split("\n"), ""):
        if whole.startswith("    ") and not paragraph:
            continue
        line = whole.strip()
        begins = ITEM.match(line)
        if not line or begins or line.startswith(("#", "|")):
            yield " ".join(paragraph)
            paragraph = []
        if line.startswith("|"):
            yield from line.strip("|").split("|")
        elif line.startswith("#"):
            yield line.lstrip("# ")
        elif line:
            paragraph.append(line[begins.end() :] if begins else line)


def long_sentences(page: str) -> list[str]:
    """Those of more than `WORDS_MAX` words."""
    sentences = (one for block in blocks(page) for one in END.split(block.strip()))
    return [one for one in sentences if len(WORD.findall(one)) > WORDS_MAX]


@pytest.mark.parametrize("name", NAMES)
def test_sentences_of_a_page_are_short(name: str) -> None:
    found = long_sentences((ROOT / name).read_text("utf-8"))
    assert not found, "split these sentences:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("page", "found"),
    [
        ("word " * 26, 1),
        ("word " * 25, 0),
        ("word " * 20 + "end. " + "word " * 20, 0),
        ("word " * 20 + "\nword " * 20, 1),
        ("- " + "word " * 20 + "\n- " + "word " * 20, 0),
        ("| " + "word " * 20 + "| " + "word " * 20 + "|", 0),
        ("| " + "word " * 26 + "| one |", 1),
        ("`" + "word " * 30 + "`", 0),
        ("```\n" + "word " * 30 + "\n```\n", 0),
        ("\n    " + "word " * 26, 0),
        ("[" + "word " * 26 + "](api.md)", 1),
    ],
)
def test_long_sentences_are_found(page: str, found: int) -> None:
    assert len(long_sentences(page)) == found
