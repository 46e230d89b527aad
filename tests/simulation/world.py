"""A world made from a seed: who lives in it and what befalls them, until it comes to rest."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from aggregator.housekeeping import Housekeeping
from aggregator.step import Aggregator
from dispatcher.runs.late import LateSources, LateUsage
from dispatcher.runs.planner import PlanTerms, Sources
from meterline.event import Record
from meterline.ports import Unsuitable
from meterline.usage import CheckedLateEvents, CheckedUsageStore, Masks
from tests.simulation.block_makers import make_for_ever, maker_of
from tests.simulation.blocks import BlocksState
from tests.simulation.couriers import (
    Outbox,
    Receivers,
    SendingReports,
    SimulatedSender,
    send_for_ever,
)
from tests.simulation.decay import Decay, Watched
from tests.simulation.dropping import DropsState
from tests.simulation.erasing.records import ErasuresState, SimulatedErasureLedger
from tests.simulation.fates import CALM, Fates
from tests.simulation.group import Committed, Group, SimulatedFaustWorker, Stream
from tests.simulation.inbox import InboxState, SimulatedWatch, read_for_ever
from tests.simulation.late import LateState, SimulatedLate, late_terms
from tests.simulation.log import LogState, SimulatedLog
from tests.simulation.lost_store import Binding, begun
from tests.simulation.minutes import MinutesState, drop_for_ever
from tests.simulation.network import FatefulNet, Killed, Net, Process, Time
from tests.simulation.parts import Claimed, Shown, Slot, Substitutes
from tests.simulation.profile import drawn
from tests.simulation.progress import ProgressState, SimulatedProgress
from tests.simulation.reports import (
    LEASE_MS,
    ReportsState,
    SimulatedReports,
    plan_for_ever,
    revise_for_ever,
)
from tests.simulation.senders import Gateway, Ledger, Senders
from tests.simulation.spool import SimulatedSpool
from tests.simulation.stores import CatalogueState, SimulatedCatalogue, SimulatedSeen, Volume
from tests.simulation.summing import SumsState, retention_of
from tests.simulation.usage import SimulatedUsage, UsageState
from tests.simulation.virtual_loop import VirtualLoop
from tests.simulation.workers import DiskFull, Ports, Terms, housekept, may_end_so, poll

REST_S: Final = 3.2  # after the last fault: what is late lands, who stands still wakes
REST_S_MAX: Final = 90.0  # after the last fault everything is counted within this
SKEW_MS: Final = 450  # of a process: two differ by less than the bound


class World:
    """Everything that outlives a process, and the processes."""

    erase: Callable[[Slot, Net], list[Awaitable[None]]]  # where subjects are: see `erasing.course`

    def __init__(
        self,
        seed: int,
        substitutes: Substitutes | None = None,
        trace: Callable[[str], None] | None = None,
    ) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.substitutes = substitutes or Substitutes()
        self.profile = replace(drawn(self.rng), **self.substitutes.profile)
        self.loop = VirtualLoop()
        self.time = Time(self.loop)
        self.fates = Fates(self.rng, self.profile.rates)
        # Of dispatchers: they have most to do when all is counted, so theirs last longer.
        self.dispatch_fates = Fates(self.rng, self.profile.rates)
        self.dispatch_fates.dealt, self.dispatch_fates.away = self.fates.dealt, self.fates.away
        self.log = LogState("log", self.profile.partitions, self.time, self.rng)
        self.log.gaps, self.log.lags = self.profile.gaps, self.profile.lags
        self.log.clock_wobble_ms = self.profile.clock_wobble_ms
        self.usage = UsageState(self.rng)
        self.usage.forgets_by(self.rng, self.profile.lossy)
        self.progress = ProgressState(self.rng)
        self._lay_out()
        self.blocks = BlocksState(self.usage, self.progress)
        self.substitutes.blocks(self.blocks)
        self.binding = Binding(self.usage, self.progress, self.blocks)
        self.progress.watch = self._note_claims
        self.catalogue = CatalogueState(self.rng)
        self.erasures = ErasuresState(self.progress, self.blocks, self.catalogue)
        self.substitutes.erasures(self.erasures)
        self.sums = SumsState(self.progress, self.blocks, self.catalogue)
        self.substitutes.sums(self.sums)
        self.drops = DropsState(self.binding, self.catalogue, self.sums, self.profile)
        self.substitutes.drops(self.drops)
        self.decay = Decay(self.usage, self.progress, self.rng)
        self.minutes = MinutesState(self.binding, self.catalogue, self.sums, self.profile)
        self.substitutes.minutes(self.minutes)
        self.committed = Committed()
        self.reports = ReportsState()
        self.catalogue.reported = self.reports.is_on
        self.outbox = Outbox(self.reports)
        self.receivers = Receivers(self.rng)
        self.late = LateState(self.reports, self.progress, self.usage)
        self.sums.late = self.late if self.profile.dispatchers else None
        self.inbox = InboxState(self.time)
        self.ledger = Ledger()
        self.restored: dict[int, list[Record]] = {}  # all records that there were before
        self.claimed: list[Claimed] = []
        self.shown: list[Shown] = []
        self.failures: list[str] = []
        self.gateways: list[Gateway] = []
        self.groups: dict[str, Group] = {}
        self.over, self.differed, self.turns = False, 0, 0  # what was heard of: see `hear`
        self.asked: CheckedUsageStore | None = None  # by whoever asks for usage
        self._trace = trace
        self.senders = Senders(
            self.rng, lambda: self.gateways, self.time.now_ms, self.ledger, self.profile.spread_ms
        )
        self.senders.reported = self.reports.windows

    def _lay_out(self) -> None:
        self.progress.layouts[self.log.number] = self.log.layout
        self.log.grows = self.progress.grows = bool(self.profile.grows)
        self.substitutes.claims(self.progress)
        self.progress.laid_out = partial(setattr, self.log, "layout")

    @property
    def partitions(self) -> int:
        return len(self.log.partitions)

    def replicate(self) -> None:
        """What a lagging replica says is of now."""
        self.progress.replica = self.progress.copied()
        self.catalogue.replica = self.catalogue.catalogue()
        self.usage.replicated = self.usage.writes

    @property
    def claims_hold(self) -> bool:
        """Whether claims mean anything in this world."""
        return not (self.profile.wild_clocks or self.profile.lossy)

    def say(self, line: str) -> None:
        """A line of the trace."""
        if self._trace is not None:
            self._trace(f"{self.loop.time():9.4f} {self.time.now_ms() % 10**8:>9} {line}")

    def hear(self, line: str) -> None:
        """What the product logs."""
        self.differed += "count_back_differs" in line
        self.turns += "open_slices_take_turns" in line
        self.say(line)

    def fail(self, what: str) -> None:
        """Something is wrong; the world goes on, but is not believed."""
        self.say(f"WRONG: {what}")
        self.failures.append(what)

    def _note_claims(self, catalogue: int, until_ms: Any) -> None:
        for partition, until in until_ms.items():
            self.claimed.append(Claimed(catalogue, partition, until, self.usage.writes))

    # --- processes ---

    def process(self, name: str) -> Process:
        """A new one."""
        skew = SKEW_MS if not self.profile.wild_clocks else 3_600_000
        return Process(name, self.time, self.loop, self.rng.randrange(-skew, skew + 1))

    def net(self, process: Process, fates: Fates | None = None) -> FatefulNet:
        """What a process reaches others by."""
        trace = None if self._trace is None else self.say
        return FatefulNet(process, fates or self.fates, self.loop, trace)

    def masks(self, net: Net) -> Masks | None:
        """What is hidden, as a process reaches it; None where nobody is ever erased."""
        masks = self.substitutes.masks(Masks(SimulatedErasureLedger(self.erasures, net)))
        return masks if self.profile.erases_s else None

    def ports(self, slot: Slot) -> Ports:
        """What a worker is made of."""
        net, change = self.net(slot.process), self.substitutes

        def open_seen(number: int) -> Any:
            volume = slot.disk.volume(number)

            def before(volume: Volume) -> None:
                slot.disk.keep_copy(number, volume)
                if not self.fates.calm and self.rng.random() < 0.004:
                    self.fates.note("disk full")
                    raise DiskFull

            return change.seen(SimulatedSeen(volume, net, before))

        return Ports(
            change.log(SimulatedLog(self.log, net)),
            change.usage(self._usage_of(slot, net)),
            change.progress(SimulatedProgress(self.progress, net)),
            SimulatedCatalogue(self.catalogue, net),  # type: ignore[arg-type]
            open_seen,
        )

    def _usage_of(self, slot: Slot, net: FatefulNet) -> Any:
        usage = SimulatedUsage(self.usage, net)
        usage.masks = self.masks(net)
        if self.profile.decays:
            return Watched(usage, self.decay, slot.process)
        return usage if slot.integrity is None else CheckedUsageStore(usage, slot.integrity)

    @property
    def compares(self) -> bool:
        """Whether each start and each answer compares both stores: where one may be lost."""
        return self.profile.usage_lost and self.substitutes.usage_compared

    async def _compare(self, slot: Slot) -> None:
        if self.compares:
            log, partitions, of = self.log.number, self.profile.partitions, slot.process.name
            slot.integrity = await begun(self.binding, self.net(slot.process), log, partitions, of)

    async def keep_alive(self, slot: Slot, live: Callable[[Slot], Awaitable[None]]) -> None:
        """One life after the other, as whatever supervises a process does."""
        while not self.over:
            slot.lives += 1
            slot.process = self.process(f"{slot.name}.{slot.lives}")
            self.say(f"{slot.process.name} begins")
            life = asyncio.ensure_future(live(slot))
            await asyncio.wait({life, slot.process.ended}, return_when=asyncio.FIRST_COMPLETED)
            if life.done():
                self._judge_end(slot, life)
            slot.process.die()
            self.say(f"{slot.process.name} is gone")
            await asyncio.sleep(self.rng.random() * 0.5)

    def _judge_end(self, slot: Slot, life: "asyncio.Future[None]") -> None:
        if life.cancelled():
            return
        error = life.exception()
        if isinstance(error, Killed):
            return
        if error is not None:
            self.fates.note(f"worker stopped by {type(error).__name__}")
            self.say(f"{slot.process.name}: {error!r}")
        if isinstance(error, Unsuitable) and self.binding.lost is not None:
            return
        if not may_end_so(error, self.profile, restored=bool(self.restored)):
            self.fail(f"{slot.process.name} ended with {error!r}")

    async def live_gateway(self, slot: Slot) -> None:
        """The life of a gateway: others call it."""
        at = int(slot.name.removeprefix("gateway"))
        log = SimulatedLog(self.log, self.net(slot.process))
        gateway = Gateway(slot.process, log, self.fates, self.substitutes.publisher)
        self.gateways[at : at + 1] = [gateway]
        await slot.process.ended

    async def live_dispatcher(self, slot: Slot) -> None:
        """The life of a dispatcher: it makes runs, looks for late usage, and sends."""
        await self._compare(slot)
        net = self.net(slot.process, self.dispatch_fates)
        reports, late = SimulatedReports(self.reports, net), SimulatedLate(self.late, net)
        nothing: Any = None  # bytes are removed by the shell, which is not here
        sources = Sources(
            self.substitutes.reports(reports),
            SimulatedCatalogue(self.catalogue, net),  # type: ignore[arg-type]
            SimulatedProgress(self.progress, net),
            self._usage_of(slot, net),
            late,
            nothing,
            SimulatedSpool,
        )
        log, partitions = self.log.number, self.profile.partitions
        terms = PlanTerms(log, partitions, lease_ms=LEASE_MS)
        held = slot.integrity
        events = late if held is None else CheckedLateEvents(late, held)
        search = LateSources(late, events, sources.catalogue, sources.progress)
        usage = self.substitutes.late(LateUsage(search, late_terms(log, partitions)))
        sender = self.substitutes.sender(SimulatedSender(self.receivers, net))
        sending = SendingReports(self.reports, self.outbox, net)
        await asyncio.gather(
            plan_for_ever(sources, terms, slot.process),
            revise_for_ever(usage, slot.process),
            send_for_ever(sending, sender, slot.process, self.rng),
        )

    async def live_poll(self, slot: Slot) -> None:
        """The life of a worker that polls."""
        await self._compare(slot)
        stop = asyncio.Event()
        clock = self.substitutes.clock(slot.process)
        await self._stoppable(slot, stop, poll(self.parts(slot), clock, stop))

    async def live_faust(self, slot: Slot) -> None:
        """The life of a member of the consumer group."""
        await self._compare(slot)
        stop = asyncio.Event()
        process = slot.process
        log = SimulatedLog(self.log, self.net(process))
        group = Group(Stream(process, log, self.committed, self.fates))
        worker = SimulatedFaustWorker(*self.parts(slot), self.substitutes.clock(process), group)
        self.groups[slot.name] = group
        await self._stoppable(slot, stop, worker.run(stop))

    async def _stoppable(self, slot: Slot, stop: asyncio.Event, work: Awaitable[None]) -> None:
        if self.rng.random() < 0.3:

            def ask() -> None:
                if not self.over and not self.fates.calm and not slot.process.dead:
                    self.fates.note("asked to stop")
                    stop.set()

            self.loop.at(self.rng.random() * 8, ask)
        # Every worker makes blocks here, not only one: they must do each other no harm.
        net, log = self.net(slot.process), (self.log.number, self.profile.partitions)
        held = slot.integrity
        ports, masks = (self.blocks, self.catalogue, net), self.masks(net)
        maker = maker_of(ports, log, slot.process, self.rng, held, masks)
        dropper = self.drops.dropper(net, self.log.number, slot.process, held)
        made = make_for_ever(maker, self.rng, dropper, lambda: self.partitions)
        beside = [asyncio.ensure_future(made)]
        beside += [asyncio.ensure_future(it) for it in self._erasing(slot, net)]
        retention = self.minutes.retention(net, self.log.number, held)
        if retention is not None:
            drops = drop_for_ever(retention, slot.process, self.rng)
            beside.append(asyncio.ensure_future(drops))
        try:
            await work
        finally:
            for one in beside:
                one.cancel()

    def _erasing(self, slot: Slot, net: Net) -> list[Awaitable[None]]:
        return self.erase(slot, net) if self.profile.erases_s else []

    def parts(self, slot: Slot) -> tuple[Aggregator, Housekeeping]:
        """The production parts of a worker."""
        watched = self.profile.inbox_readers and self.substitutes.inbox_watched
        watch = SimulatedWatch(self.inbox, self.net(slot.process)) if watched else None
        drained = None if watch is None else watch.drained_until
        retention = retention_of(self.sums, self.net(slot.process), self.log.number)
        aggregator, housekeeping = housekept(self.ports(slot), self.terms(), drained, retention)
        slot.aggregator = aggregator
        return aggregator, housekeeping

    async def live_inbox(self, slot: Slot) -> None:
        """The life of a reader of the inbox."""
        net = self.net(slot.process)
        await read_for_ever(self.inbox, SimulatedLog(self.log, net), net, slot.process)

    def terms(self) -> Terms:
        """What all workers share."""
        profile = self.profile
        return Terms(
            profile.horizon_ms, profile.retention_ms, profile.flush_events,
            profile.flush_interval_ms, profile.open_bytes,
            self.substitutes.aggregator, self.substitutes.completeness,
        )  # fmt: skip

    def lost(self) -> bool:
        """Whether events expired before they were counted, or the log is of before: then counting
        stops, for good.
        """
        if self.restored:
            return True
        for number, kept in enumerate(self.log.partitions):
            seal = self.progress.last_seal(self.log.number, number)
            end = 0 if seal is None else seal.end
            if kept.gone and kept.gone[-1].offset >= end:
                return True
        return False

    # --- at rest ---

    @property
    def late_is_revised(self) -> bool:
        """Whether at rest every decided window says what the log says."""
        return bool(self.profile.dispatchers) and self.claims_hold and not self.lost()

    def calm_down(self, slots: list[Slot]) -> None:
        """No more faults, but for dispatchers; whoever stands still wakes soon."""
        self._wake(slots)
        self.fates.set(CALM)
        self.log.lags = False
        self.usage.forgets = None
        self.fates.away.clear()
        self.progress.replica = self.catalogue.replica = self.usage.replicated = None

    def calm_dispatchers(self, slots: list[Slot]) -> None:
        """Nor of those, nor of receivers."""
        self._wake(slots)
        self.dispatch_fates.set(CALM)
        self.fates.away.clear()
        self.receivers.calm = True

    def _wake(self, slots: list[Slot]) -> None:
        for slot in slots:
            latest_s = self.loop.time() + self.rng.random() * REST_S
            slot.process.awake_at_s = min(slot.process.awake_at_s, latest_s)
