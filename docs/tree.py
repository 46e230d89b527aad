"""The tree of docs/architecture.md: every folder of the product, with the sentence that its
`__init__.py` begins with.

`python -m docs.tree` makes it anew; tests/unit/test_docs.py fails where it differs.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from docs.diagrams import replaced

PAGE: Final = Path(__file__).with_name("architecture.md")
NAME: Final = "tree"
ROOT: Final = Path(__file__).resolve().parents[1]
STAGES: Final = ("ingest", "aggregator", "dispatcher", "control", "meterline")  # as an event goes
_SENTENCE_AT: Final = 32  # column


def rows() -> Iterator[str]:
    """A line for each folder, below its parent."""
    yield "```"
    for stage in STAGES:
        yield from _folder(ROOT / stage, 0)
    yield "```"


def _folder(folder: Path, depth: int) -> Iterator[str]:
    name = f"{'  ' * depth}{folder.name}/"
    yield f"{name:<{_SENTENCE_AT}} {sentence(folder)}".rstrip()
    for child in sorted(folder.iterdir()):
        if (child / "__init__.py").exists():
            yield from _folder(child, depth + 1)


def sentence(folder: Path) -> str:
    """What lives in a folder: the first sentence of its docstring. Raises `ValueError` if none."""
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8")))
    if not text:
        message = f"{folder.name}/__init__.py does not say what lives there"
        raise ValueError(message)
    return " ".join(text.split("\n\n")[0].split())


def made(page: str) -> str:
    """The page with the tree as it is."""
    return replaced(page, NAME, rows())


if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text("utf-8")), "utf-8")
