"""What counts as adding."""

from dataclasses import replace

import pytest

from tests.upgrade.shape import Column, Shape, Table, may_contract, narrowed

TEXT = Column("TEXT", nullable=False, given=False)
LOOSE = Column("TEXT", nullable=True, given=True)
DEFAULTED = Column("TEXT", nullable=False, given=True)
RUNS = Table({"id": TEXT, "note": LOOSE, "state": DEFAULTED}, {"primary key ['id']"}, {"by_note"})
BEFORE: Shape = {"runs": RUNS}


def columns(**changed: Column | None) -> Shape:
    there = {name: it for name, it in ({**RUNS.columns, **changed}).items() if it is not None}
    return {"runs": replace(RUNS, columns=there)}


@pytest.mark.parametrize(
    "after",
    [
        BEFORE,
        {**BEFORE, "notes": Table({"id": TEXT}, {"primary key ['id']"})},
        columns(later=LOOSE),
        columns(later=DEFAULTED),
        columns(id=DEFAULTED),
        {"runs": replace(RUNS, indexes={"by_note", "by_state"})},
    ],
)
def test_what_is_added_leaves_the_build_before_working(after: Shape) -> None:
    assert narrowed(BEFORE, after) == []


@pytest.mark.parametrize(
    ("after", "line"),
    [
        ({}, "the table runs is gone"),
        (columns(note=None), "runs: the column note is gone"),
        (columns(id=Column("BIGINT", nullable=False, given=False)), "id is BIGINT, it was TEXT"),
        (columns(note=DEFAULTED), "note may not be NULL any more"),
        (columns(state=TEXT), "state has no default any more"),
        (columns(later=TEXT), "later is new, and a row without it is refused"),
        ({"runs": replace(RUNS, rules={*RUNS.rules, "unique ['note']"})}, "a new rule"),
        ({"runs": replace(RUNS, rules=frozenset())}, "a rule is gone: primary key ['id']"),
        ({"runs": replace(RUNS, indexes=frozenset())}, "the index by_note is gone"),
    ],
)
def test_whatever_takes_something_away_is_found(after: Shape, line: str) -> None:
    (found,) = narrowed(BEFORE, after)
    assert line in found


@pytest.mark.parametrize(
    ("after", "version", "may"),
    [
        ("0.1.0", "0.1.0", False),  # it runs beside what was before 0.1.0
        ("0.1.0", "0.2.0", True),
        ("0.2.0", "0.10.0", True),
        ("0.2.0", "0.1.9", False),
        ("0.3.0", "0.4.0", False),  # no such release
    ],
)
def test_a_contraction_waits_for_a_release(after: str, version: str, may: bool) -> None:
    assert (may_contract(after, version, {"0.1.0", "0.2.0"}) is None) is may
