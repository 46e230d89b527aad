"""Tallies: the absolute aggregate of one cell in one slice, and how tallies merge
(docs/architecture.md, "Tallies").

Merging is commutative and associative, and `EMPTY` is its unit, so order and grouping never matter.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

Cell = tuple[int, str, str, int]
"""A cell: meter revision, subject, groups (JSON array text in the order of the meter's dimension
names), window (minutes since 1970 UTC). A plain tuple: one is made per event and meter.
"""


class Latest(NamedTuple):
    """The value of the greatest event, by (time, recordedtime, key)."""

    time_ms: int
    recorded_ms: int
    key: bytes
    value: int  # scaled


class Tally:
    """What one slice holds for one cell, while the slice is folded.

    A meter's aggregation decides which of total, extremes and latest are kept. `version` is the
    last position that changed the tally, `changed` says that its row was not taken since.
    """

    __slots__ = (
        "changed",
        "count",
        "latest",
        "maximum",
        "minimum",
        "rejected",
        "total",
        "version",
    )

    def __init__(self) -> None:
        self.total = 0  # sum of scaled values
        self.count = 0  # events that counted
        self.rejected = 0  # events that matched and had no usable value
        self.minimum: int | None = None
        self.maximum: int | None = None
        self.latest: Latest | None = None
        self.version = -1
        self.changed = False


class Aggregate(  # made by the million
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True
):
    """Merged tallies: what a query gets per row before the meter's aggregation makes one number of
    it.
    """

    total: int = 0
    count: int = 0
    rejected: int = 0
    minimum: int | None = None
    maximum: int | None = None
    latest: Latest | None = None
    members: frozenset[bytes] = frozenset()  # only where a minute is cut
    distinct: int = 0  # of unique counts; members included


EMPTY: Final = Aggregate()


def merged(one: Aggregate, other: Aggregate) -> Aggregate:
    """The aggregate of both.

    Distinct counts do not merge by addition: the store counts them over the whole span, and where
    a minute is cut the members themselves are merged.
    """
    return Aggregate(
        total=one.total + other.total,
        count=one.count + other.count,
        rejected=one.rejected + other.rejected,
        minimum=_pick(min, one.minimum, other.minimum),
        maximum=_pick(max, one.maximum, other.maximum),
        latest=_pick_latest(one.latest, other.latest),
        members=one.members | other.members,
        distinct=len(one.members | other.members),
    )


def aggregate_of(tally: Tally) -> Aggregate:
    """A frozen copy of a tally."""
    return Aggregate(
        tally.total, tally.count, tally.rejected, tally.minimum, tally.maximum, tally.latest
    )


def _pick(choose: Callable[[int, int], int], one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return choose(one, other)


def _pick_latest(one: Latest | None, other: Latest | None) -> Latest | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)
