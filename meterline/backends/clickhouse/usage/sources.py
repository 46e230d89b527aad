"""Where the rows of an answer come from (pure): blocks by day and hour, minutes for the rest.

Each piece of time is read from the coarsest cells that answer it exactly (`plan_of`). Slices that
no block has are read as minutes, too: by time where their rows are not late, along the log where
they are. Rows of blocks are written once, so only the others need FINAL.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

from meterline.backends.clickhouse.blocks.hidden import hidden_condition
from meterline.backends.clickhouse.usage.statement import (
    Kind,
    Minutes,
    Part,
    Statement,
    TextOf,
    conditions_of,
)
from meterline.limits import CELL_RANGES_MAX
from meterline.meter import Aggregation, Meter
from meterline.usage import (
    Comparison,
    Coverage,
    Operator,
    Plan,
    Range,
    UsageQuery,
    concerning,
    plan_of,
)
from meterline.window import WindowSize

_CELLS: Final = {"hour": 60, "day": 1_440}
_planned: Final = lru_cache(32)(plan_of)  # one answer asks several times for the same
_PARTITIONS_NAMED_MAX: Final = 64  # in one condition: a part each
# What an aggregation needs of a row: columns cost time even where nobody reads them.
_NUMBERS: Final = {
    Aggregation.SUM: "total, ",
    Aggregation.AVG: "total, ",
    Aggregation.MIN: "minimum, ",
    Aggregation.MAX: "maximum, ",
    Aggregation.LATEST: "latest_time_ms, latest_recorded_ms, latest_key, latest, ",
    Aggregation.COUNT: "",
    Aggregation.UNIQUE_COUNT: "",
}


def rows_source(
    query: UsageQuery,
    minutes: Minutes,
    statement: Statement,
    *,
    members: bool = False,
    kind: Kind | None = None,
) -> str:
    """A statement for all rows of a query: its `keys_of`, and the numbers of a tally that its
    aggregation needs or the `member`. Each cell is in there in any number of rows, no event twice.
    Where rows are told apart, `run` says of which run they are, from 1 on.

    With `kind` only what is read from that; empty where nothing is.
    """
    made = _Sources(query, minutes, statement, members=members)
    of = {None: made.of, Kind.BLOCKS: made.of_blocks, Kind.MINUTES: made.of_minutes}[kind]
    return "\nUNION ALL\n".join(branch for part in minutes.parts for branch in of(part))


def keys_of(query: UsageQuery) -> list[str]:
    """The keys of `rows_source`: `k0` (bucket), `k1` (subject, if asked for), `k2` and on
    (dimensions).
    """
    subject = ["k1"] if query.by_subject else []
    return ["k0", *subject, *(f"k{at}" for at, _ in enumerate(query.dimensions, 2))]


class _Sources:
    def __init__(
        self, query: UsageQuery, minutes: Minutes, statement: Statement, *, members: bool
    ) -> None:
        self._query = query
        self._statement = statement
        self._starts = minutes.starts
        self._coverage = minutes.coverage
        self._members = members
        self._by_subject = names_subjects(query)
        bound = query.window not in (None, WindowSize.MINUTE)
        self._step = _step_of(minutes.starts)
        unequal = bound and not self._step
        self._bound = statement.bind(list(minutes.starts), "Array(UInt32)") if unequal else ""
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
        return [*self.of_blocks(part), *self.of_minutes(part)]

    def of_minutes(self, part: Part) -> list[str]:
        """Those of them that read minutes."""
        plan, found = self._plan(part), []
        if plan.minutes:
            found.append(self._minutes(part, plan.minutes))
        if plan.newest:
            found.append(self._minutes(part, plan.newest, self._coverage))
        if plan.late:
            found.append(self._minutes(part, plan.late, self._coverage, late=True))
        return found

    def of_blocks(self, part: Part) -> list[str]:
        """Those of them that read blocks."""
        plan, coverage = self._plan(part), self._coverage
        return [
            self._block(part, name, ranges, coverage)
            for name, ranges in (("day", plan.days), ("hour", plan.hours))
            if ranges and coverage is not None
        ]

    def _plan(self, part: Part) -> Plan:
        coverage = self._coverage
        starts = None if self._query.window is WindowSize.MINUTE else self._starts
        if coverage is None or not coverage.ends:
            return _planned(part.first, part.end, starts, None, blocks=False)
        blocks = bool(coverage.blocks)
        return _planned(part.first, part.end, starts, coverage.late_before, blocks=blocks)

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
        keys = self._keys(part, self._bucket_of(cell, size), block_text, self._run)
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
            where.append(uncovered(behind, self._statement, along_log=late))
        where += visible(self._coverage, part.meter.revision, self._statement)
        where += conditions_of(self._query, part.meter, minute_text, self._statement)
        run = "toUInt8(0)" if self._runs else ""
        keys = self._keys(part, self._bucket("window"), minute_text, run)
        # Distinct values are a set: rows that were written twice do no harm.
        source = f"{'late_' if late else ''}{table}{'' if self._members else ' FINAL'}"
        return f"SELECT {keys}, {self._numbers} FROM {source} WHERE {' AND '.join(where)}"  # noqa: S608 - values are bound

    def _of(self, part: Part, column: str, ranges: Sequence[Range], size: int) -> str:
        revision = self._statement.bind(part.meter.revision, "UInt32")
        return f"revision = {revision} AND ({self._among(column, ranges, size)})"

    def _among(self, column: str, ranges: Sequence[Range], size: int) -> str:
        """The condition that a cell lies in one of the ranges. Very many of them are told by their
        cells, or by those between them, whichever are fewer (at most CELLS_LISTED_MAX).
        """
        if len(ranges) <= CELL_RANGES_MAX:
            return " OR ".join(_within(column, one, size) for one in ranges)
        gaps = [(before[1], after[0]) for before, after in pairwise(ranges)]
        inside = _cells_in(ranges, size) <= _cells_in(gaps, size)
        cells = [
            cell
            for first, end in (ranges if inside else gaps)
            for cell in range(first // size, end // size)
        ]
        listed = self._statement.bind(cells, "Array(UInt32)")
        outer = _within(column, (ranges[0][0], ranges[-1][1]), size)
        return f"{outer} AND {column} {'IN' if inside else 'NOT IN'} {listed}"

    def _keys(self, part: Part, bucket: str, text: TextOf, run: str) -> str:
        query = self._query
        subject = ["subject"] if query.by_subject else []
        groups = (f"toLowCardinality({text(part.meter, name)})" for name in query.dimensions)
        keys = zip((bucket, *subject, *groups), keys_of(query), strict=True)
        named = [f"{key} AS {name}" for key, name in keys]
        return ", ".join([*named, f"{run} AS run"] if run else named)

    def _bucket_of(self, cell: str, size: int) -> str:
        """Of a cell. It lies in one window: one as long as windows are is a window."""
        minute = f"toUInt32({cell} * {size})"
        return minute if size == self._step else self._bucket(minute)

    def _bucket(self, minute: str) -> str:
        if self._query.window is None:
            return "toUInt32(0)"
        if self._query.window is WindowSize.MINUTE:
            return minute
        if self._step:
            first = self._starts[0]
            return f"toUInt32({first} + intDiv({minute} - {first}, {self._step}) * {self._step})"
        return f"toUInt32(roundDown({minute}, {self._bound}))"

    @property
    def _numbers(self) -> str:
        if self._members:
            return "member"
        return f"{_NUMBERS[self._query.meter.aggregation]}counted, rejected"


def _within(column: str, one: Range, size: int) -> str:
    return f"({column} >= {one[0] // size} AND {column} < {one[1] // size})"


def _cells_in(ranges: Sequence[Range], size: int) -> int:
    return sum(end // size - first // size for first, end in ranges)


def _step_of(starts: Sequence[int]) -> int:
    """How far apart the starts of windows are, in minutes; 0 where that is not always the same."""
    steps = {after - before for before, after in pairwise(starts)}
    return steps.pop() if len(steps) == 1 else 0


def uncovered(coverage: Coverage, statement: Statement, *, along_log: bool = False) -> str:
    """The condition that a row is of a slice that no block has. A lower bound of all partitions
    comes first: by it the index excludes rows. A table that is ordered `along_log` has an order
    that excludes them by partition.
    """
    ends = [coverage.ends.get(number, 0) for number in range(max(coverage.ends, default=0) + 1)]
    if along_log and coverage.alone and len(ends) <= _PARTITIONS_NAMED_MAX:
        parts = [f"(partition = {number} AND slice >= {end})" for number, end in enumerate(ends)]
        others = f"partition >= {len(ends)}"
        return (
            f"log = {coverage.log} AND slice >= {min(ends)} AND ({' OR '.join([*parts, others])})"
        )
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


def names_subjects(query: UsageQuery) -> bool:
    """Whether the query names its subjects: then they come first in the order that is read."""
    named = any(
        name == "subject" and it.operator in (Operator.EQ, Operator.IN)
        for name, it in query.filters
    )
    listed = any(it.comparison in (Comparison.EQ, Comparison.IN) for it in query.subjects)
    return named or (listed and not query.other_subjects)
