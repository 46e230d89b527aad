"""Shell: the aggregator driven by a poll loop over the log's own `read` (the embedded set-up)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aggregator.drivers.openings import Openings
from aggregator.drivers.standing import Standing
from aggregator.drivers.turns import Turns, beside
from aggregator.failures import Failures
from aggregator.housekeeping import Housekeeping
from aggregator.step import Aggregator
from meterline.limits import POLL_BUSY_S, POLL_IDLE_S
from meterline.ports import Clock


class PollWorker:
    """Works on all partitions of a log until stopped; waits and goes on when something outside is
    away. `news` waits until there may be something to read, or so many seconds.
    """

    def __init__(
        self,
        aggregator: Aggregator,
        housekeeping: Housekeeping,
        clock: Clock,
        news: Callable[[float], Awaitable[None]],
        standing: Standing | None = None,
    ) -> None:
        self._news = news
        self._standing = standing
        self._openings = Openings(aggregator, standing)
        self._aggregator = aggregator
        self._housekeeping = housekeeping
        self._clock = clock

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set. Errors that are not of the world end it: see `LogTruncated`,
        `CountBackDiffers`.
        """
        turns = Turns(self._standing)
        tasks = beside(self._housekeeping, self._clock, self._standing)
        ends: list[asyncio.Future[Any]] = [*tasks, asyncio.create_task(stop.wait())]
        try:
            while not stop.is_set() and not any(task.done() for task in tasks):
                await turns.take(self._round(ends))
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for end in ends:
                end.cancel()
            await asyncio.gather(*ends, return_exceptions=True)
            await self._openings.close()
            await self._aggregator.close_all()

    async def _round(self, ends: Sequence[asyncio.Future[Any]]) -> None:
        aggregator, failures = self._aggregator, Failures()
        read = 0
        for number in range(aggregator.log.partitions):
            if not self._openings.is_open(number) or not self._may_grow(number):
                continue
            with failures.kept():
                some = await aggregator.read_some(number)
                self._housekeeping.room.took(number, some, self._clock.now_ms())
                read += some
            await self._housekeeping.tick(self._clock.now_ms())
        failures.tell()
        if not read and not await self._housekeeping.tick(self._clock.now_ms()):
            await self._rest(ends)

    def _may_grow(self, number: int) -> bool:
        room, now_ms = self._housekeeping.room, self._clock.now_ms()
        if self._standing is not None and room.gets_on(now_ms):
            self._standing.waits(asyncio.get_running_loop().time())
        return room.may_grow(self._aggregator.partitions[number], now_ms)

    async def _rest(self, ends: Sequence[asyncio.Future[Any]]) -> None:
        """Until an append, if nothing is left to be done, or one of `ends` is done. What is not
        told as an append, such as a new meter, is seen when the wait ends.
        """
        aggregator = self._aggregator
        moving = aggregator.has_news or aggregator.is_adopting or aggregator.is_sealing
        if moving or self._housekeeping.room.is_full:
            await asyncio.sleep(POLL_BUSY_S)
            return
        waiting = asyncio.ensure_future(self._news(POLL_IDLE_S))
        try:
            await asyncio.wait(
                [waiting, *ends, *self._openings.tasks], return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
