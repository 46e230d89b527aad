"""What befalls a whole world in its rough times, besides the fates of single calls."""

import asyncio
from collections.abc import Callable
from typing import Final

from meterline.event import RecordKind
from meterline.limits import SLICE_SPAN_MS
from meterline.window import MINUTE_MS
from tests.simulation.asking import look
from tests.simulation.lost_store import Loss, copied
from tests.simulation.parts import Slot
from tests.simulation.senders import poison
from tests.simulation.world import World

ROUGH_S: Final = 6.0
SEALING_TRIES: Final = 24  # half a second each, until there is something that can be lost
HOUR_MS: Final = 60 * MINUTE_MS
STORES: Final = ("log", "usage", "progress", "catalogue", "reports", "inbox")


async def paused(world: World, seconds_max: float) -> bool:
    """Wait a while, but not beyond the rough times; whether they last."""
    left_s = ROUGH_S - world.loop.time()
    await asyncio.sleep(max(0.0, min(left_s, world.rng.random() * seconds_max)))
    return world.loop.time() < ROUGH_S


async def jumps(world: World) -> None:
    """Time passes for everybody; old records may expire; something that is no pack appears."""
    rng = world.rng
    while await paused(world, 0.8):
        world.time.jumped_ms += rng.randrange(rng.choice((200, 2_000, world.profile.jump_ms_max)))
        if expire_ms := world.profile.expire_ms:
            world.fates.dealt["records expired"] += world.log.expire(
                world.time.now_ms() - expire_ms
            )
        if rng.random() < 0.1:
            poison(world.log, rng, world.ledger)


async def hours(world: World) -> None:
    """Where usage by minute is dropped, hours pass, and slices end in each."""
    while world.profile.drops_minutes and await paused(world, 0.8):
        world.time.jumped_ms += HOUR_MS // 2
        for number in range(world.partitions):
            world.log.append(number, b"[]", RecordKind.PACK)


async def clocks(world: World, slots: list[Slot]) -> None:
    """Clocks of single processes are set forward and back, by up to an hour."""
    rng = world.rng
    while world.profile.wild_clocks and await paused(world, 3):
        rng.choice(slots).process.skew_ms = rng.randrange(-HOUR_MS, HOUR_MS + 1)
        world.fates.note("clock set")


async def kills(world: World, slots: list[Slot]) -> None:
    """Processes are killed, or stand still for a while."""
    rng = world.rng
    while await paused(world, world.profile.workers_die_s):
        slot = rng.choice(slots)
        if rng.random() < 0.6:
            world.fates.note("killed from outside")
            slot.process.die()
        else:
            world.fates.note("stopped from outside for a while")
            slot.process.stand_still(rng.random() * 5)


async def long_sleeps(world: World, slots: list[Slot]) -> None:
    """A process stands still, with whatever it has under way, for an hour and more of the others'
    lives; then it goes on.
    """
    rng = world.rng
    while await paused(world, world.profile.hour_zombies_s):
        process = rng.choice(slots).process
        process.stand_still(0.6 + 2 * rng.random())
        world.fates.note("zombie for an hour")
        await asyncio.sleep(0.3)
        world.time.jumped_ms += HOUR_MS + rng.randrange(HOUR_MS)


async def outages(world: World) -> None:
    """A store answers nobody for a while: away, hanging, or its disk is full."""
    rng = world.rng
    while await paused(world, world.profile.outages_s):
        store = rng.choice(STORES)
        world.fates.away[store] = world.loop.time() + 0.2 + 2.5 * rng.random()
        world.fates.note(f"{store} away for a while")


async def replicas(world: World) -> None:
    """Replicas come up to date now and then only."""
    while world.profile.replicas_lag and await paused(world, 1.5):
        world.replicate()


async def disks(world: World, workers: list[Slot]) -> None:
    """A seen store is lost, or an older copy of it comes back, between two lives."""
    rng = world.rng
    while await paused(world, 2 * world.profile.workers_die_s):
        slot = rng.choice(workers)
        slot.process.die()
        for number in list(slot.disk.volumes):
            if rng.random() < 0.5:
                world.fates.note("seen store lost")
                del slot.disk.volumes[number]
            elif copies := slot.disk.before.get(number):
                world.fates.note("seen store restored to an older state")
                slot.disk.volumes[number] = rng.choice(copies).copy()


async def restoration(world: World, slots: list[Slot]) -> None:
    """Everybody is stopped, the log is restored to an older state, and everybody goes on."""
    if not world.profile.log_restored:
        return
    for _ in range(3):  # so that slices end, and are sealed
        await asyncio.sleep(ROUGH_S / 4 * world.rng.random() + 0.5)
        world.time.jumped_ms += SLICE_SPAN_MS
        for number in range(world.partitions):
            world.log.append(number, b"[]", RecordKind.PACK)
    await asyncio.sleep(0.5)
    for slot in slots:
        slot.process.die()
    for number in range(world.partitions):
        _restore_log(world, number)


def _restore_log(world: World, number: int) -> None:
    """To a state from before the last seal, if there is one; and it grows again."""
    rng = world.rng
    seal = world.progress.last_seal(world.log.number, number)
    kept = world.log.partitions[number]
    older = [] if seal is None else [r for r in kept.records if r.offset < seal.end]
    if not older or (world.restored and rng.random() < 0.5):
        return
    end = kept.next_offset
    world.restored[number] = kept.all
    world.fates.note("partition restored to an older state")
    world.log.restore(number, rng.choice(older).offset)
    while rng.random() < 0.9 and kept.next_offset <= end:
        world.log.append(number, b"[]", RecordKind.PACK)


async def losses(world: World, slots: list[Slot], workers: list[Slot]) -> None:
    """The usage store is lost when something is sealed, and comes back as it was; then everybody
    is started again.
    """
    if not world.profile.usage_lost:
        return
    rng = world.rng
    await asyncio.sleep(0.5 + ROUGH_S / 4 * rng.random())
    loss, older = rng.choice(list(Loss)), copied(world.usage)
    # Of a store that keeps its id, no more is told than what cannot be made up by rows that are not
    # sealed yet: a second owner of a slice writes its account again, too.
    keeps_id = loss in (Loss.PARTS, Loss.TRUNCATED)

    def enough() -> int:
        return world.senders.events_max // 2 + 1 if keeps_id else 1

    sealed = await _sealed(world, workers, enough)
    if not sealed:
        world.fates.note("nothing was sealed that could be lost")
        return
    # An older copy keeps its id, too: what it lacks must be more than can be made up.
    lacking = sum(seal.events for seal in world.binding.sealed_in_vain(older))
    events_max = world.senders.events_max
    if (loss is Loss.OLDER and lacking <= events_max // 2) or sealed < enough():
        loss = Loss.EMPTY
    await look(world)
    world.binding.lose(loss, older, events_max, rng)
    world.fates.note(f"usage store lost: {loss}")
    world.say(f"LOST: {loss}")
    for _ in range(rng.randrange(2, 8)):
        await asyncio.sleep(0.5)
        await look(world)
    for seal in world.binding.sealed_in_vain(world.binding.whole)[:1]:
        world.fail(f"sealed in {world.binding.lost}: {seal}")
    for slot in slots:
        slot.process.die()
    world.binding.bring_back()
    world.say("the usage store is back")


async def _sealed(world: World, workers: list[Slot], enough: Callable[[], int]) -> int:
    """Slices end, and are sealed; how many events they hold, once these are enough."""
    events = 0
    for _ in range(SEALING_TRIES):
        world.time.jumped_ms += SLICE_SPAN_MS
        for number in range(world.partitions):
            world.log.append(number, b"[]", RecordKind.PACK)
        if world.profile.faust:  # who has just begun has nothing yet
            await assign(world, workers, keep=True)
        await asyncio.sleep(0.5)
        events = sum(seal.events for seal in world.progress.ever)
        if events >= enough():
            break
    return events


async def rebalances(world: World, workers: list[Slot]) -> None:
    """The coordinator of the group changes its mind, again and again."""
    if not world.profile.faust:
        return
    await assign(world, workers)
    while await paused(world, world.profile.workers_die_s):
        await assign(world, workers)


async def assign(world: World, workers: list[Slot], *, keep: bool = False) -> None:
    """Every partition to a member that lives; each learns of it when it does."""
    rng = world.rng
    alive = [s.name for s in workers if not s.process.dead and s.name in world.groups]
    if not alive:
        return
    owner = {n: alive[n % len(alive)] if keep else rng.choice(alive)
             for n in range(world.partitions)}  # fmt: skip
    if not keep:
        world.fates.note("rebalanced")
    for name in alive:
        numbers = frozenset(n for n, of in owner.items() if of == name)
        await asyncio.sleep(rng.random() * 0.3)
        await world.groups[name].assign(numbers)
