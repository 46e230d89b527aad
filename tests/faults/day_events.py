"""A day of events, as columns: each follows from its place and the seed, so that a copy of an
earlier one is made by naming its place, and the totals are sums over columns.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

SUBJECTS: Final = 300
REGIONS: Final = 5
DAY_MS: Final = 86_400_000
HOUR_MS: Final = 3_600_000
START_MS: Final = int(datetime(2026, 1, 5, tzinfo=UTC).timestamp()) * 1_000
LATE_HOURS_MAX: Final = 6
HOURS: Final = 24 + LATE_HOURS_MAX  # a late event may belong to the day before
COPIES: Final = 20  # of a thousand events
LATE: Final = 10  # of a thousand
BAD: Final = 1  # of a thousand
REACH: Final = 500_000  # how far back a copy's first may lie
CHUNK: Final = 1_000_000

Whole = NDArray[np.int64]


def _mixed(places: Whole, seed: int, salt: int) -> NDArray[np.uint64]:
    """Splitmix64 over places: numbers without a pattern."""
    mixed = places.astype(np.uint64) + np.uint64((seed * 1_000_003 + salt * 7_919) % 2**63)
    with np.errstate(over="ignore"):
        mixed = (mixed + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(32)
    return mixed


@dataclass(frozen=True, slots=True)
class Columns:
    """Events by their firsts: an event that is a copy has all the values of its first."""

    first: Whole  # place of the first event with this identity: itself, if it is no copy
    subject: Whole
    region: Whole
    amount: Whole  # in thousandths
    bad: NDArray[np.bool_]
    time_ms: Whole


@dataclass(frozen=True, slots=True)
class Day:
    """So many events from a seed, whose times are spread evenly over a span."""

    events: int
    seed: int
    start_ms: int = START_MS
    span_ms: int = DAY_MS

    @property
    def first_hour(self) -> int:
        """The earliest hour that an event may lie in, counted from 1970."""
        return self.start_ms // HOUR_MS - LATE_HOURS_MAX

    def _draw(self, places: Whole, salt: int, below: int) -> Whole:
        drawn: Whole = (_mixed(places, self.seed, salt) % np.uint64(below)).astype(np.int64)
        return drawn

    def firsts(self, places: Whole) -> Whole:
        """For each place, that of the first event with its identity."""
        found = places.copy()
        while True:
            copies = (self._draw(found, 1, 1_000) < COPIES) & (found > 0)
            if not copies.any():
                return found
            these = found[copies]
            reach = np.minimum(these, REACH)
            back = (_mixed(these, self.seed, 2) % reach.astype(np.uint64)).astype(np.int64)
            found[copies] = these - 1 - back

    def columns(self, first: int, end: int) -> Columns:
        """The events at the places [first, end)."""
        firsts = self.firsts(np.arange(first, end, dtype=np.int64))
        late = self._draw(firsts, 7, 1_000) < LATE
        behind_ms = np.where(
            late, HOUR_MS + self._draw(firsts, 8, (LATE_HOURS_MAX - 1) * HOUR_MS), 0
        )
        return Columns(
            first=firsts,
            subject=self._draw(firsts, 3, SUBJECTS),
            region=self._draw(firsts, 4, REGIONS),
            amount=self._draw(firsts, 5, 100_000),
            bad=self._draw(firsts, 6, 1_000) < BAD,
            time_ms=self.start_ms + firsts * self.span_ms // self.events - behind_ms,
        )

    def body(self, first: int, end: int) -> bytes:
        """The request with these events."""
        of = self.columns(first, end)
        instants = np.datetime_as_string(of.time_ms.astype("datetime64[ms]")).tolist()
        rows = zip(
            of.first.tolist(),
            of.subject.tolist(),
            instants,
            of.amount.tolist(),
            of.bad.tolist(),
            of.region.tolist(),
            strict=True,
        )
        texts = [
            f'{{"specversion":"1.0","id":"{name}","source":"day","type":"usage",'
            f'"subject":"s-{subject}","time":"{instant}Z","data":{{"amount":'
            f'{f"{amount / 1000:.3f}" if not bad else _BAD},"region":"r-{region}"}}}}'
            for name, subject, instant, amount, bad, region in rows
        ]
        return f"[{','.join(texts)}]".encode()


_BAD: Final = '"none"'
METERS: Final[tuple[dict[str, object], ...]] = (
    {
        "key": "amounts",
        "name": "amounts",
        "aggregation": "sum",
        "event_type": "usage",
        "value_property": "$.amount",
        "dimensions": {"region": "$.region"},
    },
    {"key": "events", "name": "events", "aggregation": "count", "event_type": "usage"},
    {
        "key": "largest",
        "name": "largest",
        "aggregation": "max",
        "event_type": "usage",
        "value_property": "$.amount",
    },
)

Cell = tuple[Any, ...]
"""Hour, subject, and region where the meter has it."""


class DayOracle:
    """What must count, summed over the columns; it shares nothing with the fold."""

    def __init__(self, day: Day) -> None:
        shape = HOURS * SUBJECTS * REGIONS
        self.identities = 0
        self._amounts = np.zeros(shape, np.int64)
        self._numbers = np.zeros(shape, np.int64)
        self._events = np.zeros(shape, np.int64)
        self._largest = np.full(shape, -1, np.int64)
        for first in range(0, day.events, CHUNK):
            self._add(day, first, min(first + CHUNK, day.events))

    def _add(self, day: Day, first: int, end: int) -> None:
        of = day.columns(first, end)
        new = of.first == np.arange(first, end, dtype=np.int64)
        self.identities += int(new.sum())
        hour = of.time_ms // HOUR_MS - day.first_hour
        cell = (hour * SUBJECTS + of.subject) * REGIONS + of.region
        good = new & ~of.bad
        np.add.at(self._events, cell[new], 1)
        np.add.at(self._numbers, cell[good], 1)
        np.add.at(self._amounts, cell[good], of.amount[good])
        np.maximum.at(self._largest, cell[good], of.amount[good])

    def cells(self, meter: str) -> Iterator[tuple[Cell, tuple[int, int, int]]]:
        """By cell: value (amounts in thousandths), counted, rejected; only where some counted."""
        shape = (HOURS, SUBJECTS, REGIONS)
        events, numbers = self._events.reshape(shape), self._numbers.reshape(shape)
        value = {
            "amounts": self._amounts.reshape(shape),
            "events": events,
            "largest": self._largest.reshape(shape),
        }[meter]
        if meter != "amounts":
            value = value.max(axis=2) if meter == "largest" else value.sum(axis=2)
            events, numbers = events.sum(axis=2), numbers.sum(axis=2)
        counted = events if meter == "events" else numbers
        for at in zip(*(part.tolist() for part in np.nonzero(counted)), strict=True):
            of = int(counted[at])
            yield at, (int(value[at]), of, int(events[at]) - of)
