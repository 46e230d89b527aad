"""Where the rows of an answer come from (pure): blocks by day and hour, minutes for the rest.

Each piece of time is read from the coarsest cells that answer it exactly (`cells_of`). Slices that
no block has are read as minutes, too: by time where their rows are not late, along the log where
they are. Rows of blocks are written once, so only the others need FINAL.
"""

from collections.abc import Sequence
from typing import Final

from meterline.backends.clickhouse.blocks.hidden import hidden_condition
from meterline.backends.clickhouse.blocks.sql import NUMBERS
from meterline.backends.clickhouse.usage.statement import (
    Minutes,
    Part,
    Statement,
    TextOf,
    conditions_of,
)
from meterline.meter import Meter
from meterline.usage import (
    Cells,
    Comparison,
    Coverage,
    Operator,
    Range,
    UsageQuery,
    cells_of,
    concerning,
)
from meterline.window import WindowSize

_CELLS: Final = {"hour": 60, "day": 1_440}
_ALL: Final = 1 << 32  # behind every minute


def rows_source(
    query: UsageQuery, minutes: Minutes, statement: Statement, *, members: bool = False
) -> str:
    """A statement for all rows of a query: its keys `k0` (bucket), `k1` (subject), `k2` and on
    (dimensions), and the numbers of a tally or the `member`. Each cell is in there in any number of
    rows, no event twice. Where rows are told apart, `run` says of which run they are, from 1 on.
    """
    made = _Sources(query, minutes, statement, members=members)
    branches = [branch for part in minutes.parts for branch in made.of(part)]
    return "\nUNION ALL\n".join(branches)


def blocks_source(query: UsageQuery, minutes: Minutes, statement: Statement) -> str:
    """Of `rows_source` what is read from blocks; empty where nothing is."""
    made = _Sources(query, minutes, statement, members=False)
    branches = [branch for part in minutes.parts for branch in made.of_blocks(part)]
    return "\nUNION ALL\n".join(branches)


class _Sources:
    def __init__(
        self, query: UsageQuery, minutes: Minutes, statement: Statement, *, members: bool
    ) -> None:
        self._query = query
        self._statement = statement
        self._starts = minutes.starts
        self._coverage = minutes.coverage
        self._members = members
        self._by_subject = _few_subjects(query)
        bound = query.window not in (None, WindowSize.MINUTE)
        self._bound = statement.bind(list(minutes.starts), "Array(UInt32)") if bound else ""
        self._runs = minutes.runs
        self._run = self._run_of_block() if minutes.runs else ""

    def _run_of_block(self) -> str:
        if len(self._runs) == 1:
            return "toUInt8(1)"
        places = {number: at for at, run in enumerate(self._runs, 1) for number in run}
        numbers = self._statement.bind(list(places), "Array(UInt64)")
        ats = self._statement.bind(list(places.values()), "Array(UInt8)")
        return f"transform(block, {numbers}, {ats}, toUInt8(0))"

    def of(self, part: Part) -> list[str]:
        """One statement for each kind of cells that answers some of a part."""
        coverage = self._coverage
        if coverage is None or not coverage.ends:
            return [self._minutes(part, [(part.first, part.end)])]
        cells = self._cells(part)
        covered = sorted((*cells.days, *cells.hours))
        found = self.of_blocks(part)
        if cells.minutes:
            found.append(self._minutes(part, cells.minutes))
        border = coverage.late_before
        if newest := _clipped(covered, border, _ALL):
            found.append(self._minutes(part, newest, coverage))
        if late := _clipped(covered, 0, border):
            found.append(self._minutes(part, late, coverage, late=True))
        return found

    def of_blocks(self, part: Part) -> list[str]:
        """Those of them that read blocks."""
        coverage, cells = self._coverage, self._cells(part)
        return [
            self._block(part, name, ranges, coverage)
            for name, ranges in (("day", cells.days), ("hour", cells.hours))
            if ranges and coverage is not None and coverage.blocks
        ]

    def _cells(self, part: Part) -> Cells:
        whole = self._query.window is WindowSize.MINUTE
        return cells_of(part.first, part.end, None if whole else self._starts)

    def _block(self, part: Part, cell: str, ranges: Sequence[Range], coverage: Coverage) -> str:
        size = _CELLS[cell]
        table = f"member_{cell}s" if self._members else f"{cell}s"
        if self._by_subject:
            table += "_by_subject"
        elif not self._members and not _asks_subjects(self._query):
            table += "_of_all"
        blocks = self._statement.bind(list(coverage.blocks), "Array(UInt64)")
        where = [f"block IN {blocks}", self._of(part, cell, ranges, size)]
        where += conditions_of(self._query, part.meter, block_text, self._statement)
        keys = self._keys(part, f"toUInt32({cell} * {size})", block_text, self._run)
        return f"SELECT {keys}, {self._numbers} FROM {table} WHERE {' AND '.join(where)}"  # noqa: S608 - values are bound

    def _minutes(
        self,
        part: Part,
        ranges: Sequence[Range],
        behind: Coverage | None = None,
        *,
        late: bool = False,
    ) -> str:
        """Minutes of all slices, or of those that no block has."""
        table = "members" if self._members else "tallies"
        where = [self._of(part, "window", ranges, 1)]
        if behind is not None:
            where.append(uncovered(behind, self._statement))
        where += visible(self._coverage, part.meter.revision, self._statement)
        where += conditions_of(self._query, part.meter, minute_text, self._statement)
        keys = self._keys(part, "window", minute_text, "toUInt8(0)" if self._runs else "")
        # Distinct values are a set: rows that were written twice do no harm.
        source = f"{'late_' if late else ''}{table}{'' if self._members else ' FINAL'}"
        return f"SELECT {keys}, {self._numbers} FROM {source} WHERE {' AND '.join(where)}"  # noqa: S608 - values are bound

    def _of(self, part: Part, column: str, ranges: Sequence[Range], size: int) -> str:
        revision = self._statement.bind(part.meter.revision, "UInt32")
        among = " OR ".join(
            f"({column} >= {first // size} AND {column} < {end // size})" for first, end in ranges
        )
        return f"revision = {revision} AND ({among})"

    def _keys(self, part: Part, minute: str, text: TextOf, run: str) -> str:
        query = self._query
        subject = "toLowCardinality(subject)" if query.by_subject else "toLowCardinality('')"
        groups = (f"toLowCardinality({text(part.meter, name)})" for name in query.dimensions)
        keys = (self._bucket(minute), subject, *groups)
        named = [f"{key} AS k{at}" for at, key in enumerate(keys)]
        return ", ".join([*named, f"{run} AS run"] if run else named)

    def _bucket(self, minute: str) -> str:
        if self._query.window is None:
            return "toUInt32(0)"
        if self._query.window is WindowSize.MINUTE:
            return minute
        return f"toUInt32(roundDown({minute}, {self._bound}))"

    @property
    def _numbers(self) -> str:
        return "member" if self._members else NUMBERS


def uncovered(coverage: Coverage, statement: Statement) -> str:
    """The condition that a row is of a slice that no block has. A lower bound of all partitions
    comes first: by it the index excludes rows.
    """
    ends = [coverage.ends.get(number, 0) for number in range(max(coverage.ends, default=0) + 1)]
    behind = f"slice >= {statement.bind(ends, 'Array(UInt64)')}[partition + 1]"
    if coverage.alone:
        return f"slice >= {statement.bind(min(ends), 'UInt64')} AND {behind}"
    return f"(log != {statement.bind(coverage.log, 'UInt16')} OR {behind})"


def visible(coverage: Coverage | None, revision: int, statement: Statement) -> list[str]:
    """The condition that rows of slices are not hidden by an erasure; none where none can be."""
    hidden = () if coverage is None else concerning(coverage.hidden, [revision])
    found = []
    for one in hidden:
        condition, parameters = hidden_condition(one, f"h{len(statement.parameters)}_")
        if condition:
            statement.parameters |= parameters
            found.append(f"NOT {condition}")
    return found


def minute_text(meter: Meter, name: str) -> str:
    """A subject or group value of a row by minute."""
    return _text_of(meter, name, "JSONExtractString(groups, {})")


def block_text(meter: Meter, name: str) -> str:
    """The same of a row of a block."""
    return _text_of(meter, name, "groups[{}]")


def _text_of(meter: Meter, name: str, group: str) -> str:
    if name == "subject":
        return "subject"
    if name not in meter.dimension_names:
        return "''"
    return group.format(meter.dimension_names.index(name) + 1)


def _asks_subjects(query: UsageQuery) -> bool:
    """Whether it matters for the answer which subject a row is of."""
    filtered = any(name == "subject" for name, _ in query.filters)
    return query.by_subject or filtered or bool(query.subjects)


def _few_subjects(query: UsageQuery) -> bool:
    """Whether the query names its subjects: then they come first in the order that is read."""
    named = any(
        name == "subject" and it.operator in (Operator.EQ, Operator.IN)
        for name, it in query.filters
    )
    listed = any(it.comparison in (Comparison.EQ, Comparison.IN) for it in query.subjects)
    return named or (listed and not query.other_subjects)


def _clipped(ranges: Sequence[Range], low: int, high: int) -> list[Range]:
    """What of the ranges lies in [low, high)."""
    clipped = [(max(first, low), min(end, high)) for first, end in ranges]
    return [(first, end) for first, end in clipped if first < end]
