"""Whether a process stays as it is under load (pure).

What is held saws: it grows with a slice and falls when that is sealed. So the tops are looked at,
one of each window of time, and never single samples.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from meterline.limits import SLICE_SPAN_MS

WARM_S: Final = 600.0  # caches fill, slices of all partitions were open once
WARM_SHARE: Final = 1 / 2  # of a short run: at most so much of it
WINDOWS: Final = 12
WINDOW_S: Final = SLICE_SPAN_MS / 1_000  # what open slices hold saws with it
WINDOWS_SHARE_MIN: Final = 2 / 3  # with a sample in them
ENOUGH_S: Final = WARM_S + 2 * WINDOW_S  # of a run: one window is compared with another
GROWTH_MAX: Final = 0.05
HANDLES_MORE_MAX: Final = 16  # whatever the share: files of a store are merged in steps
LAG_MAX_S: Final = 60.0  # the alert of freshness fires later
MEGABYTE: Final = 1_000_000

Points = Sequence[tuple[float, float]]
"""Seconds since the load began, and a value."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A claim about a run, whether it holds, and the figures."""

    claim: str
    holds: bool
    figures: str


def warm_s(run_s: float) -> float:
    """When a run of this length is warm."""
    return min(WARM_S, run_s * WARM_SHARE)


def windows_of(late_s: float) -> int:
    """How many windows there are in so much time. None is shorter than a slice may be, unless the
    run is too short to tell anyway.
    """
    whole = round(late_s / WINDOW_S)
    return min(whole, WINDOWS) if whole > 1 else WINDOWS


def tops(points: Points, from_s: float) -> list[float]:
    """The greatest value of each window of the time from then on; windows without one are left
    out.
    """
    late = [(at_s, value) for at_s, value in points if at_s >= from_s]
    if not late:
        return []
    first_s, last_s = late[0][0], late[-1][0]
    windows = windows_of(last_s - first_s)
    width_s = (last_s - first_s) / windows or 1.0
    found: dict[int, float] = {}
    for at_s, value in late:
        window = min(int((at_s - first_s) / width_s), windows - 1)
        found[window] = max(value, found.get(window, value))
    return [found[window] for window in sorted(found)]


@dataclass(frozen=True, slots=True)
class Grown:
    """How high the tops of a series are in the beginning and in the end; and how much it grows from
    one end to the other, if it grows evenly.
    """

    before: float
    after: float
    more: float

    @property
    def share(self) -> float:
        """What it grows by, as a share of what it was."""
        return self.more / self.before if self.before else float(self.more > 0)


def grown(points: Points, from_s: float) -> Grown | None:
    """How a series grows from then on: a third of its tops beside another. None: it is too short
    to tell.
    """
    found = tops(points, from_s)
    windows = windows_of(points[-1][0] - from_s) if points else WINDOWS
    if len(found) < windows * WINDOWS_SHARE_MIN:
        return None
    third = max(1, len(found) // 3)  # three windows of an hour: one peak does not decide
    before, after = median(found[:third]), median(found[-third:])
    whole = len(found) / (len(found) - third)
    return Grown(before, after, (after - before) * whole)


def memory_is_flat(process: str, points: Points, from_s: float) -> Judged:
    """Resident bytes of a process."""
    claim = f"memory of {process} is flat"
    it = grown(points, from_s)
    if it is None:
        return Judged(claim, holds=False, figures="too few samples")
    figures = (
        f"{it.before / MEGABYTE:,.0f} MB, then {it.after / MEGABYTE:,.0f} MB:"
        f" {it.share:+.1%} (at most {GROWTH_MAX:+.0%})"
    )
    return Judged(claim, it.share <= GROWTH_MAX, figures)


def handles_are_flat(process: str, points: Points, from_s: float) -> Judged:
    """Open file handles of a process, sockets too."""
    claim = f"file handles of {process} are flat"
    it = grown(points, from_s)
    if it is None:
        return Judged(claim, holds=False, figures="too few samples")
    most = max(HANDLES_MORE_MAX, it.before * GROWTH_MAX)
    figures = f"{it.before:,.0f}, then {it.after:,.0f}: {it.more:+,.0f} (at most {most:+,.0f})"
    return Judged(claim, it.more <= most, figures)


def stays_below(claim: str, points: Points, from_s: float, most: float, unit: str) -> Judged:
    """No sample is above a bound from then on."""
    late = [value for at_s, value in points if at_s >= from_s]
    if not late:
        return Judged(claim, holds=False, figures="no samples")
    figures = f"at most {max(late):,.1f} {unit} (bound {most:,.1f} {unit})"
    return Judged(claim, max(late) <= most, figures)


def meters_are_taken_on(made: int, took_s: Sequence[float]) -> Judged:
    """How long it took until all partitions were counted by a new meter. The last one may come too
    late in the run.
    """
    claim = "new meters are taken on"
    if not took_s:
        return Judged(claim, holds=False, figures=f"none of {made}")
    figures = f"{len(took_s)} of {made}, in {median(took_s):.0f} s, {max(took_s):.0f} s at most"
    return Judged(claim, len(took_s) >= made - 1, figures)


def nothing_is_lost(differences: Sequence[str]) -> Judged:
    """What the totals and the audit found."""
    figures = "; ".join(differences[:5]) if differences else "totals equal, the audit is clean"
    return Judged("nothing is lost or counted twice", not differences, figures)


def slopes(points: Mapping[str, Points], events: Points, from_s: float) -> dict[str, float]:
    """By process: bytes that its tops grow by for each million events that were counted meanwhile;
    those that cannot be told are left out.
    """
    counted = [value for at_s, value in events if at_s >= from_s]
    millions = (counted[-1] - counted[0]) / 1e6 if counted else 0.0
    if millions <= 0:
        return {}
    found = {name: grown(of, from_s) for name, of in points.items()}
    return {name: it.more / millions for name, it in found.items() if it is not None}


def by_minute(points: Points) -> list[float]:
    """The median of each minute; 0 for one without a sample."""
    found: dict[int, list[float]] = {}
    for at_s, value in points:
        found.setdefault(int(at_s // 60), []).append(value)
    return [median(found.get(minute, [0.0])) for minute in range(max(found, default=-1) + 1)]
