"""The loop that makes blocks beside counting."""

import asyncio
from collections.abc import Callable
from typing import Protocol

import structlog

from aggregator.blocks import BlockMaker
from meterline.limits import BLOCK_LOOK_S, BLOCK_SWEEP_S
from meterline.ports import Clock, Unavailable
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
        self, driver: Driver, maker: BlockMaker, holds: Callable[[], bool], clock: Clock
    ) -> None:
        self._driver = driver
        self._maker = maker
        self._holds = holds
        self._clock = clock

    async def run(self, stop: asyncio.Event) -> None:
        """As the driver does. A block in the making is given up at the end."""
        making = asyncio.create_task(make_blocks_for_ever(self._maker, self._holds, self._clock))
        try:
            await self._driver.run(stop)
        finally:
            making.cancel()
            await asyncio.gather(making, return_exceptions=True)


async def make_blocks_for_ever(maker: BlockMaker, holds: Callable[[], bool], clock: Clock) -> None:
    """Until cancelled. Works only while `holds` says so, and rests as long as it worked. Nothing
    that goes wrong here ends counting: readers read minutes where there is no block.
    """
    backoff = Backoff()
    swept_ms = 0
    while True:
        await asyncio.sleep(BLOCK_LOOK_S)
        if not holds():
            continue
        began_ms = clock.now_ms()
        try:
            if began_ms - swept_ms >= BLOCK_SWEEP_S * 1_000 or began_ms < swept_ms:
                await maker.sweep()
                swept_ms = began_ms
            while await maker.step():
                await asyncio.sleep(max(0, clock.now_ms() - began_ms) / 1_000)
                began_ms = clock.now_ms()
            backoff.reset()
        except Unavailable as error:
            wait_s = backoff.next_s()
            logger.warning("blocks_wait", reason=str(error), wait_s=wait_s)
            await asyncio.sleep(wait_s)
        except Exception:
            logger.exception("blocks_failed")
            await asyncio.sleep(backoff.next_s())
