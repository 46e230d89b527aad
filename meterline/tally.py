"""Tallies: the absolute aggregate of one cell in one slice, and how tallies merge (design.md section 4.1).

Merging is commutative and associative, and `EMPTY` is its unit, so order and grouping never matter.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple


class Cell(NamedTuple):
    """One window of one subject and group of one meter revision."""

    revision: int
    subject: str
    groups: str  # JSON array of the values, in the order of the meter's dimension names
    window: int  # minutes since 1970 UTC


class Latest(NamedTuple):
    """The value of the greatest event; never decided by position, so that both set-ups agree."""

    time_ms: int
    recorded_ms: int
    key: bytes
    value: int  # scaled


class Tally:
    """What one slice holds for one cell. Mutable while its slice is folded; `version` is the last position."""

    __slots__ = ("count", "latest", "maximum", "minimum", "rejected", "total", "version")

    def __init__(self) -> None:
        self.total = 0  # sum of scaled values
        self.count = 0  # events that counted
        self.rejected = 0  # events that matched and had no usable value
        self.minimum: int | None = None
        self.maximum: int | None = None
        self.latest: Latest | None = None
        self.version = -1

    def add(self, value: int, time_ms: int, recorded_ms: int, key: bytes) -> None:
        """Count one event with its scaled value."""
        self.total += value
        self.count += 1
        if self.minimum is None or value < self.minimum:
            self.minimum = value
        if self.maximum is None or value > self.maximum:
            self.maximum = value
        latest = self.latest
        if latest is None or (time_ms, recorded_ms, key) > (latest[0], latest[1], latest[2]):
            self.latest = Latest(time_ms, recorded_ms, key, value)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Merged tallies: what a query gets per row before the meter's aggregation makes one number of it."""

    total: int = 0
    count: int = 0
    rejected: int = 0
    minimum: int | None = None
    maximum: int | None = None
    latest: Latest | None = None
    members: frozenset[bytes] = field(default=frozenset())  # only where a minute is cut
    distinct: int = 0  # of unique counts; members included


EMPTY: Final = Aggregate()


def merged(one: Aggregate, other: Aggregate) -> Aggregate:
    """The aggregate of both. (Distinct counts do not merge: the store counts them over the whole span.)"""
    return Aggregate(
        total=one.total + other.total,
        count=one.count + other.count,
        rejected=one.rejected + other.rejected,
        minimum=_pick(min, one.minimum, other.minimum),
        maximum=_pick(max, one.maximum, other.maximum),
        latest=_later(one.latest, other.latest),
        members=one.members | other.members,
        distinct=len(one.members | other.members),
    )


def aggregate_of(tally: Tally) -> Aggregate:
    """A frozen copy of a tally."""
    return Aggregate(
        tally.total, tally.count, tally.rejected, tally.minimum, tally.maximum, tally.latest
    )


def _pick(
    choose: Callable[[int, int], int], one: int | None, other: int | None
) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return choose(one, other)


def _later(one: Latest | None, other: Latest | None) -> Latest | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)
