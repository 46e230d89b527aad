"""Answers about usage, as users are given them while a world goes on."""

from meterline.meter import answering
from meterline.ports import StoreLost, Unsuitable
from meterline.usage import CheckedUsageStore, UsageQuery
from tests.simulation.lost_store import begun
from tests.simulation.network import CalmNet
from tests.simulation.parts import Shown
from tests.simulation.stores import SimulatedProgress
from tests.simulation.usage import SimulatedUsage
from tests.simulation.world import World


def _least(instants: list[int | None]) -> int | None:
    known = [it for it in instants if it is not None]
    return min(known) if len(known) == len(instants) else None


async def look(world: World) -> None:
    """What every meter says now; a store that is lost answers nothing."""
    shown = len(world.shown)
    try:
        await _ask(world)
    except (StoreLost, Unsuitable):
        if world.binding.lost is None:
            world.fail("a store that is whole is said to be lost")
        world.fates.note("answer refused by a lost store")
    if world.binding.lacking and len(world.shown) > shown:
        world.fail(f"answered from {world.binding.lost}")


async def _ask(world: World) -> None:
    """As the dispatcher does: first how complete it is, then the numbers."""
    log, partitions = world.log.number, world.profile.partitions
    progress, usage = SimulatedProgress(world.progress, CalmNet()), await _usage(world)
    for meter in world.catalogue.in_force:
        known = [
            await progress.complete_until(log, partitions, revision)
            for revision in sorted(answering(meter))
        ]
        if (until_ms := _least(known)) is not None:
            rows = await usage.usage(UsageQuery(meter))
            units, counted = (rows[0].value, rows[0].count) if rows else (0, 0)
            world.shown.append(Shown(meter, until_ms, units, counted))


async def _usage(world: World) -> SimulatedUsage | CheckedUsageStore:
    net = CalmNet()
    usage = SimulatedUsage(world.usage, net)
    if not world.compares:
        return usage
    if world.asked is None:
        log, partitions = world.log.number, world.profile.partitions
        world.asked = await begun(world.binding, net, log, partitions, "asker")
    return CheckedUsageStore(usage, world.asked)
