"""Completeness: "everything recorded up to T is counted", as a fact about the log (design.md
section 4.3).
"""

from dataclasses import dataclass

from aggregator.step import Aggregator


@dataclass(frozen=True, slots=True)
class Probe:
    """The end of a partition as its leader gave it, and the instant before it was asked for."""

    asked_ms: int
    end: int


class Completeness:
    """Claims for the partitions of one worker. `lag_ms` = produce deadline + clock skew.

    Whatever was recorded at or before T = asked - lag is either below the end that the leader gave,
    or was answered with 503. So once all below that end is durable in the store, everything up to T
    is counted.
    """

    def __init__(self, aggregator: Aggregator, lag_ms: int) -> None:
        self._aggregator = aggregator
        self._lag_ms = lag_ms
        self._probes: dict[int, Probe] = {}

    async def probe(self, number: int, now_ms: int) -> int:
        """Ask the leader for the end of a partition unless an earlier answer still waits; the end
        is returned.

        `now_ms` is read before the call. A remembered end is never renewed: it only becomes a
        claim.
        """
        waiting = self._probes.get(number)
        if waiting is not None:
            return waiting.end
        end = await self._aggregator.log.end(number)
        self._probes[number] = Probe(now_ms, end)
        return end

    async def claim(self) -> None:
        """Record a claim for every partition whose probe is reached by what was flushed."""
        aggregator = self._aggregator
        until_ms: dict[int, int] = {}
        for number, probe in list(self._probes.items()):
            partition = aggregator.partitions.get(number)
            if partition is None:
                del self._probes[number]
            elif partition.flushed_end >= probe.end:
                until_ms[number] = probe.asked_ms - self._lag_ms
        if until_ms:
            await aggregator.progress.complete(
                aggregator.log.number, aggregator.catalogue.version, until_ms
            )
        for number in until_ms:
            del self._probes[number]
