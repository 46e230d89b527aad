"""Completeness: "all recorded up to T is counted", a fact about the log (docs/architecture.md,
"Completeness").
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from aggregator.catch_up import ends_early
from aggregator.step import Aggregator

# The instant up to which every inbox record is in the log, asked at an instant; None: not known.
InboxDrained = Callable[[int], Awaitable[int | None]]


@dataclass(frozen=True, slots=True)
class Probe:
    """The end of a partition as its leader gave it when it was asked, and the instant that reaching
    it will prove.
    """

    until_ms: int
    end: int
    asked_ms: int


class Completeness:
    """Claims for the partitions of one worker. `lag_ms` = produce deadline + clock skew.

    Whatever was recorded at or before T = asked - lag is either below the end that the leader gave,
    or was answered with 503. So once all below that end is durable in the store, everything up to T
    is counted. Where inbox topics exist, T is no later than what they have brought into the log.
    """

    def __init__(
        self, aggregator: Aggregator, lag_ms: int, inbox_drained: InboxDrained | None = None
    ) -> None:
        self._aggregator = aggregator
        self._lag_ms = lag_ms
        self._inbox_drained = inbox_drained
        self._probes: dict[int, Probe] = {}

    @property
    def ends(self) -> dict[int, int]:
        """By partition, an end of the log that counting has yet to reach."""
        return {number: probe.end for number, probe in self._probes.items()}

    def behind_ms(self, now_ms: int) -> int:
        """For how long counting has had records before it that were in the log then."""
        return max((now_ms - probe.asked_ms for probe in self._probes.values()), default=0)

    async def probe(self, numbers: Iterable[int], now_ms: int) -> None:
        """Ask the leaders for the ends of partitions, unless an earlier answer still waits.

        `now_ms` is read before the call. A remembered end is never renewed: it only becomes a
        claim.
        """
        unasked = [number for number in numbers if number not in self._probes]
        until_ms: int | None = now_ms - self._lag_ms
        if self._inbox_drained is not None and unasked:
            # Before the ends, not after: what the inbox brought in by then lies below them.
            drained_ms = await self._inbox_drained(now_ms)
            until_ms = None if drained_ms is None else min(now_ms - self._lag_ms, drained_ms)
        if until_ms is None:
            return
        for number in unasked:
            # Before the end, not after: while the answer is under way, more is counted.
            partition = self._aggregator.partitions.get(number)
            counted = 0 if partition is None else partition.flushed_end
            end = await self._aggregator.log.end(number)
            if end < counted:
                raise ends_early(number, end, counted)
            self._probes[number] = Probe(until_ms, end, now_ms)

    async def claim(self) -> None:
        """Record a claim for every partition whose probe is reached by what was flushed."""
        aggregator = self._aggregator
        until_ms: dict[int, int] = {}
        for number, probe in list(self._probes.items()):
            partition = aggregator.partitions.get(number)
            if partition is None:
                del self._probes[number]
            elif partition.flushed_end >= probe.end:
                until_ms[number] = probe.until_ms
        if until_ms:
            await aggregator.progress.complete(
                aggregator.log.number, aggregator.catalogue.version, until_ms
            )
        for number in until_ms:
            del self._probes[number]
