"""Tasks by which a process that goes on knows of partitions that its log gets."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import structlog

from meterline.backends.kafka.log import KafkaLog
from meterline.event import laid_out
from meterline.limits import LAYOUT_LOOK_MS, ROUTES_KNOWN_S
from meterline.ports import Unavailable
from meterline.runtime.wiring.adapters import Opened, OpenLog

logger = structlog.get_logger()
LAYOUT_LOOK_S: Final = LAYOUT_LOOK_MS / 1_000


async def follow_routes(log: OpenLog) -> None:
    """Until cancelled: a gateway that has nothing to do knows of partitions that the log gets. Else
    its next events would go by fewer, and be sent again.
    """
    if isinstance(log, KafkaLog):
        await again_and_again(log.look, ROUTES_KNOWN_S)


async def follow_layout(opened: Opened) -> None:
    """Until cancelled: partitions that the log gets are known soon."""
    look = partial(laid_out, opened.log, opened.stores.progress.layout)
    await again_and_again(look, LAYOUT_LOOK_S)


async def again_and_again(look: Callable[[], Awaitable[object]], pause_s: float) -> None:
    """Until cancelled. What goes wrong in one look does not end the next ones."""
    while True:
        await asyncio.sleep(pause_s)
        try:
            await look()
        except Unavailable:
            pass  # whoever needs what was asked tells of it
        except Exception:  # or it would go by an old layout for ever
            logger.exception("log_layout_unknown")
