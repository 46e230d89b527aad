"""Shell: the loop that tells how far everything is complete, beside either worker."""

import asyncio

import structlog

from aggregator.housekeeping import Housekeeping
from meterline.limits import HOUSEKEEPING_INTERVAL_S, WORKER_BACKOFF_MIN_S
from meterline.ports import Clock, Unavailable

logger = structlog.get_logger()


async def claim_for_ever(housekeeping: Housekeeping, clock: Clock) -> None:
    """Until cancelled. Whatever is not of the world ends it, and is the worker's to raise."""
    while True:
        await asyncio.sleep(HOUSEKEEPING_INTERVAL_S)
        try:
            await housekeeping.claim(clock.now_ms())
        except Unavailable as error:
            logger.warning("claims_wait", reason=str(error))
            await asyncio.sleep(WORKER_BACKOFF_MIN_S)
