"""Late usage: finds events that arrived after the run of their window, and requests a revision of
that run (docs/decisions/0022).

No clock decides what is late. Each final run records how far the log was counted when it read the
usage. Events behind that are late for it. Each sealed slice is searched once, also after a crash.
Open slices are searched before their end too, so that a revision does not wait for it.

An event within the grace is not late: its run waits for it (`schedule.py`). An event that is too
old is refused when it is sent (`AdmissionRules.span` in `ingest/admission.py`).
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dispatcher.runs.failing import Unread
from meterline import limits
from meterline.meter import Catalogue, CatalogueStore
from meterline.report import DecidedWindow, LateStore, Unreadable
from meterline.usage import LateEvents, ProgressStore, Stretch, Touched
from meterline.window import DAY_MS, MINUTE_MS


@dataclass(frozen=True, slots=True)
class LateSources:
    """The stores that late usage is found in."""

    late: LateStore
    events: LateEvents
    catalogue: CatalogueStore
    progress: ProgressStore


@dataclass(frozen=True, slots=True)
class LateTerms:
    """When late usage is looked for and becomes a revision. `grace_ms` is what runs wait for after
    their windows: a glance looks at what is later only.
    """

    log: int
    partitions: int
    grace_ms: int = limits.GRACE_MS
    settle_ms: int = limits.LATE_SETTLE_MS
    pause_ms: int = limits.REVISION_PAUSE_S * 1_000
    revised_ms: int = limits.REVISED_DAYS * DAY_MS
    events_max: int = limits.LATE_EVENTS_MAX


@dataclass(frozen=True, slots=True)
class Span:
    """Meters, and a span of time in which their windows are asked for."""

    meter_ids: tuple[str, ...]
    from_ms: int
    to_ms: int


class TouchedMinutes:
    """Minutes that new events of meters lie in, and how far down the log (pure)."""

    def __init__(self, catalogue: Catalogue, found: Collection[Touched]) -> None:
        by_type = defaultdict(list)
        for one in found:
            by_type[one.namespace, one.type].append(one)
        # (partition, last offset) by meter and minute. Every revision of a meter that is folded
        # may have answered a run.
        self._last: dict[str, dict[int, list[tuple[int, int]]]] = {}
        for meter in catalogue.meters:
            for one in by_type.get((meter.namespace, meter.event_type), ()):
                minutes = self._last.setdefault(meter.id, {})
                minutes.setdefault(one.minute, []).append((one.partition, one.offset))
        self._minutes = {meter_id: sorted(last) for meter_id, last in self._last.items()}

    def spans(
        self,
        minutes_apart: int = limits.LATE_MINUTES_APART,
        minutes_max: int = limits.LATE_SPAN_MINUTES,
    ) -> Iterator[Span]:
        """Where to look for windows: meters, and spans that hold all their minutes. Minutes that
        lie far apart are in spans of their own, and no span is longer than so many minutes.
        """
        together: dict[tuple[int, int], list[str]] = {}
        for meter_id, minutes in self._minutes.items():
            first = before = minutes[0]
            for minute in minutes[1:]:
                if minute - before > minutes_apart or minute - first >= minutes_max:
                    together.setdefault((first, before + 1), []).append(meter_id)
                    first = minute
                before = minute
            together.setdefault((first, before + 1), []).append(meter_id)
        for (first, end), meter_ids in sorted(together.items()):
            yield Span(tuple(sorted(meter_ids)), first * MINUTE_MS, end * MINUTE_MS)

    def touch(self, log: int, window: DecidedWindow) -> bool:
        """Whether an event of the window lies behind what its run had counted."""
        last = self._last.get(window.meter_id, {})
        minutes = self._minutes.get(window.meter_id, [])
        counted = window.counted
        ends = {} if counted is None or counted.log != log else dict(counted.ends)
        first = bisect_left(minutes, window.from_ms // MINUTE_MS)
        end = bisect_left(minutes, -(-window.to_ms // MINUTE_MS))
        return any(
            offset >= ends.get(partition, 0)
            for place in range(first, end)
            for partition, offset in last[minutes[place]]
        )


async def look(sources: LateSources, terms: LateTerms, now_ms: int) -> int:
    """Look at the next sealed slices of each partition: mark the windows they touch; how many
    stretches of the log were looked at. Everything is when it is 0.
    """
    late, log = sources.late, terms.log
    stretches = await late.unlooked(log, terms.partitions, terms.events_max)
    if not stretches:
        return 0
    ends = {one.partition: one.end for one in stretches}
    # First, so that a run that is decided from now on knows; a run from before is found below, with
    # the catalogue that answered it.
    await late.begin_look(log, ends)
    await _mark(sources, terms, stretches, now_ms)
    await late.end_look(log, ends)
    return len(stretches)


async def glance(
    sources: LateSources, terms: LateTerms, glanced: Mapping[int, int], now_ms: int
) -> dict[int, int]:
    """Mark what events of open slices touch that came long after their time; how far everything was
    glanced at, by partition. Nothing rests on it: each slice is looked at once it is sealed.
    """
    flushed = await sources.progress.flushed_ends(terms.log, 0)
    looked = await sources.late.looked(terms.log)
    firsts = {number: max(glanced.get(number, 0), looked.get(number, 0)) for number in flushed}
    stretches = [
        Stretch(n, firsts[n], end) for n, end in sorted(flushed.items()) if end > firsts[n]
    ]
    if stretches:
        await _mark(sources, terms, stretches, now_ms, terms.grace_ms)
    return flushed


async def _mark(
    sources: LateSources,
    terms: LateTerms,
    stretches: Sequence[Stretch],
    now_ms: int,
    late_by_ms: int | None = None,
) -> None:
    late, log = sources.late, terms.log
    reported = await late.reported_meters()
    if not reported:
        return
    catalogue = await sources.catalogue.catalogue()
    types = {(m.namespace, m.event_type) for m in catalogue.meters if m.id in reported}
    found: list[Touched] = []
    for stretch in stretches:
        found += await sources.events.touched(log, stretch, types, late_by_ms)
    minutes = TouchedMinutes(catalogue, found)
    since_ms = now_ms - terms.revised_ms
    for span in minutes.spans():
        page: list[DecidedWindow] = []
        while True:
            page = await late.decided_windows(
                span.meter_ids,
                span.from_ms,
                span.to_ms,
                since_ms,
                limits.LATE_WINDOWS_READ_MAX,
                page[-1] if page else None,
            )
            touched = [window for window in page if minutes.touch(log, window)]
            if touched:
                await late.mark(touched, now_ms + terms.settle_ms)
            if len(page) < limits.LATE_WINDOWS_READ_MAX:
                break


async def revise(late: LateStore, terms: LateTerms, now_ms: int, unread: Unread) -> int:
    """Ask for a revision of each window that is due for one; how many there are."""
    asked = 0
    for window in await late.due_windows(now_ms, terms.pause_ms, limits.LATE_RUNS_MAX):
        run = await late.revise_late(window, now_ms)
        if isinstance(run, Unreadable):
            unread.tell([run], now_ms)
        else:
            asked += run is not None
    return asked


class LateUsage:
    """The steps above, each when it is due, by the instants it is given."""

    def __init__(self, sources: LateSources, terms: LateTerms) -> None:
        self._sources = sources
        self._terms = terms
        self._glanced: dict[int, int] = {}
        self._looked_ms = 0
        self._unread = Unread()

    async def turn(self, now_ms: int) -> int:
        """Find late usage and ask for revisions; how many there are. Call it again soon: a turn
        looks at a bounded part of the log. Raises `Unavailable`: call again after a while.
        """
        sources, terms = self._sources, self._terms
        due = not 0 <= now_ms - self._looked_ms < limits.LATE_LOOK_MS
        if due and not await look(sources, terms, now_ms):
            self._glanced = await glance(sources, terms, self._glanced, now_ms)
            self._looked_ms = now_ms
        return await revise(sources.late, terms, now_ms, self._unread)
