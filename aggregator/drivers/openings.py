"""Partitions on their way to this worker, each prepared in a task of its own."""

import asyncio
from collections.abc import Iterable
from functools import partial

import structlog

from aggregator.catch_up import CatchUp, WaitsForParent
from aggregator.drivers.standing import Standing
from aggregator.drivers.turns import Turns
from aggregator.slice.partition import Partition
from aggregator.step import Aggregator
from meterline.limits import CATCH_UP_LOG_S
from meterline.ports import Unavailable

logger = structlog.get_logger()


class Openings:
    """A partition whose seen store has to be brought up takes minutes, while others are counted.
    `standing` is told what cannot be prepared: others are not waiting for it.
    """

    def __init__(self, aggregator: Aggregator, standing: Standing | None = None) -> None:
        self._aggregator = aggregator
        self._standing = standing
        self._tasks: dict[int, asyncio.Task[Partition]] = {}
        self._ending: dict[int, asyncio.Task[Partition]] = {}  # given up: they may hold files yet

    def is_open(self, number: int) -> bool:
        """Whether a partition is this worker's to count; it is prepared where it is not. Raises
        what preparing it raised, but for `Unavailable`: that is waited for.
        """
        if number in self._aggregator.partitions:
            return True
        if number in self._ending:
            return False
        task = self._tasks.get(number)
        if task is None:
            self._tasks[number] = asyncio.create_task(self._prepared(number))
            return False
        if not task.done():
            return False
        del self._tasks[number]
        self._aggregator.take_on(task.result())
        return True

    async def pause(self, for_s: float) -> None:
        """Until a partition is prepared, but no longer than that."""
        if waits := list(self._tasks.values()):
            await asyncio.wait(waits, timeout=for_s, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(for_s)

    @property
    def tasks(self) -> list["asyncio.Task[Partition]"]:
        """What is awaited now."""
        return [*self._tasks.values(), *self._ending.values()]

    @property
    def numbers(self) -> set[int]:
        """Partitions that are being prepared."""
        return set(self._tasks)

    def give_up(self, numbers: Iterable[int]) -> None:
        """Let go of partitions that are not open yet."""
        for number in numbers:
            if (task := self._tasks.pop(number, None)) is not None:
                self._ending[number] = task
                task.cancel()
                task.add_done_callback(partial(self._gone, number))

    def _gone(self, number: int, task: "asyncio.Task[Partition]") -> None:
        del self._ending[number]
        if not task.cancelled() and task.exception() is None:
            task.result().seen.close()

    async def close(self) -> None:
        """Let go of all; their files may be opened again then."""
        self.give_up(list(self._tasks))
        await asyncio.gather(*self._ending.values(), return_exceptions=True)

    async def _prepared(self, number: int) -> Partition:
        telling = asyncio.create_task(self._tell(number))
        turns, found = Turns(), list[Partition]()
        standing, time_s = self._standing, asyncio.get_running_loop().time

        async def act() -> None:
            try:
                found.append(await self._aggregator.prepared(number))
            except WaitsForParent:
                if standing is not None:
                    standing.prepared(number)  # whatever failed before: all of it answers
                raise
            except Unavailable as error:
                if standing is not None:
                    standing.failed(number, str(error), time_s())
                raise

        try:
            while not await turns.take(act()):
                pass
        finally:
            telling.cancel()
            if standing is not None:
                standing.prepared(number)
        return found[0]

    async def _tell(self, number: int) -> None:
        """What takes longer than anybody expects is told, every few seconds."""
        while True:
            await asyncio.sleep(CATCH_UP_LOG_S)
            at = self._aggregator.catching_up.get(number, CatchUp())
            logger.info(
                "partition_catches_up", partition=number, keys=at.keys, of=at.keys_total or None
            )
