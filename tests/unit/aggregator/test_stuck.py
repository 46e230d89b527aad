"""A worker that counts nothing although nothing is away ends, and its process with it."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from aggregator.drivers.standing import Standing, Stuck
from aggregator.drivers.stuck_guard import StuckGuard
from aggregator.drivers.turns import Turns
from meterline.limits import STALLED_AFTER_S, STUCK_LOOK_S
from meterline.ports import Unavailable
from tests.simulation.virtual_loop import VirtualLoop

HOUR_S = 3_600.0


def simulated(way: Coroutine[Any, Any, None]) -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(way)
    finally:
        loop.close()


class Working:
    """A worker that does this, while partition 0 stands at 5 of 8 from the start."""

    def __init__(self, act: Callable[[Standing], Awaitable[None]]) -> None:
        self.standing = Standing()
        self.left = False
        self.ended = False
        self._act = act

    async def run(self, stop: asyncio.Event) -> None:
        del stop
        self.standing.look({0: 5}, {0: 8}, asyncio.get_running_loop().time())
        try:
            await self._act(self.standing)
        finally:
            self.ended = True

    def leave(self) -> None:
        self.left = True

    async def guarded(self) -> float:
        """When it ended."""
        guard = StuckGuard(self, self.standing, self.leave)
        try:
            await guard.run(asyncio.Event())
        finally:
            assert self.ended
        return asyncio.get_running_loop().time()


def test_one_that_hangs_ends_after_two_minutes_and_takes_its_process_along() -> None:
    async def hang(_: Standing) -> None:
        await asyncio.Event().wait()

    async def way() -> None:
        worker = Working(hang)
        with pytest.raises(Stuck, match="partition 0 is stuck at offset 5"):
            await worker.guarded()
        assert worker.left
        passed_s = asyncio.get_running_loop().time()
        assert STALLED_AFTER_S <= passed_s <= STALLED_AFTER_S + 2 * STUCK_LOOK_S

    simulated(way())


def test_one_that_waits_for_a_store_goes_on() -> None:
    async def wait(standing: Standing) -> None:
        async def away() -> None:
            raise Unavailable("the store is away")

        turns, loop = Turns(standing), asyncio.get_running_loop()
        while loop.time() < HOUR_S:
            await turns.take(away())

    async def way() -> None:
        worker = Working(wait)
        assert await worker.guarded() >= HOUR_S
        assert not worker.left
        with pytest.raises(Unavailable):
            worker.standing.check(HOUR_S)  # it is not ready all the same

    simulated(way())


def test_a_process_that_was_stopped_for_a_while_is_not_blamed() -> None:
    standing = Standing()
    standing.look({0: 5}, {0: 8}, 0)
    standing.check_stuck(0)
    standing.check_stuck(HOUR_S)
    standing.check_stuck(HOUR_S + 5)
    for second in range(5, STALLED_AFTER_S, 5):
        standing.check_stuck(HOUR_S + second)
    with pytest.raises(Stuck):
        standing.check_stuck(HOUR_S + STALLED_AFTER_S)


def test_errors_of_the_worker_are_its_own_and_who_is_stopped_ends() -> None:
    async def fail(_: Standing) -> None:
        raise ValueError("a fault")

    async def end(_: Standing) -> None:
        await asyncio.sleep(1)

    async def hang(_: Standing) -> None:
        await asyncio.Event().wait()

    async def way() -> None:
        with pytest.raises(ValueError, match="a fault"):
            await Working(fail).guarded()
        assert await Working(end).guarded() >= 1
        hanging = Working(hang)
        task = asyncio.ensure_future(hanging.guarded())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert not hanging.left

    simulated(way())
