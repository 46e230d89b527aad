"""The loop that makes blocks beside counting."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

import structlog

from aggregator.blocks import BlockMaker
from meterline.limits import BLOCK_LOOK_S, BLOCK_SWEEP_S
from meterline.ports import Unavailable
from meterline.window import Backoff

logger = structlog.get_logger()


class Driver(Protocol):
    """What drives counting."""

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set, or until an error that is not of the world."""
        ...


class WithBlocks:
    """A driver of counting, with the making of blocks beside it."""

    def __init__(
        self,
        driver: Driver,
        maker: BlockMaker,
        holds: Callable[[], bool],
        before: Callable[[], Awaitable[None]],
    ) -> None:
        self._driver = driver
        self._maker = maker
        self._holds = holds
        self._before = before

    async def run(self, stop: asyncio.Event) -> None:
        """As the driver does. A block in the making is given up at the end."""
        making = asyncio.create_task(make_blocks_for_ever(self._maker, self._holds, self._before))
        try:
            await self._driver.run(stop)
        finally:
            making.cancel()
            await asyncio.gather(making, return_exceptions=True)


async def make_blocks_for_ever(
    maker: BlockMaker, holds: Callable[[], bool], before: Callable[[], Awaitable[None]]
) -> None:
    """Until cancelled. `before` is done at each look: erasures, whose rows no block may be made of
    meanwhile. Works only while `holds` says so, and rests as long as it made blocks. What
    nobody reads is swept away beside that: there may always be something to be made. Nothing that
    goes wrong here ends counting: readers read minutes where there is no block.
    """
    await asyncio.gather(
        _for_ever(partial(_made, maker, before), BLOCK_LOOK_S, holds),
        _for_ever(maker.sweep, BLOCK_SWEEP_S, holds),
    )


async def _made(maker: BlockMaker, before: Callable[[], Awaitable[None]]) -> None:
    """Make whatever is due. Rests are measured by the loop: clocks step."""
    await before()
    time_s = asyncio.get_running_loop().time
    began_s = time_s()
    while await maker.step():
        await asyncio.sleep(time_s() - began_s)
        began_s = time_s()


async def _for_ever(
    work: Callable[[], Awaitable[None]], pause_s: float, holds: Callable[[], bool]
) -> None:
    backoff = Backoff()
    await asyncio.sleep(BLOCK_LOOK_S)
    while True:
        try:
            if holds():
                await work()
            backoff.reset()
        except Unavailable as error:
            wait_s = backoff.next_s()
            logger.warning("blocks_wait", reason=str(error), wait_s=wait_s)
            await asyncio.sleep(wait_s)
        except Exception:
            logger.exception("blocks_failed")
            await asyncio.sleep(backoff.next_s())
        await asyncio.sleep(pause_s)
