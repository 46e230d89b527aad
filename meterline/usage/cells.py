"""Which stored cells answer which part of a span (pure): UTC days where they fit, then hours, then
minutes.

A cell answers a part only if it lies in one window of the query and within the span. So a window of
any time zone is put together exactly: nothing is prorated.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final, NamedTuple

from meterline.limits import CELL_RANGES_MAX, CELLS_LISTED_MAX

HOUR_MINUTES: Final = 60
DAY_MINUTES: Final = 24 * HOUR_MINUTES
Range = tuple[int, int]  # [first, end), in minutes since 1970 UTC
_EVER: Final = 1 << 32  # behind every minute


@dataclass(frozen=True, slots=True)
class Cells:
    """Disjoint ranges by the size of the cells that answer them, each in ascending order. Those of
    days and hours begin and end with a day or an hour (UTC).
    """

    days: tuple[Range, ...] = ()
    hours: tuple[Range, ...] = ()
    minutes: tuple[Range, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What is read for a span of minutes: `days` and `hours` of blocks, `minutes` of all slices,
    and of slices that no block has what the blocks would answer. Of these, `newest` is read among
    all tallies, and `late` among those that are kept along the log. Each event is in one of them.
    """

    days: tuple[Range, ...] = ()
    hours: tuple[Range, ...] = ()
    minutes: tuple[Range, ...] = ()
    newest: tuple[Range, ...] = ()
    late: tuple[Range, ...] = ()


def plan_of(
    first: int, end: int, starts: Sequence[int] | None, border: int | None, *, blocks: bool
) -> Plan:
    """The plan for [first, end), in minutes, with windows as in `cells_of`. Rows before the minute
    `border` are also kept along the log, where no block has their slice; None: blocks have none.
    Without `blocks` those that have the slices have no rows.
    """
    if border is None:
        return Plan(minutes=((first, end),))
    cells = cells_of(first, end, starts)
    covered = sorted((*cells.days, *cells.hours))
    return Plan(
        cells.days if blocks else (),
        cells.hours if blocks else (),
        cells.minutes,
        _clipped(covered, border, _EVER),
        _clipped(covered, 0, border),
    )


class Dropped(NamedTuple):
    """Cells of a minute before `minute` are not kept. Revisions of meters up to `catalogue` were in
    blocks by then, with all that was counted: of them, hours and days answer as before. From the
    notice on nobody reads them; they may be `gone` a day later.
    """

    minute: int
    catalogue: int
    gone: bool = True


class Need(StrEnum):
    """What is needed for an answer and not there."""

    MINUTES = "minutes"  # the question cuts hours, and these are all that is kept
    REVISION = "revision"  # it was made when what it would count by minute was not kept any more
    BLOCKS = "blocks"  # they do not reach so far at the moment


class Lack(NamedTuple):
    """What is not there of cells before a minute."""

    need: Need
    minute: int


def dropped_before(dropped: Iterable[Dropped]) -> int:
    """The minute from which on cells of a minute are kept; 0: all are."""
    return max((one.minute for one in dropped), default=0)


def whole_from(dropped: Iterable[Dropped], revision: int) -> int:
    """The minute from which on a revision has counted everything that it counts; 0: all."""
    return dropped_before(one for one in dropped if one.catalogue < revision)


def lack_of(
    plan: Plan, first: int, revision: int, border: int | None, dropped: Sequence[Dropped]
) -> Lack | None:
    """What a plan from the minute `first` on needs of a revision that is not kept; None: nothing.

    What hours and days answer is read of blocks and, of slices that no block has, along the log:
    there are all of their rows before the minute `border`. So no cell of a minute before it is
    needed, unless the plan names it.
    """
    before = dropped_before(dropped)
    if first >= before:
        return None
    if first < whole_from(dropped, revision):
        return Lack(Need.REVISION, whole_from(dropped, revision))
    if border is None or border < before:
        return Lack(Need.BLOCKS, before)
    if any(low < before for low, _ in plan.minutes):
        return Lack(Need.MINUTES, before)
    return None


def _clipped(ranges: Iterable[Range], low: int, high: int) -> tuple[Range, ...]:
    """What of the ranges lies in [low, high)."""
    clipped = ((max(first, low), min(end, high)) for first, end in ranges)
    return tuple((first, end) for first, end in clipped if first < end)


def cells_of(first: int, end: int, starts: Sequence[int] | None) -> Cells:
    """The coarsest cells that answer [first, end), in minutes. `starts` are the ascending starts of
    windows: none where everything is one window, None where each minute is one.

    Where windows need very many ranges of days, hours answer instead: their ranges join, unless the
    zone's offset is no whole hour. Then at most CELLS_LISTED_MAX minutes lie between them.
    """
    if first >= end:
        return Cells()
    if starts is None:
        return Cells(minutes=((first, end),))
    parts = _parts(first, end, starts)
    hourly, minutes = _whole(parts, HOUR_MINUTES)
    days, hours = _whole(hourly, DAY_MINUTES)
    if len(_joined(days)) > CELL_RANGES_MAX:
        days, hours = [], hourly
    scattered = len(_joined(hours)) > CELL_RANGES_MAX
    if scattered and sum(end - first for first, end in minutes) > CELLS_LISTED_MAX:
        days, hours, minutes = [], [], parts
    return Cells(_joined(days), _joined(hours), _joined(minutes))


def _parts(first: int, end: int, starts: Sequence[int]) -> list[Range]:
    """The span cut at the starts of windows."""
    cuts = [first, *(start for start in starts if first < start < end), end]
    return list(pairwise(cuts))


def _whole(parts: Iterable[Range], size: int) -> tuple[list[Range], list[Range]]:
    """Of each part the whole cells of a size, and what is left at its ends."""
    whole, rest = [], []
    for first, end in parts:
        begin, until = -(-first // size) * size, end // size * size
        if begin >= until:
            rest.append((first, end))
            continue
        whole.append((begin, until))
        rest += [(low, high) for low, high in ((first, begin), (until, end)) if low < high]
    return whole, rest


def _joined(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """The same minutes in as few ranges as can be."""
    joined: list[Range] = []
    for first, end in sorted(ranges):
        if joined and joined[-1][1] == first:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((first, end))
    return tuple(joined)


@dataclass(frozen=True, slots=True)
class Hidden:
    """Which rows of cells of a namespace are not read: all of `pseudonyms`; and of each subject in
    `erased`, those of older logs, and those of its log below its ends (by partition).
    """

    namespace: str
    revisions: tuple[int, ...]
    pseudonyms: tuple[str, ...] = ()
    erased: tuple[tuple[str, int, tuple[int, ...]], ...] = ()


def concerning(hidden: Iterable[Hidden], revisions: Collection[int]) -> tuple[Hidden, ...]:
    """Those that concern revisions of meters."""
    return tuple(it for it in hidden if not set(revisions).isdisjoint(it.revisions))
