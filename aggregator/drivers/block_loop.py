"""The loop that makes blocks beside counting."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import structlog

from aggregator.blocks import BlockMaker
from aggregator.drivers.turns import rest_after
from meterline.limits import BLOCK_LOOK_S, BLOCK_SEALS_WAIT_S, BLOCK_SWEEP_S
from meterline.ports import Unavailable
from meterline.window import Backoff

logger = structlog.get_logger()


class Driver(Protocol):
    """What drives counting."""

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set, or until an error that is not of the world."""
        ...


@dataclass(frozen=True, slots=True)
class BesideCounting:
    """What the making of blocks must know of counting: whether this worker is the one that makes
    them (`holds`), what comes before each of them (`before`: erasures, whose rows no block may be
    made of meanwhile), how many times as long as it worked the making rests
    (`rests`, but once at least; see `Housekeeping.rests`), and whether slices that have ended wait
    for their seals (`is_sealing`).
    """

    holds: Callable[[], bool]
    before: Callable[[], Awaitable[None]]
    rests: Callable[[], int]
    is_sealing: Callable[[], bool]


class WithBlocks:
    """A driver of counting, with the making of blocks beside it."""

    def __init__(self, driver: Driver, maker: BlockMaker, counted: BesideCounting) -> None:
        self._driver = driver
        self._maker = maker
        self._counted = counted

    async def run(self, stop: asyncio.Event) -> None:
        """As the driver does. A block in the making is given up at the end."""
        making = asyncio.create_task(make_blocks_for_ever(self._maker, self._counted))
        try:
            await self._driver.run(stop)
        finally:
            making.cancel()
            await asyncio.gather(making, return_exceptions=True)


async def make_blocks_for_ever(maker: BlockMaker, counted: BesideCounting) -> None:
    """Until cancelled. Works only while this worker `holds`, and rests as long as it made blocks;
    far longer while counting is late. Seals come first. What nobody reads is swept away beside
    that: there may always be something to be made. Nothing that goes wrong here ends counting:
    readers read minutes where there is no block.
    """
    await asyncio.gather(
        _for_ever(partial(_made, maker, counted), BLOCK_LOOK_S, counted.holds),
        _for_ever(maker.sweep, BLOCK_SWEEP_S, counted.holds),
    )


async def _made(maker: BlockMaker, counted: BesideCounting) -> None:
    """Make whatever is due: that may take hours, and does not wait for seals again. Rests are
    measured by the loop: clocks step.
    """
    time_s = asyncio.get_running_loop().time
    await _seals_set(counted)
    while counted.holds():
        await counted.before()
        began_s = time_s()
        if not await maker.step():
            return
        await rest_after(time_s() - began_s, lambda: max(1, counted.rests()))


async def _seals_set(counted: BesideCounting) -> None:
    """Slices of all partitions end together, and their seals are spread over a while: one block of
    all of them costs little more than one of each few, and has fewer to be merged with.
    """
    for _ in range(BLOCK_SEALS_WAIT_S):
        if not counted.is_sealing():
            return
        await asyncio.sleep(1)


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
