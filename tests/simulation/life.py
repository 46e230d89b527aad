"""The course of a world: rough times, then rest, then judgement."""

import asyncio
import gc
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from meterline.event import RecordKind
from meterline.limits import SLICE_SPAN_MS, WORKER_BACKOFF_MAX_S
from meterline.meter import Aggregation, Meter
from meterline.ports import Unavailable, Unsuitable
from meterline.problem import Problem
from meterline.report import Trigger
from meterline.window import MINUTE_MS
from tests.simulation.asking import look
from tests.simulation.couriers import OPEN
from tests.simulation.erasing import course as erasing
from tests.simulation.growing import grown, grown_in_calm, is_grown, sealed_since
from tests.simulation.judge import judge
from tests.simulation.misfortunes import (
    ROUGH_S,
    assign,
    clocks,
    disks,
    hours,
    jumps,
    kills,
    long_sleeps,
    losses,
    outages,
    paused,
    rebalances,
    replicas,
    restoration,
)
from tests.simulation.network import Killed
from tests.simulation.parts import Slot, Substitutes
from tests.simulation.profile import LONG_HORIZON_MS
from tests.simulation.quiet import quiet
from tests.simulation.rest import at_rest, unsealed
from tests.simulation.virtual_loop import Stuck
from tests.simulation.workers import LAG_MS, may_end_so
from tests.simulation.world import REST_S, REST_S_MAX, World

REPORTS_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a world. `fingerprint` is the same whenever the seed is."""

    seed: int
    failures: tuple[str, ...]
    dealt: Counter[str]
    fingerprint: str
    events: int
    reached: Counter[str]  # what of the product was needed
    kinds: Counter[str]  # what sort of world it was


def lived(
    seed: int,
    substitutes: Substitutes | None = None,
    trace: Callable[[str], None] | None = None,
) -> Outcome:
    """The whole course of the world with this seed."""
    collecting = gc.isenabled()
    gc.disable()  # a finalizer that runs at some moment would make a replay differ
    world = World(seed, substitutes, trace)
    try:
        with quiet(world.hear):
            asyncio.set_event_loop(world.loop)
            try:
                world.loop.run_until_complete(_course(world))
            except Stuck:
                world.fail("everybody waits for ever")
            finally:
                world.over = True
                _judge_ends(world, world.loop.end())
                asyncio.set_event_loop(None)
    finally:
        if collecting:
            gc.enable()
    prints = f"{world.loop.time():.6f}/{world.usage.writes}/{world.rng.getrandbits(32):08x}"
    return Outcome(
        seed,
        tuple(world.failures),
        world.fates.dealt,
        prints,
        len(world.ledger.offered),
        _reached(world),
        _kinds(world),
    )


def _reached(world: World) -> Counter[str]:
    reached = world.usage.met + world.blocks.met + world.drops.met + world.minutes.met
    reached["events"] = len(world.ledger.offered)
    reached["logs that have grown"] = is_grown(world)
    reached["slices sealed in new partitions"] = sealed_since(world)
    reached["slices sealed"] = len(world.progress.ever)
    reached["slices whose seals were added up"] = len(world.progress.added)
    reached["slices filled in"] = len(world.progress.marks)
    switches = world.catalogue.switches.values()
    reached["meter revisions switched"] = sum(len(it) - 1 for it in switches)
    decided = world.reports.decided
    late = [one for one in decided if one.run.trigger is Trigger.LATE]
    reached["late revisions of runs sent"] = sum(bool(one.deliveries) for one in late)
    reached["late revisions of runs recorded"] = sum(not one.deliveries for one in late)
    reached["deliveries"] = len(world.outbox.posts)
    reached["deliveries that came again"] = sum(len(it) - 1 for it in world.receivers.got.values())
    reached["runs decided"] = len(decided)
    reached["claims"] = len(world.claimed)
    reached["subjects erased"] = len(world.erasures.done)
    reached["answers said to be complete"] = len(world.shown)
    reached["sealed slices recorded, since they differ"] = len(world.progress.recorded)
    reached["sealed slices that differ, since a subject was erased"] = len(
        world.progress.left_as_erased
    )
    reached["log lines of count-back that differs"] = world.differed
    reached["times that partitions waited for memory"] = world.turns
    return reached


def _kinds(world: World) -> Counter[str]:
    profile = world.profile
    return Counter(
        {
            "driven by Faust's group": profile.faust,
            "polling": not profile.faust,
            "several owners of a partition": not profile.faust and profile.workers > 1,
            "several partitions": profile.partitions > 1,
            "with inboxes": bool(profile.inbox_readers),
            "with dispatchers": bool(profile.dispatchers),
            "with a short horizon": profile.horizon_ms < LONG_HORIZON_MS,
            "whose log drops what is old, counted or not": bool(profile.expire_ms),
            "whose log was restored to an older state": bool(world.restored),
            "whose store forgets rows": bool(profile.lossy),
            "with clocks that break their bound": profile.wild_clocks,
            "with replicas that lag": profile.replicas_lag,
            "whose usage store is lost and comes back": profile.usage_lost,
            "in which subjects are erased": bool(profile.erases_s),
            "whose revisions that ended are dropped": profile.drops_revisions,
            "whose usage by minute is dropped": profile.drops_minutes,
            "that ended with words, uncounted records being gone": world.lost(),
        }
    )


def _judge_ends(world: World, errors: list[BaseException]) -> None:
    """No task of anybody may have ended with what is not of the world."""
    for error in errors:
        fine = world.profile.usage_lost and isinstance(error, Unsuitable)
        fine = fine or may_end_so(error, world.profile, restored=bool(world.restored))
        if not (isinstance(error, Killed | Unavailable | Problem) or fine):
            world.fail(f"a task ended with {error!r}")


async def _course(world: World) -> None:
    profile = world.profile
    for _ in range(world.rng.randrange(0, 3)):
        _create_meter(world)
    slots = [Slot(f"gateway{n}", world.process("")) for n in range(profile.gateways)]
    workers = [Slot(f"worker{n}", world.process("")) for n in range(profile.workers)]
    live = world.live_faust if profile.faust else world.live_poll
    erasing.begin(world)
    if profile.decays:
        world.decay.begin()
    for slot in slots:
        world.loop.create_task(world.keep_alive(slot, world.live_gateway))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for slot in workers:
        world.loop.create_task(world.keep_alive(slot, live))
    readers = [Slot(f"inbox{n}", world.process("")) for n in range(profile.inbox_readers)]
    for slot in readers:
        world.loop.create_task(world.keep_alive(slot, world.live_inbox))
    dispatchers = [Slot(f"dispatcher{n}", world.process("")) for n in range(profile.dispatchers)]
    for slot in dispatchers:
        world.loop.create_task(world.keep_alive(slot, world.live_dispatcher))
    everybody = [*slots, *workers, *readers, *dispatchers]
    await asyncio.gather(
        _sent(world),
        _meters_change(world),
        jumps(world),
        _looks(world),
        _asks(world),
        _inbox(world),
        disks(world, workers),
        kills(world, everybody),
        long_sleeps(world, everybody),
        outages(world),
        replicas(world),
        clocks(world, everybody),
        rebalances(world, workers),
        restoration(world, everybody),
        losses(world, everybody, workers),
        erasing.asked(world),
        hours(world),
        *grown(world),
    )
    await _rest(world, [*slots, *readers, *dispatchers], workers)
    judge(world)


async def _sent(world: World) -> None:
    profile = world.profile
    pause_s = 2 * ROUGH_S / profile.events * 3
    names = [str(n) for n in range(profile.senders)]
    sends = [world.senders.send_for(profile.events, name, pause_s) for name in names]
    await asyncio.gather(*sends)


def _create_meter(world: World) -> None:
    rng = world.rng
    aggregation = rng.choice((Aggregation.SUM, Aggregation.SUM, Aggregation.COUNT, *Aggregation))
    path = {Aggregation.COUNT: None, Aggregation.SUM: "$.v"}.get(aggregation, "$.n")
    world.catalogue.create(
        aggregation=aggregation,
        event_type="t" if rng.random() < 0.8 else "u",
        value_property=path,
        dimensions=(("g", "$.g"),) if rng.random() < 0.5 else (),
    )


async def _meters_change(world: World) -> None:
    rng = world.rng
    # In half of the worlds the operator is done halfway: seals are added up in rough times, too.
    ends_s = ROUGH_S * rng.choice((0.4, 1))
    while await paused(world, 2 * world.profile.meters_change_s):
        if world.loop.time() > ends_s:
            world.sums.begun = True
            continue
        meters = world.catalogue.in_force
        draw = rng.random()
        if draw < 0.5 or not meters:
            _create_meter(world)
        elif draw < 0.85:
            _change_meter(world, rng.choice(meters))
        elif not world.reports.on(meter := rng.choice(meters)):
            world.catalogue.delete(meter)
        world.say(f"catalogue {world.catalogue.version}")


def _change_meter(world: World, meter: Meter) -> None:
    """Another definition, from now on, from some minute on, or for all times."""
    rng = world.rng
    changed: dict[str, Any] = {}
    if rng.random() < 0.5:
        changed["event_type"] = "u" if meter.event_type == "t" else "t"
    if not changed or rng.random() < 0.5:
        grouped = bool(meter.dimensions)
        if grouped and any(it.group_by for it in world.reports.on(meter)):
            return  # the product refuses to take away what a report groups by
        changed["dimensions"] = () if grouped else (("g", "$.g"),)
    minute = world.time.now_ms() // MINUTE_MS + rng.choice((-60, -1, 0, 1, 60))
    from_ms = minute * MINUTE_MS if rng.random() < 0.5 else None
    world.catalogue.change(meter, from_ms, **changed)


async def _looks(world: World) -> None:
    while await paused(world, 0.7):
        await look(world)


async def _inbox(world: World) -> None:
    """Producers without HTTP write events, and what is none, and send some again."""
    rng = world.rng
    while world.profile.inbox_readers and await paused(world, 0.5):
        number = rng.randrange(len(world.inbox.partitions))
        if rng.random() < 0.05:
            world.inbox.append(number, b"{")
        else:
            world.senders.send_to_inbox(partial(world.inbox.send, number))


async def _asks(world: World) -> None:
    """Reports are made, and runs are asked for by hand."""
    rng, reports = world.rng, world.reports
    while world.profile.dispatchers and await paused(world, 1):
        now_ms = world.time.now_ms()
        meters = [m for m in world.catalogue.in_force if m.value_property == "$.v"]
        if meters and len(reports.reports) < REPORTS_MAX:
            meter = rng.choice(meters)
            sends = rng.random() < 0.6
            reports.create(meter.id, meter.dimension_names, now_ms, sends=sends)
        elif reports.reports:
            to_ms = now_ms // MINUTE_MS * MINUTE_MS
            name = rng.choice(list(reports.reports))
            reports.ask(name, to_ms - rng.choice((1, 10, 300)) * MINUTE_MS, to_ms, now_ms)


async def _rest(world: World, slots: list[Slot], workers: list[Slot]) -> None:
    """No more faults: everybody wakes, everything is counted, within bounds."""
    world.sums.begun = True
    world.calm_down([*workers, *slots])
    world.say("calm")
    await asyncio.sleep(REST_S)  # what is late lands, who stands still wakes
    if world.profile.decays:
        await _recorded(world)
    await world.senders.settle_unknown()
    if world.profile.lossy or world.profile.dispatchers or world.profile.erases_s:
        _close_slices(world, range(world.partitions))
    dispatchers = [slot for slot in slots if slot.name.startswith("dispatcher")]
    await _dispatched(world, dispatchers, workers)
    await _settled(world, workers)
    if world.rng.random() < 0.5:
        world.time.jumped_ms += SLICE_SPAN_MS
    await asyncio.sleep(1)
    if world.late_is_revised and world.rng.random() < 0.5:
        await world.senders.send_for(8, "late", 0.1)
    await grown_in_calm(world)
    await _settled(world, workers)  # somebody may have been late with something
    await erasing.finished(world, workers)


async def _recorded(world: World) -> None:
    """Whoever has found a difference, and lives, says so when it tries again, within seconds."""
    revisions = [meter.revision for meter in world.catalogue.meters]
    for _ in range(20 * (2 + int(WORKER_BACKOFF_MAX_S / REST_S))):
        if not list(world.decay.unrecorded(revisions)):
            break
        await asyncio.sleep(REST_S / 20)
    for failure in world.decay.unrecorded(revisions):
        world.fail(failure)
    world.decay.restore()


async def _dispatched(world: World, dispatchers: list[Slot], workers: list[Slot]) -> None:
    """Rough times for dispatchers, now that runs can be made, and events that are late for them."""
    rng = world.rng
    for _ in range(16 if dispatchers else 0):
        await asyncio.sleep(rng.random())
        world.time.jumped_ms += 3_600_000 if rng.random() < 0.1 else rng.choice((1_000, 20_000))
        if world.profile.faust:
            await assign(world, workers, keep=True)
        if rng.random() < 0.3:
            world.fates.note("killed from outside")
            rng.choice(dispatchers).process.die()
        if world.late_is_revised and rng.random() < 0.3:
            await world.senders.send_for(4, f"late{world.loop.time()}", 0.1)
            _close_slices(world, unsealed(world))
    world.calm_dispatchers(dispatchers)


async def _settled(world: World, workers: list[Slot]) -> None:
    """Return when all is counted and claimed; what cannot be any more is told."""
    since_ms = world.time.now_ms()
    ends_s = world.loop.time() + REST_S_MAX
    turn = 0
    while not at_rest(world, since_ms - LAG_MS):
        if world.lost():
            world.fates.note("world that lost uncounted records, and stopped")
            await asyncio.sleep(3)
            return
        if world.loop.time() > ends_s:
            world.fail(f"does not come to rest: {_why(world)}")
            return
        if world.profile.faust:
            await assign(world, workers, keep=True)
        await asyncio.sleep(0.7)
        world.time.jumped_ms += world.rng.choice((0, 1_000, 20_000))
        await look(world)
        turn += 1
        if (world.late_is_revised or world.profile.erases_s) and turn % 5 == 0:
            _close_slices(world, unsealed(world))


def _close_slices(world: World, numbers: Iterable[int]) -> None:
    """What a store forgot is noticed when the slice ends, and late usage is looked for in slices
    that have ended: so each must.
    """
    world.log.clock_wobble_ms = 0
    world.time.jumped_ms += 20 * MINUTE_MS  # beyond every append time there is
    for number in numbers:
        world.log.append(number, b"[]", RecordKind.PACK)


def _why(world: World) -> str:
    number, partitions = world.log.number, world.partitions
    ends = world.progress.flushed_ends(number, world.catalogue.version)
    logs = [world.log.end(n) for n in range(partitions)]
    unfilled = {
        meter.revision: [
            seal.slice
            for n in range(partitions)
            for seal in world.progress.unfilled(number, n, meter.revision, 3)
        ]
        for meter in world.catalogue.meters
    }
    claims = world.progress.completions(number, world.catalogue.version)
    waits = world.catalogue.filling()
    going = sum(it.state in OPEN for it in world.outbox.posts.values())
    late = f"on their way {going}, looked {world.late.looked}, late {world.late.due}"
    return (
        f"{late}, counted {ends} of {logs}, to fill {unfilled}, to switch {waits}, claims {claims}"
    )
