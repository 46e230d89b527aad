"""The course of a world: rough times, then rest, then judgement."""

import asyncio
import gc
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from meterline.limits import SLICE_SPAN_MS
from meterline.meter import Aggregation
from meterline.pack import RecordKind
from meterline.ports import Unavailable
from meterline.problem import Problem
from meterline.window import MINUTE_MS
from tests.simulation.judge import judge
from tests.simulation.network import Killed
from tests.simulation.quiet import quiet
from tests.simulation.senders import poison
from tests.simulation.virtual_loop import Stuck
from tests.simulation.workers import LAG_MS, may_end_so
from tests.simulation.world import REST_S, REST_S_MAX, Slot, Substitutes, World

ROUGH_S: Final = 6.0
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
    )


def _reached(world: World) -> Counter[str]:
    reached = Counter(world.usage.met)
    reached["events"] = len(world.ledger.offered)
    reached["slices sealed"] = len(world.progress.seals)
    reached["slices filled in"] = len(world.progress.marks)
    reached["runs decided"] = len(world.reports.decided)
    reached["claims"] = len(world.claimed)
    reached["answers said to be complete"] = len(world.shown)
    reached["log lines of count-back that differs"] = world.differed
    return reached


def _judge_ends(world: World, errors: list[BaseException]) -> None:
    """No task of anybody may have ended with what is not of the world."""
    for error in errors:
        if not (isinstance(error, Killed | Unavailable | Problem) or may_end_so(error)):
            world.fail(f"a task ended with {error!r}")


async def _course(world: World) -> None:
    profile = world.profile
    for _ in range(world.rng.randrange(0, 3)):
        _create_meter(world)
    slots = [Slot(f"gateway{n}", world.process("")) for n in range(profile.gateways)]
    workers = [Slot(f"worker{n}", world.process("")) for n in range(profile.workers)]
    live = world.live_faust if profile.faust else world.live_poll
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
        _jumps(world),
        _looks(world),
        _asks(world),
        _inbox(world),
        _disks(world, workers),
        _kills(world, everybody),
        _clocks(world, everybody),
        _rebalances(world, workers),
    )
    await _rest(world, [*slots, *readers, *dispatchers], workers)
    judge(world)


async def _sent(world: World) -> None:
    profile = world.profile
    pause_s = 2 * ROUGH_S / profile.events * 3
    names = [str(n) for n in range(profile.senders)]
    sends = [world.senders.send_for(profile.events, name, pause_s) for name in names]
    await asyncio.gather(*sends)


async def _paused(world: World, seconds_max: float) -> bool:
    """Wait a while, but not beyond the rough times; whether they last."""
    left_s = ROUGH_S - world.loop.time()
    await asyncio.sleep(max(0.0, min(left_s, world.rng.random() * seconds_max)))
    return world.loop.time() < ROUGH_S


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
    while await _paused(world, 2 * world.profile.meters_change_s):
        meters = world.catalogue.meters
        draw = rng.random()
        if draw < 0.6 or not meters:
            _create_meter(world)
        elif draw < 0.8:
            groups = () if meters[-1].dimensions else (("g", "$.g"),)
            world.catalogue.change(rng.choice(meters), dimensions=groups)
        else:
            world.catalogue.delete(rng.choice(meters))
        world.say(f"catalogue {world.catalogue.version}")


async def _jumps(world: World) -> None:
    rng = world.rng
    while await _paused(world, 0.8):
        world.time.jumped_ms += rng.randrange(rng.choice((200, 2_000, world.profile.jump_ms_max)))
        if expire_ms := world.profile.expire_ms:
            world.fates.dealt["records expired"] += world.log.expire(
                world.time.now_ms() - expire_ms
            )
        if rng.random() < 0.1:
            poison(world.log, rng, world.ledger)


async def _clocks(world: World, slots: list[Slot]) -> None:
    """Clocks of single processes are set forward and back, by up to an hour."""
    rng = world.rng
    while world.profile.wild_clocks and await _paused(world, 3):
        rng.choice(slots).process.skew_ms = rng.randrange(-3_600_000, 3_600_001)
        world.fates.note("clock set")


async def _looks(world: World) -> None:
    while await _paused(world, 0.7):
        await world.look()


async def _inbox(world: World) -> None:
    """Producers without HTTP write events, and what is none, and send some again."""
    rng = world.rng
    while world.profile.inbox_readers and await _paused(world, 0.5):
        number = rng.randrange(len(world.inbox.partitions))
        if rng.random() < 0.05:
            world.inbox.append(number, b"{")
        else:
            world.senders.send_to_inbox(partial(world.inbox.send, number))


async def _asks(world: World) -> None:
    """Reports are made, and runs are asked for by hand."""
    rng, reports = world.rng, world.reports
    while world.profile.dispatchers and await _paused(world, 1):
        now_ms = world.time.now_ms()
        meters = [m for m in world.catalogue.meters if m.value_property == "$.v"]
        if meters and len(reports.reports) < REPORTS_MAX:
            meter = rng.choice(meters)
            reports.create(meter.id, meter.dimension_names, now_ms)
        elif reports.reports:
            to_ms = now_ms // MINUTE_MS * MINUTE_MS
            name = rng.choice(list(reports.reports))
            reports.ask(name, to_ms - rng.choice((1, 10, 300)) * MINUTE_MS, to_ms, now_ms)


async def _kills(world: World, slots: list[Slot]) -> None:
    rng = world.rng
    while await _paused(world, world.profile.workers_die_s):
        slot = rng.choice(slots)
        if rng.random() < 0.6:
            world.fates.note("killed from outside")
            slot.process.die()
        else:
            world.fates.note("stopped from outside for a while")
            slot.process.stand_still(rng.random() * 5)


async def _disks(world: World, workers: list[Slot]) -> None:
    """A seen store is lost, or an older copy of it comes back, between two lives."""
    rng = world.rng
    while await _paused(world, 2 * world.profile.workers_die_s):
        slot = rng.choice(workers)
        slot.process.die()
        for number in list(slot.disk.volumes):
            if rng.random() < 0.5:
                world.fates.note("seen store lost")
                del slot.disk.volumes[number]
            elif copies := slot.disk.before.get(number):
                world.fates.note("seen store restored to an older state")
                slot.disk.volumes[number] = rng.choice(copies).copy()


async def _rebalances(world: World, workers: list[Slot]) -> None:
    if not world.profile.faust:
        return
    await _assign(world, workers)
    while await _paused(world, world.profile.workers_die_s):
        await _assign(world, workers)


async def _assign(world: World, workers: list[Slot], *, keep: bool = False) -> None:
    """Every partition to a member that lives; each learns of it when it does."""
    rng = world.rng
    alive = [s.name for s in workers if not s.process.dead and s.name in world.groups]
    if not alive:
        return
    owner = {n: alive[n % len(alive)] if keep else rng.choice(alive)
             for n in range(world.profile.partitions)}  # fmt: skip
    if not keep:
        world.fates.note("rebalanced")
    for name in alive:
        numbers = frozenset(n for n, of in owner.items() if of == name)
        await asyncio.sleep(rng.random() * 0.3)
        await world.groups[name].assign(numbers)


async def _rest(world: World, slots: list[Slot], workers: list[Slot]) -> None:
    """No more faults: everybody wakes, everything is counted, within bounds."""
    world.calm_down([*workers, *slots])
    world.say("calm")
    await asyncio.sleep(REST_S)  # what is late lands, who stands still wakes
    await world.senders.settle_unknown()
    if world.profile.lossy:
        _close_slices(world)
    await _settled(world, workers)
    if world.rng.random() < 0.5:
        world.time.jumped_ms += SLICE_SPAN_MS
    await asyncio.sleep(1)
    await _settled(world, workers)  # somebody may have been late with something


async def _settled(world: World, workers: list[Slot]) -> None:
    """Return when all is counted and claimed; what cannot be any more is told."""
    since_ms = world.time.now_ms()
    ends_s = world.loop.time() + REST_S_MAX
    while not world.at_rest(since_ms - LAG_MS):
        if world.lost():
            world.fates.note("world that lost uncounted records, and stopped")
            await asyncio.sleep(3)
            return
        if world.loop.time() > ends_s:
            world.fail(f"does not come to rest: {_why(world)}")
            return
        if world.profile.faust:
            await _assign(world, workers, keep=True)
        await asyncio.sleep(0.7)
        world.time.jumped_ms += world.rng.choice((0, 1_000, 20_000))
        await world.look()


def _close_slices(world: World) -> None:
    """What a store forgot is noticed when the slice ends: so each must."""
    world.log.clock_wobble_ms = 0
    world.time.jumped_ms += 20 * MINUTE_MS  # beyond every append time there is
    for number in range(world.profile.partitions):
        world.log.append(number, b"[]", RecordKind.PACK)


def _why(world: World) -> str:
    number, partitions = world.log.number, world.profile.partitions
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
    return f"counted {ends} of {logs}, to be filled {unfilled}, claims {claims}"
