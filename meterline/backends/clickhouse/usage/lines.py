"""Rows of an answer out of what the store tells: one line of JSON for each key, in their order."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from meterline.backends.clickhouse.usage.cache import Recall, add_to
from meterline.limits import ANSWER_ROWS_AT_ONCE, QUERY_ROWS_MAX
from meterline.meter import Aggregate, Aggregation, Latest, merged
from meterline.ports import Unavailable
from meterline.problem import Fault, Problem, invalid
from meterline.usage import Key, RowMaker, UsageRow


class Line(msgspec.Struct, forbid_unknown_fields=True):
    """What the statement gives for a row, by the names of `rows_statement`."""

    b: int
    k: tuple[str, ...]
    c: int
    r: int
    v: str | None = None
    l: tuple[str, str, str, str] | None = None  # noqa: E741 - a column, by its name
    d: int = 0
    s: int = 0
    m: tuple[str, ...] = ()


_lines: Final = msgspec.json.Decoder(Line)


class Lines:
    """Whole lines out of pieces, which end anywhere."""

    def __init__(self) -> None:
        self._unfinished = b""

    def take(self, piece: bytes) -> list[Line]:
        """The lines that a piece completes. Raises `Unavailable` where one is none."""
        whole, newline, self._unfinished = (self._unfinished + piece).rpartition(b"\n")
        if not newline:
            return []
        try:
            return _lines.decode_lines(whole)
        except msgspec.MsgspecError as error:  # its error, written where rows should be
            raise Unavailable(
                "usage store: the connection ended in the middle of an answer"
            ) from error

    def end(self) -> None:
        """No piece follows. Raises `Unavailable` where a line lacks its end."""
        if self._unfinished:
            raise Unavailable("usage store: the connection ended in the middle of a row")


class MergedRows:
    """Rows of an answer out of the store's lines and what stands aside: what cut minutes add, and
    what is known of blocks. Both are ordered by key.

    While it is `held` it makes no rows: more comes aside, and pieces wait for it.
    """

    def __init__(
        self,
        aggregation: Aggregation,
        maker: RowMaker,
        aside: Sequence[tuple[Key, Aggregate]],
        recalled: Recall,
        rows_max: int | None = QUERY_ROWS_MAX,
    ) -> None:
        self._aggregation = aggregation
        self._maker = maker
        self._aside = aside
        self._recalled = recalled
        self._rows_max = rows_max
        self._aside_at = 0
        self._lines = Lines()
        self._keys = 0
        self.held = False
        self._waiting = b""
        self._open: tuple[Key, Aggregate] | None = None  # of the last line, if more may follow

    def take(self, piece: bytes) -> list[UsageRow]:
        """The rows that a piece of lines completes. Pieces end anywhere."""
        if self.held:
            self._waiting += piece
            return []
        found: list[UsageRow] = []
        by_run = bool(self._recalled.minutes.runs)
        for line in self._lines.take(piece):
            key = (line.b, *line.k)
            aggregate = aggregate_of_line(self._aggregation, line)
            if by_run:
                self._add_run(found, line.s, key, aggregate)
            else:
                self._add(found, key, aggregate)
        if self._rows_max is not None and self._keys > self._rows_max:
            raise too_many(self._rows_max)
        return found

    async def joined_by(self, others: Mapping[Key, Aggregate]) -> list[UsageRow]:
        """The rows of what waited; others stand aside, too. Many are made beside the loop."""
        aside = dict(self._aside)
        add_to(aside, others)
        self._aside = sorted(aside.items())
        waiting = self.let_go()
        if waiting.count(b"\n") + len(aside) <= ANSWER_ROWS_AT_ONCE:
            return self.take(waiting)
        return await asyncio.to_thread(self.take, waiting)

    def let_go(self) -> bytes:
        """What waited, which is not held any more."""
        waiting, self._waiting, self.held = self._waiting, b"", False
        return waiting

    def _add_run(self, found: list[UsageRow], run: int, key: Key, aggregate: Aggregate) -> None:
        if run:
            self._recalled.take(run, key, aggregate)
        if self._open is not None and self._open[0] == key:
            aggregate = merged(self._open[1], aggregate)
        elif self._open is not None:
            self._add(found, *self._open)
        self._open = key, aggregate

    def _add(self, found: list[UsageRow], key: Key, aggregate: Aggregate) -> None:
        self._keys += 1
        if self._aside_at < len(self._aside):
            found += self._aside_before(key)
            if self._aside_at < len(self._aside) and self._aside[self._aside_at][0] == key:
                aggregate = merged(aggregate, self._aside[self._aside_at][1])
                self._aside_at += 1
        row = self._maker.row(key, aggregate)
        if row is not None:
            found.append(row)

    def _aside_before(self, key: Key) -> list[UsageRow]:
        first = self._aside_at
        while self._aside_at < len(self._aside) and self._aside[self._aside_at][0] < key:
            self._aside_at += 1
        self._keys += self._aside_at - first
        made = (self._maker.row(*one) for one in self._aside[first : self._aside_at])
        return [row for row in made if row is not None]

    def rest(self) -> list[UsageRow]:
        """The last row, and those aside that lie behind all lines."""
        self._lines.end()
        found: list[UsageRow] = []
        if self._open is not None:
            self._add(found, *self._open)
        made = (self._maker.row(*one) for one in self._aside[self._aside_at :])
        found += [row for row in made if row is not None]
        return found


def aggregate_of_line(aggregation: Aggregation, line: Line) -> Aggregate:
    """The aggregate, as far as the aggregation needs it."""
    if not line.c:
        return Aggregate(rejected=line.r)
    match aggregation:
        case Aggregation.SUM | Aggregation.AVG:
            return Aggregate(int(line.v or 0), line.c, line.r)
        case Aggregation.MIN:
            return Aggregate(count=line.c, rejected=line.r, minimum=int(line.v or 0))
        case Aggregation.MAX:
            return Aggregate(count=line.c, rejected=line.r, maximum=int(line.v or 0))
        case Aggregation.COUNT:
            return Aggregate(count=line.c, rejected=line.r)
        case Aggregation.LATEST:
            time, recorded, key, value = line.l or ("0", "0", "", "0")
            latest = Latest(int(time), int(recorded), bytes.fromhex(key), int(value))
            return Aggregate(count=line.c, rejected=line.r, latest=latest)
        case Aggregation.UNIQUE_COUNT:
            members = frozenset(map(bytes.fromhex, line.m))
            distinct = len(members) or line.d
            return Aggregate(count=line.c, rejected=line.r, members=members, distinct=distinct)


def too_many(rows_max: int) -> Problem:
    """What is said of an answer that has more rows."""
    return invalid(Fault("from", f"the answer has over {rows_max} rows; ask for less"))
