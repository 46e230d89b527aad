"""Controls of a log that grows: what keeps an event from counting twice, or not at all."""

from typing import Any, Final

from aggregator.slice.partition import Partition
from aggregator.step import Aggregator
from ingest.publisher import Publisher
from meterline.event import Layout, decode_record
from meterline.usage import SeenExtent, SeenSpan
from tests.simulation.parts import Lying, Substitutes
from tests.simulation.profile import GROWING, MINUTE_MS
from tests.simulation.progress import ProgressState


class WithoutHeritage(Lying):
    """A new partition knows nothing of the keys that its parent had."""

    async def seen_extent(self, span: SeenSpan) -> SeenExtent:
        if span.partitions > 1 and span.partition != span.heir:
            return SeenExtent(0, 0, 0)
        extent: SeenExtent = await self._port.seen_extent(span)
        return extent


class Impatient(Aggregator):
    """A new partition does not wait until its parent is counted up to the mark."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)

        async def begun(_: Layout, number: int) -> None:
            """Whatever is counted, once the log has the partition."""
            await self.log.end(number)  # or it is away

        change: Any = self._preparation
        change._check_begun = begun  # noqa: SLF001


class FromNothing(Aggregator):
    """A new partition begins with the append time of its own first record."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)

        async def reached(*_: object) -> int:
            return 0

        change: Any = self._preparation
        change._reached = reached  # noqa: SLF001


class WithStrays(Aggregator):
    """Behind a mark, events count wherever they lie."""

    async def prepared(self, number: int) -> Partition:
        partition = await super().prepared(number)
        partition.items_of = decode_record  # type: ignore[method-assign]
        return partition


def unrouted(publisher: Publisher) -> Publisher:
    """Success is told whatever partitions the log has got meanwhile."""
    change: Any = publisher
    change._check_routes = lambda _: None  # noqa: SLF001
    return publisher


def by_its_own_clock(publisher: Publisher) -> Publisher:
    """A gateway on a suspended machine goes by the clock of that machine."""
    looks = publisher._log.looks  # type: ignore[attr-defined]  # noqa: SLF001

    def holds(_broker: int, _partition: int, _append_ms: int, at_s: float) -> bool:
        return bool(looks.is_recent(at_s))

    looks.holds = holds
    return publisher


def unaware(state: ProgressState) -> None:
    """Whoever asks how complete everything is, is told of the partitions that it knows."""

    def complete_until(log: int, partitions: int, revision: int) -> int | None:
        layouts, state.layouts = state.layouts, {log: Layout(partitions)}
        try:
            return ProgressState.complete_until(state, log, partitions, revision)
        finally:
            state.layouts = layouts

    state.complete_until = complete_until  # type: ignore[method-assign]


# Somebody appends at every moment.
BUSY: Final = {"senders": 3, "events": 100, "gateways": 1}
CONTROLS: Final = {
    "keys that a new partition takes over": Substitutes(usage=WithoutHeritage, profile=GROWING),
    "new partitions that wait for their parents": Substitutes(
        aggregator=Impatient, profile=GROWING
    ),
    "append times that go on from a parent's": Substitutes(
        aggregator=FromNothing,
        profile=GROWING | {"clock_wobble_ms": 10 * MINUTE_MS, "horizon_ms": 20 * MINUTE_MS},
    ),
    "strays that do not count": Substitutes(aggregator=WithStrays, profile=GROWING),
    "gateways that know where events belong": Substitutes(publisher=unrouted, profile=GROWING),
    "looks by append times": Substitutes(
        publisher=by_its_own_clock, profile=GROWING | BUSY | {"clock_wobble_ms": 0}
    ),
    "completeness with new partitions": Substitutes(claims=unaware, profile=GROWING),
    "a wait before the marks": Substitutes(growth_waits=0, profile=GROWING | BUSY),
}
