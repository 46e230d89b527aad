"""The end of a process that takes requests: first it says so, then it takes none.

A load balancer sends requests until it has seen `/readyz` fail. So the process goes on as before
for `drain_s` seconds after the signal. Its answers close their connections, so that clients with
open ones come back elsewhere.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from meterline.ports import Unavailable

logger = structlog.get_logger()


class Drain:
    """From the signal, `stop`, until the process takes nothing any more, `ended`."""

    def __init__(self, stop: asyncio.Event, drain_s: float) -> None:
        self._stop = stop
        self._drain_s = drain_s
        self.ended = asyncio.Event()

    async def run(self) -> None:
        """Return when it ended."""
        await self._stop.wait()
        if self._drain_s:
            logger.info("draining", wait_s=self._drain_s)
            await asyncio.sleep(self._drain_s)
        self.ended.set()

    async def check(self) -> None:
        """For `/readyz`. Raises `Unavailable` once the process was told to stop."""
        if self._stop.is_set():
            raise Unavailable("the process is stopping: send requests to another one")

    def middlewares(self) -> Sequence[Middleware]:
        """Answers of a process that is told to stop close their connections."""

        @web.middleware
        async def close(request: web.Request, handler: Handler) -> web.StreamResponse:
            response = await handler(request)
            if self._stop.is_set() and not response.prepared:
                response.force_close()
            return response

        return (close,)


def draining(stack: AsyncExitStack, stop: asyncio.Event, drain_s: float) -> Drain:
    """A drain that waits for `stop` in the background, until the stack is closed."""
    drain = Drain(stop, drain_s)
    waiting = asyncio.create_task(drain.run())
    stack.callback(waiting.cancel)
    return drain
