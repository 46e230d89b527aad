"""Answers about usage, as users are given them while a world goes on."""

from dataclasses import replace
from functools import partial

from meterline.backends.shared_check import SharedCheck
from meterline.meter import Meter, answering, dimensions_ever
from meterline.ports import StoreLost, Unavailable, Unsuitable
from meterline.problem import Problem
from meterline.usage import CheckedUsageStore, UsageQuery
from meterline.window import MINUTE_MS
from tests.simulation.erasing.looking import look_at_erased
from tests.simulation.lost_store import begun
from tests.simulation.network import CalmNet
from tests.simulation.parts import Shown
from tests.simulation.progress import SimulatedProgress
from tests.simulation.usage import SimulatedUsage
from tests.simulation.world import World


def _least(instants: list[int | None]) -> int | None:
    known = [it for it in instants if it is not None]
    return min(known) if len(known) == len(instants) else None


async def look(world: World) -> None:
    """What every meter says now; a store that is lost answers nothing."""
    answered: list[int] = []
    if words := world.drops.told_too_much():
        world.fail(words)
    look_through_blocks(world)
    look_at_erased(world)
    try:
        await _ask(world, answered)
    except (StoreLost, Unsuitable):
        if world.binding.lost is None:
            world.fail("a store that is whole is said to be lost")
        world.fates.note("answer refused by a lost store")
    except Unavailable:
        if world.blocks.damaged():
            world.fates.note("answer refused by a damaged block")
        elif world.profile.drops_minutes:
            world.fates.note("answer refused, since blocks do not reach so far")
        elif world.compares:
            world.fates.note("answer refused by another life of the store")
        else:
            raise
    if world.binding.lacking and answered:
        world.fail(f"answered from {world.binding.lost}")
    if world.minutes.on and answered and (numbers := world.blocks.doubled()):
        world.fail(f"answered from blocks {numbers}, which have rows twice")


def look_through_blocks(world: World) -> None:
    """What every meter says by its blocks, as anybody may know them, is what its tallies say."""
    blocks, log = world.blocks, world.log.number
    if world.binding.lost is not None or world.decay.lacks_late():
        return
    if world.minutes.is_partial(log):
        return
    if world.rng.random() < 0.5:
        blocks.note(log, world.time.now_ms())
    if blocks.damaged():
        world.fates.note("answer refused by a damaged block")
        return
    to_ms = world.time.now_ms() - world.rng.randrange(3 * 3_600_000)
    for meter in world.catalogue.meters:
        names = ("subject", *dimensions_ever(meter))
        for query in (UsageQuery(meter, group_by=names), UsageQuery(meter, None, to_ms)):
            if words := blocks.differing(log, replace(query, to_ms=_minute(query.to_ms))):
                world.fail(f"revision {meter.revision}: {words}")
        if world.minutes.on and (words := blocks.differing(log, _cut(world, meter))):
            world.fail(f"revision {meter.revision}, cut: {words}")


def _cut(world: World, meter: Meter) -> UsageQuery:
    """A question about some hours of before, to the hour or to the minute."""
    step_ms = world.rng.choice((60, 60, 1)) * MINUTE_MS
    from_ms = world.time.now_ms() - world.rng.randrange(8 * 60) * MINUTE_MS
    from_ms = from_ms // step_ms * step_ms
    return UsageQuery(meter, from_ms, from_ms + world.rng.choice((1, 2, 9)) * step_ms)


def _minute(at_ms: int | None) -> int | None:
    return None if at_ms is None else at_ms // MINUTE_MS * MINUTE_MS


async def _ask(world: World, answered: list[int]) -> None:
    """As users do: first how complete it is, then the numbers."""
    log, partitions = world.log.number, world.profile.partitions
    progress, usage = SimulatedProgress(world.progress, CalmNet()), await _usage(world)
    for meter in world.catalogue.in_force:
        known = [
            await progress.complete_until(log, partitions, revision)
            for revision in sorted(answering(meter))
        ]
        parts = usage.usage_rows(UsageQuery(meter))
        try:
            rows = [row async for part in parts for row in part]
        except Problem:
            world.fates.note("answer refused, since minutes are not kept")
            continue
        answered.append(meter.revision)
        if (until_ms := _least(known)) is not None:
            units, counted = (rows[0].value, rows[0].count) if rows else (0, 0)
            world.shown.append(Shown(meter, until_ms, units, counted))


async def _usage(world: World) -> SimulatedUsage | CheckedUsageStore:
    net = CalmNet()
    usage = SimulatedUsage(world.usage, net)
    usage.masks = world.masks(net)
    if world.minutes.on:
        usage.answered = partial(world.minutes.answered, log=world.log.number)
    usage.demands_life = world.substitutes.life_demanded
    if not world.compares:
        if world.minutes.on and world.blocks.damaged():
            raise Unavailable("usage store: a block is damaged, as a comparison would tell")
        return usage
    if world.asked is None:
        log, partitions = world.log.number, world.profile.partitions
        integrity = await begun(world.binding, net, log, partitions, "asker")
        world.asked = CheckedUsageStore(usage, integrity, SharedCheck(integrity.check))
    return world.asked
