"""What the loops of both workers share: turns that wait while something outside is away, and the
loops that tell how far everything is complete, and fill in new meters.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from aggregator.backfill.filler import Backfill
from aggregator.drivers.standing import Standing
from aggregator.housekeeping import Housekeeping
from meterline.limits import (
    FILL_IDLE_S,
    HOUSEKEEPING_INTERVAL_S,
    REST_LOOK_S,
    WORKER_BACKOFF_MIN_S,
)
from meterline.ports import Clock, Unavailable
from meterline.window import Backoff

logger = structlog.get_logger()


class Turns:
    """The turns of one loop. Errors that are not of the world end it: see `LogTruncated`,
    `CountBackDiffers`.
    """

    def __init__(self, standing: Standing | None = None) -> None:
        self._standing = standing
        self._backoff = Backoff()

    async def take(self, act: Awaitable[object]) -> bool:
        """Whether the turn worked. Where something outside was away, it has waited: the longer, the
        more turns failed in a row.
        """
        try:
            await act
        except Unavailable as error:
            if self._standing is not None:
                self._standing.waits(asyncio.get_running_loop().time())
            wait_s = self._backoff.next_s()
            logger.warning("aggregator_waits", reason=str(error), wait_s=wait_s)
            await asyncio.sleep(wait_s)
            return False
        self._backoff.reset()
        return True


async def look_for_ever(housekeeping: Housekeeping, standing: Standing) -> None:
    """Until cancelled. `standing` is told where counting is, whatever else takes long."""
    while True:
        await asyncio.sleep(HOUSEKEEPING_INTERVAL_S)
        standing.look(*housekeeping.progress(), asyncio.get_running_loop().time())


async def claim_for_ever(housekeeping: Housekeeping, clock: Clock) -> None:
    """Until cancelled. Whatever is not of the world ends it, and is the worker's to raise."""
    while True:
        await asyncio.sleep(HOUSEKEEPING_INTERVAL_S)
        try:
            await housekeeping.claim(clock.now_ms())
        except Unavailable as error:
            logger.warning("claims_wait", reason=str(error))
            await asyncio.sleep(WORKER_BACKOFF_MIN_S)


async def work_for_ever(name: str, turn: Callable[[], Awaitable[bool]], idle_s: float) -> None:
    """Until cancelled. It waits for no record, and no record waits for it. Whatever is not of the
    world ends it, and is the worker's to raise. `name` is that of the log line where it waits.
    """
    backoff = Backoff()
    while True:
        try:
            did = await turn()
            backoff.reset()
        except Unavailable as error:
            wait_s = backoff.next_s()
            logger.warning(name, reason=str(error), wait_s=wait_s)
            await asyncio.sleep(wait_s)
            continue
        if not did:
            await asyncio.sleep(idle_s)


async def rest_after(worked_s: float, rests: Callable[[], int]) -> None:
    """Rest so many times as long as was worked. How many times is asked again and again."""
    rested_s = 0.0
    while (left_s := worked_s * rests() - rested_s) > 0:
        pause_s = min(left_s, REST_LOOK_S)
        await asyncio.sleep(pause_s)
        rested_s += pause_s


async def fill_for_ever(backfill: Backfill, clock: Clock, rests: Callable[[], int]) -> None:
    """New meters into old slices. It rests after each step, as `rests` says (see
    `Housekeeping.rests`).
    """
    time_s = asyncio.get_running_loop().time

    async def turn() -> bool:
        began_s = time_s()
        did = await backfill.turn(clock.now_ms())
        await rest_after(time_s() - began_s, rests)
        return did

    await work_for_ever("backfill_waits", turn, FILL_IDLE_S)


async def adopt_for_ever(housekeeping: Housekeeping) -> None:
    """New meters into open slices."""
    await work_for_ever("adoption_waits", housekeeping.read_ahead, HOUSEKEEPING_INTERVAL_S)


def beside(
    housekeeping: Housekeeping,
    clock: Clock,
    standing: Standing | None,
    *,
    fills_at_once: bool = True,
) -> list["asyncio.Task[None]"]:
    """What runs beside counting, as tasks. None of them ends by itself but by an error. Without
    `fills_at_once`, filling in rests while counting has something before it.
    """

    def rests() -> int:
        return 0 if fills_at_once else housekeeping.rests(clock.now_ms())

    tasks = [
        asyncio.create_task(claim_for_ever(housekeeping, clock)),
        asyncio.create_task(fill_for_ever(housekeeping.backfill, clock, rests)),
        asyncio.create_task(adopt_for_ever(housekeeping)),
    ]
    if standing is not None:
        tasks.append(asyncio.create_task(look_for_ever(housekeeping, standing)))
    return tasks
