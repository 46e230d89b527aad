"""Shell: ends a worker that is stuck, and the process with it, whatever hangs."""

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Protocol

import structlog

from aggregator.drivers.standing import Standing, Stuck
from meterline.limits import STUCK_LOOK_S, STUCK_STOP_S

logger = structlog.get_logger()


class Worker(Protocol):
    """A shell that works until it is stopped."""

    async def run(self, stop: asyncio.Event) -> None:
        """Return after `stop` is set."""
        ...


def exit_soon() -> None:
    """End the process in a while, by a thread that waits for nothing: what hangs may be a thread,
    and Python waits for threads when it ends.
    """
    timer = threading.Timer(STUCK_STOP_S, os._exit, (1,))
    timer.daemon = True
    timer.start()


class StuckGuard:
    """A worker that is ended when it is stuck. `leave` makes sure that the process ends then."""

    def __init__(
        self,
        worker: Worker,
        standing: Standing,
        leave: Callable[[], None] = exit_soon,
        look_s: float = STUCK_LOOK_S,
    ) -> None:
        self._worker = worker
        self._standing = standing
        self._leave = leave
        self._look_s = look_s

    async def run(self, stop: asyncio.Event) -> None:
        """As the worker does. Raises `Stuck`."""
        working = asyncio.create_task(self._worker.run(stop))
        watching = asyncio.create_task(self._watch())
        try:
            await asyncio.wait([working, watching], return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                watching.result()
            await working
        except Stuck as error:
            logger.error("aggregator_failed", error=str(error))  # noqa: TRY400 - no traceback of ours helps
            self._leave()
            raise
        finally:
            watching.cancel()
            working.cancel()
            await asyncio.wait([watching, working], timeout=STUCK_STOP_S)

    async def _watch(self) -> None:
        """Raises `Stuck`."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._look_s)
            self._standing.check_stuck(loop.time())
