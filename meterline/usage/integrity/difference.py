"""Sealed slices that differed when they were counted back once more (pure).

A worker that was late with a slice finds it sealed by another one. If the rows are not what the log
says, somebody has to look: the numbers that were answered and reported from it may be wrong.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from meterline.usage.cells import Dropped, dropped_before
from meterline.usage.retention.minutes import MINUTE_TABLES
from meterline.usage.rows import AccountRow, Counted, SliceId

_MISSING = Counted(0, 0)


class TableDifference(NamedTuple):
    """What one table of the usage store should have of a slice, and what it has, in words."""

    table: str
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class SliceDifference:
    """A sealed slice that differs. Nobody else writes it anew: an audit with repair does."""

    slice_id: SliceId
    found_at_ms: int
    tables: tuple[TableDifference, ...]
    first_minute: int | None = field(default=None, compare=False)  # of its usage, while it is found

    @property
    def place(self) -> str:
        """The slice, as an audit names it."""
        return ".".join(map(str, self.slice_id))


def of_kept(difference: SliceDifference, dropped: Iterable[Dropped]) -> SliceDifference | None:
    """What is left of it where usage by minute may be gone; None: nothing is."""
    before, first = dropped_before(one for one in dropped if one.gone), difference.first_minute
    if first is None or first >= before:
        return difference
    tables = tuple(it for it in difference.tables if it.table not in MINUTE_TABLES)
    return replace(difference, tables=tables) if tables else None


def table_differences(
    expected: tuple[Mapping[str, Counted], AccountRow],
    stored: tuple[Mapping[str, Counted], AccountRow | None],
) -> tuple[TableDifference, ...]:
    """The tables whose rows are not those of the fold, by name; the account is one of them."""
    due, there = expected[0], stored[0]
    found = [
        TableDifference(table, *_counts(due.get(table, _MISSING), there.get(table, _MISSING)))
        for table in sorted({*due, *there})
        if due.get(table, _MISSING) != there.get(table, _MISSING)
    ]
    if expected[1] != stored[1]:
        found.append(TableDifference("accounts", _account(expected[1]), _account(stored[1])))
    return tuple(found)


def _counts(due: Counted, there: Counted) -> tuple[str, str]:
    """Numbers of rows; where these are the same, the hash sums of their contents too."""
    if due.rows != there.rows:
        return f"{due.rows} rows", f"{there.rows} rows"
    return _hashed(due), _hashed(there)


def _hashed(it: Counted) -> str:
    return f"{it.rows} rows with the hash sum {it.digest}"


def _account(row: AccountRow | None) -> str:
    if row is None:
        return "nothing"
    counts = zip(AccountRow._fields[4:], row[4:], strict=True)
    return ", ".join([*(f"{name} {count}" for name, count in counts), f"up to {row.version}"])
