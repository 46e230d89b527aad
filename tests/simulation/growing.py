"""The operator who gives the log more partitions, in whatever trouble the command may be."""

import asyncio
from collections.abc import Awaitable
from typing import Final

from ingest.growth import begin_growth, set_marks
from meterline.ports import Unavailable
from tests.simulation.log import ROUTES_KNOWN_MS, SimulatedLog
from tests.simulation.misfortunes import ROUGH_S, paused
from tests.simulation.parts import Slot
from tests.simulation.progress import SimulatedProgress
from tests.simulation.world import World

WAIT_S: Final = 4 * ROUTES_KNOWN_MS / 1_000


async def grow_for_ever(world: World, slot: Slot) -> None:
    """The command, run again whenever it failed, until the log has grown."""
    net = world.net(slot.process)
    wanted = world.profile.partitions * world.profile.grows
    if slot.lives == 1:
        await paused(world, ROUGH_S / 2)
    while True:
        log, progress = SimulatedLog(world.log, net), SimulatedProgress(world.progress, net)
        try:
            await _grow(world, log, progress, wanted)
        except Unavailable:
            await asyncio.sleep(0.3)
        else:
            break
    await slot.process.ended


async def _grow(world: World, log: SimulatedLog, progress: SimulatedProgress, wanted: int) -> None:
    layout = await begin_growth(log, progress, wanted, world.time.now_ms())
    await asyncio.sleep(WAIT_S * world.substitutes.growth_waits)
    while left := layout.uncounted(await progress.marks(log.number)):
        world.say(f"uncounted {left}")
        await set_marks(log, layout)
        await asyncio.sleep(0.5 + world.rng.random())


def is_grown(world: World) -> bool:
    """Whether the log has more partitions, and is counted up to there."""
    layout = world.progress.layout(world.log.number)
    passed = world.progress.marks_passed.get(world.log.number, {})
    return bool(layout.growths) and not layout.uncounted(passed)


def sealed_since(world: World) -> int:
    """Slices of partitions that the log was not made with."""
    return sum(seal.partition >= world.profile.partitions for seal in world.progress.ever)


def grown(world: World) -> list[Awaitable[None]]:
    """What goes on in a world whose log grows."""
    if not world.profile.grows:
        return []
    slot = Slot("operator", world.process(""))

    async def live(slot: Slot) -> None:
        await grow_for_ever(world, slot)

    world.loop.create_task(world.keep_alive(slot, live))
    return [_until(world)]


async def _until(world: World) -> None:
    """Rough times last until the log has grown."""
    while world.loop.time() < 10 * ROUGH_S:
        if is_grown(world):
            return
        await asyncio.sleep(0.3)
