"""docs/compatibility.md agrees with the operations that are served."""

import re
from pathlib import Path

import pytest

from docs.operation_table import places, v1_operations, v3_operations

PAGE = (Path(__file__).resolve().parents[2] / "docs/compatibility.md").read_text("utf-8")
ROW = re.compile(r"^\| (.+?) \| (.+?) \| (same|differs|not here) \| (.*)\|$", re.MULTILINE)
PLACE = re.compile(r"`(GET|POST|PUT|PATCH|DELETE) (/[^\s`]+)`")
NAME = re.compile(r"`([A-Za-z0-9-]+)`")
ROWS = ROW.findall(PAGE)


def ids() -> set[str]:
    return {one.id for one in [*v3_operations(), *v1_operations()]}


def test_every_row_has_a_verdict() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("| ") and PLACE.search(line)]
    assert len(lines) == len(ROWS) > 20


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_what_is_said_to_be_here_is_here_and_nothing_else(row: tuple[str, str, str, str]) -> None:
    names, where, verdict, how = row
    found = {(method, path) for method, path in PLACE.findall(where)}
    assert found
    if verdict == "not here":
        assert not found & places()
        assert not set(NAME.findall(names)) & ids()
    else:
        assert found <= places()
        assert set(NAME.findall(names)) <= ids()
    assert verdict == "same" or how.strip(), "it says how, or why not"


def test_every_operation_is_on_the_page() -> None:
    beside = PAGE.partition("## Only here\n")[2]
    compared = {name for names, *_ in ROWS for name in NAME.findall(names)}
    assert not compared & set(NAME.findall(beside))
    assert ids() <= compared | set(NAME.findall(beside))
    assert set(NAME.findall(beside)) <= ids()
