"""The operator who gives the log more partitions, in whatever trouble the command may be."""

import asyncio
from collections.abc import Awaitable
from typing import Final

from ingest.growth import begin_growth, set_marks
from meterline.ports import Unavailable, Unsuitable
from tests.simulation.log import ROUTES_KNOWN_S, SimulatedLog
from tests.simulation.misfortunes import ROUGH_S, paused
from tests.simulation.parts import Slot
from tests.simulation.progress import SimulatedProgress
from tests.simulation.world import World

WAIT_S: Final = 4 * ROUTES_KNOWN_S
ROUGH_WITHIN_S: Final = 30 * ROUGH_S  # whatever it meets: some growths need calm to end
CALM_WITHIN_S: Final = 10 * ROUGH_S


def numbers(world: World) -> list[int]:
    """Of partitions that the log gets, one after the other. A small one grows twice, unless what
    is counted of it is lost, too: that takes long to come to rest.
    """
    made_with, times = world.profile.partitions, world.profile.grows
    twice = made_with == 1 and not world.profile.usage_lost
    return [made_with * times, made_with * times * 2][: 2 if twice else 1]


async def grow_for_ever(world: World, slot: Slot) -> None:
    """The command, run again whenever it failed, until the log has grown."""
    net = world.net(slot.process)
    if slot.lives == 1:
        await paused(world, ROUGH_S / 2)
    while True:
        log, progress = SimulatedLog(world.log, net), SimulatedProgress(world.progress, net)
        try:
            for wanted in numbers(world):
                if wanted >= (await progress.layout(log.number)).partitions:
                    await _grow(world, log, progress, wanted)
        except (Unavailable, Unsuitable):
            # one more growth may be registered late, by an answer that was lost: the command says
            # so. A log that never gets its partitions is found in the end.
            await asyncio.sleep(0.3)
        else:
            break
    await slot.process.ended


async def _grow(world: World, log: SimulatedLog, progress: SimulatedProgress, wanted: int) -> None:
    layout = await begin_growth(log, progress, wanted, world.time.now_ms())
    await asyncio.sleep(WAIT_S * world.substitutes.growth_waits)
    if layout.uncounted(await progress.marks(log.number)):
        await set_marks(log, layout)
    while left := layout.uncounted(await progress.marks(log.number)):
        world.say(f"uncounted {left}")
        await asyncio.sleep(0.5 + world.rng.random())


def is_grown(world: World) -> bool:
    """Whether the log has all partitions that it gets, and is counted up to there."""
    if not world.profile.grows:
        return False
    layout = world.progress.layout(world.log.number)
    passed = world.progress.marks_passed.get(world.log.number, {})
    return layout.partitions == numbers(world)[-1] and not layout.uncounted(passed)


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
    """Rough times last until the log has grown, however often its operator must begin again."""
    while world.loop.time() < ROUGH_WITHIN_S:
        if is_grown(world):
            return
        await asyncio.sleep(0.3)


async def grown_in_calm(world: World) -> None:
    """Nothing fails any more: a log that has not grown by now does so, as far as it can."""
    ends_s = world.loop.time() + CALM_WITHIN_S
    while world.loop.time() < ends_s:
        if not world.profile.grows or is_grown(world):
            return
        await asyncio.sleep(0.3)
