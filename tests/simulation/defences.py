"""Each defence of the product, taken away from the outside: ports that lie and steps that forget.

A bench that these pass is no bench. None of this is reachable from production.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from aggregator.catch_up import CountedMeanwhile, LogTruncated
from aggregator.completeness import Completeness, Probe
from aggregator.slice.ended import Holdings
from aggregator.slice.open_slice import OpenSlice
from aggregator.slice.partition import Partition
from aggregator.slice.sealing import Sealer
from aggregator.step import Aggregator
from dispatcher.runs.late import LateUsage
from ingest.admission import Admitted
from meterline.delivery import Answer, AttemptOutcome
from meterline.report import Claim, Manifest
from meterline.usage import Flush, Seal, SeenExtent, SeenSpan, Touched
from tests.simulation import (
    adopt_controls,
    block_controls,
    decay_controls,
    drop_controls,
    fill_controls,
    growth_controls,
    minute_controls,
    seen_controls,
    sum_controls,
)
from tests.simulation.erasing import controls as erasing_controls
from tests.simulation.erasing import lone_controls, order_controls
from tests.simulation.fates import Rates
from tests.simulation.parts import Lying, SealedOtherwise, Substitutes
from tests.simulation.profile import LOST, STEADY
from tests.simulation.stores import Seen
from tests.simulation.usage import SimulatedUsage, UsageState


class ForgetfulSeen(Lying):
    """No copy is ever recognised behind the border of its slice."""

    def get_many(self, keys: Sequence[bytes]) -> list[Seen | None]:
        return [None] * len(keys)


class ClaimingSeen(Lying):
    """A key is taken when it is looked up, without its position, as a deduplication cache does."""

    def get_many(self, keys: Sequence[bytes]) -> list[Seen | None]:
        keep = self._port._volume.keys  # noqa: SLF001
        found = self._port.get_many(keys)
        for key in keys:
            keep.setdefault(key, (-1, 1 << 50, bytes(8)))
        return list(found)


class HalfSlices(Aggregator):
    """A worker goes on where the last flush was, in the middle of a slice."""

    async def prepared(self, number: int) -> Partition:
        partition = await super().prepared(number)
        ends = await self.progress.flushed_ends(self.log.number, self.catalogue.version)
        partition.next_offset = max(partition.next_offset, ends.get(number, 0))
        return partition


class EagerSeen(Aggregator):
    """Verdicts of the open slice go to the seen store with every flush, not at the border."""

    async def flush(self) -> None:
        await super().flush()
        for partition in self.partitions.values():
            if partition.slice is not None:
                partition.seen.apply(partition.slice.new_keys(), partition.slice.end)


class Unversioned(Lying):
    """The row that is written last wins."""

    async def write(self, flush: Flush) -> None:
        state = self._port._state  # noqa: SLF001
        rows = [*flush.tallies]
        await self._port._net.call(  # noqa: SLF001
            "usage.write unversioned",
            lambda: (
                [state.tables["tallies"].pop(row[:7], None) for row in rows],
                state.write(flush),
            ),
            writes=True,
        )


class WithoutCatchUp(Lying):
    """A seen store that is behind stays behind."""

    async def seen_extent(self, _: SeenSpan) -> SeenExtent:
        return SeenExtent(0, 0, 0)


class Agreeing(Sealer):
    """The store holds what was written to it."""

    async def stored(self, slice_: OpenSlice) -> Holdings:
        return slice_.counted(), slice_.account()


class WithoutCountBack(SealedOtherwise):
    """A slice is sealed without asking the store what it holds."""

    sealed_by = Agreeing


class RememberedEnd(Completeness):
    """The end of a partition is where the worker itself is, not where the leader says."""

    async def probe(self, numbers: Iterable[int], now_ms: int) -> None:
        for number in numbers:
            partition = self._aggregator.partitions.get(number)
            if partition is not None and number not in self._probes:
                self._probes[number] = Probe(now_ms - self._lag_ms, partition.next_offset, now_ms)


class _Anything(int):
    """Equal to whatever it is compared with."""

    __hash__ = int.__hash__

    def __eq__(self, _other: object) -> bool:
        return True


class Careless(Aggregator):
    """Where records are gone that were not counted, counting goes on behind them."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._losses_accepted = defaultdict(_Anything)
        self._preparation._losses_accepted = self._losses_accepted  # noqa: SLF001

    async def prepared(self, number: int) -> Partition:
        self._losses_accepted[number]
        return await super().prepared(number)


class Remembering(Aggregator):
    """What the log has dropped is lost, also where another worker has counted it meanwhile."""

    async def prepared(self, number: int) -> Partition:
        try:
            return await super().prepared(number)
        except CountedMeanwhile as error:
            raise LogTruncated(str(error)) from error

    async def check_truncation(self, number: int) -> None:
        try:
            await super().check_truncation(number)
        except CountedMeanwhile as error:
            raise LogTruncated(str(error)) from error


class SealOfNewest(Lying):
    """A seal does not say by which catalogue its slice was folded."""

    async def seal(self, seal: Seal) -> None:
        await self._port.seal(seal._replace(catalogue=1 << 30))


class WithoutDigests(Lying):
    """A seal does not say what the log held at its end."""

    async def last_seal(self, log: int, partition: int) -> Seal | None:
        seal: Seal | None = await self._port.last_seal(log, partition)
        return None if seal is None else seal._replace(digest=None)


ASKED: Final = ("seen_extent", "seen_keys", "slice_events", "raw_events", "usage")


class AnyReplica(Lying):
    """Reads that need all that was written are answered by a replica that lags."""

    def __getattr__(self, name: str) -> Any:
        if name not in ASKED:
            return super().__getattr__(name)
        state: UsageState = self._port._state  # noqa: SLF001
        lagging = state if state.replicated is None else state.replica(state.replicated)
        return getattr(SimulatedUsage(lagging, self._port._net), name)  # noqa: SLF001


class OneCatalogue(Lying):
    """Claims do not say by which catalogue they were made."""

    async def complete(self, log: int, _catalogue: int, until_ms: Mapping[int, int]) -> None:
        await self._port.complete(log, 1 << 30, until_ms)


class AgreeingAccounts(Sealer):
    """The account that the store holds is what was written."""

    async def stored(self, slice_: OpenSlice) -> Holdings:
        counted, _ = await super().stored(slice_)
        return counted, slice_.account()


class WithoutAccount(SealedOtherwise):
    """The account of a slice is not looked at before it is sealed."""

    sealed_by = AgreeingAccounts


class LatePublisher(Lying):
    """Success is told however long after the events were recorded."""

    async def publish(self, events: Sequence[Admitted], _recorded_ms: int, partitions: int) -> None:
        await self._port.publish(events, None, partitions)


class Unturnable(Lying):
    """A worker believes its clock only when it goes on: set back, it waits to be there again."""

    def now_ms(self) -> int:
        latest: int = max(self.__dict__.get("latest", 0), self._port.now_ms())
        self.__dict__["latest"] = latest
        return latest


class NothingTouched(Lying):
    """No late event is found where the log is looked at."""

    async def touched(self, *_: Any) -> list[Touched]:
        return []


def blind(late: LateUsage) -> LateUsage:
    """It looks, and sees nothing."""
    sources = late._sources  # noqa: SLF001
    late._sources = replace(sources, events=NothingTouched(sources.events))  # noqa: SLF001
    return late


class Unmarked(Lying):
    """A run does not see that the log behind what it counted is looked at already."""

    def __init__(self, port: Any) -> None:
        super().__init__(port)
        port.state.overtaken = lambda *_: None

    async def decide(self, *told: Any) -> bool:
        await asyncio.sleep(12)  # which it may take anyhow
        return bool(await self._port.decide(*told))


class Hopeful(Lying):
    """What was sent is taken for delivered, whether an answer came or not."""

    async def send(self, *told: Any) -> Answer:
        answer: Answer = await self._port.send(*told)
        return Answer(AttemptOutcome.DELIVERED, answer.duration_ms, 204)


class Unasked(Lying):
    """Who holds a run decides it, whatever of it is staged."""

    def __init__(self, port: Any) -> None:
        super().__init__(port)
        port.state.whole = lambda *_: True


class EveryWinner(Lying):
    """Whoever has made the bodies of a run decides it."""

    async def decide(self, claim: Claim, revision: int, manifest: Manifest, now_ms: int) -> bool:
        await self._port.net.call(
            "reports.decide by whoever",
            lambda: self._port.state.appoint(claim, revision, manifest, now_ms),
            writes=True,
        )
        return True


# Where it matters most: nothing is read again, which would mend what was forgotten.
LOSSY: Final = {"lossy": 0.4, "meters_change_s": 60.0, "workers_die_s": 60.0}
STANDING_STILL: Final = {"rates": Rates(zombie=20), "wild_clocks": False, "lossy": 0.0}
# Several owners who do not take on new meters together, and few slices that wait to be filled in.
UNLIKE: Final = {
    "faust": False,
    "workers": 3,
    "meters_change_s": 0.7,
    "flush_interval_ms": 1_000,
    "rates": Rates(slow=40, crash=0, zombie=0),
    "workers_die_s": 60.0,
    "outages_s": 60.0,
    "jump_ms_max": 2_000,
    "wild_clocks": False,
    "lossy": 0.0,
}
REPEATED: Final = {"dispatchers": 3, "rates": Rates(crash=1, late=50, twice=70)}
CROWDED: Final = {"dispatchers": 3}
UNREACHED: Final = {"dispatchers": 3, "rates": Rates(refused=30, crash=1)}
CONTROLS: Final[dict[str, Substitutes]] = {
    "first position wins": Substitutes(seen=ClaimingSeen),
    "seen store": Substitutes(seen=ForgetfulSeen),
    "whole slices": Substitutes(aggregator=HalfSlices),
    "version": Substitutes(usage=Unversioned, profile=STEADY),
    "overlay": Substitutes(aggregator=EagerSeen),
    "catch-up from the seen table": Substitutes(usage=WithoutCatchUp),
    "count-back": Substitutes(aggregator=WithoutCountBack, profile=LOSSY),
    "completeness from the leader's end": Substitutes(completeness=RememberedEnd),
    "the last seal, before records are said to be lost": Substitutes(aggregator=Remembering),
    "catalogue in the seal": Substitutes(progress=SealOfNewest),
    "one winner per materialization": Substitutes(reports=EveryWinner),
    "decided is what was staged": Substitutes(reports=Unasked, profile=REPEATED),
    "delivered is what was answered": Substitutes(sender=Hopeful, profile=UNREACHED),
    "the search for late usage": Substitutes(late=blind),
    "runs that mark themselves": Substitutes(reports=Unmarked, profile=CROWDED),
    "success within the produce deadline": Substitutes(
        publisher=LatePublisher, profile=STANDING_STILL
    ),
    "the account in the count-back": Substitutes(aggregator=WithoutAccount, profile=LOSSY),
    "pauses that end when a clock is set back": Substitutes(
        clock=Unturnable, profile={"wild_clocks": True}
    ),
    "proved prefix": Substitutes(aggregator=Careless, profile={"expire_ms": 300_000}),
    "the inbox in the completeness": Substitutes(inbox_watched=False),
    "the digest in the seal": Substitutes(progress=WithoutDigests, profile={"log_restored": True}),
    "one pinned replica": Substitutes(usage=AnyReplica, profile={"replicas_lag": True}),
    "the comparison of both stores": Substitutes(usage_compared=False, profile=LOST),
    "the life of the store": Substitutes(life_demanded=False, profile=LOST),
    "completeness by catalogue": Substitutes(progress=OneCatalogue, profile=UNLIKE),
    **adopt_controls.CONTROLS,
    **block_controls.CONTROLS,
    **fill_controls.CONTROLS,
    **sum_controls.CONTROLS,
    **seen_controls.CONTROLS,
    **erasing_controls.CONTROLS,
    **order_controls.CONTROLS,
    **lone_controls.CONTROLS,
    **drop_controls.CONTROLS,
    **decay_controls.CONTROLS,
    **minute_controls.CONTROLS,
    **growth_controls.CONTROLS,
}
