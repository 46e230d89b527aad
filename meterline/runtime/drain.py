"""The end of a process that takes requests: first it says so, then it takes none.

A load balancer sends requests until it has seen `/readyz` fail. So the process goes on as before
for `drain_s` seconds after the signal. Its answers close their connections, so that clients with
open ones come back elsewhere.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final, Protocol

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from meterline.limits import WORKER_RETIRE_S
from meterline.ports import Unavailable

logger = structlog.get_logger()
RETIRE_LOOK_S: Final = 0.1


class Serving(Protocol):
    """Where requests come in."""

    async def refuse_new(self) -> None:
        """Take no new connection; those that are open go on."""
        ...

    @property
    def connections(self) -> int:
        """How many are open."""
        ...


class Drain:
    """From the signal, `stop`, until the process takes nothing any more, `ended`.

    Where another process has taken its place already, `retire` says so: then it takes no new
    connection, and ends with its last one. It stays ready: who asks it may not know of the other.
    """

    def __init__(
        self, stop: asyncio.Event, drain_s: float, retire: asyncio.Event | None = None
    ) -> None:
        self._stop = stop
        self._drain_s = drain_s
        self._retire = retire or asyncio.Event()
        self.serving: Serving | None = None
        self.ended = asyncio.Event()

    async def run(self) -> None:
        """Return when it ended."""
        retiring = asyncio.create_task(self._retired())
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait([retiring, stopping], return_when=asyncio.FIRST_COMPLETED)
            if self._stop.is_set():
                await self._stopped()
        finally:
            retiring.cancel()
            stopping.cancel()
            await asyncio.gather(retiring, stopping, return_exceptions=True)
        self.ended.set()

    async def _retired(self) -> None:
        await self._retire.wait()
        assert self.serving is not None, "it was ready, or nobody takes its place"
        logger.info("retiring")
        await self.serving.refuse_new()
        left_s = WORKER_RETIRE_S
        while self.serving.connections and left_s > 0:
            await asyncio.sleep(RETIRE_LOOK_S)
            left_s -= RETIRE_LOOK_S

    async def _stopped(self) -> None:
        if self._drain_s:
            logger.info("draining", wait_s=self._drain_s)
            await asyncio.sleep(self._drain_s)

    async def check(self) -> None:
        """For `/readyz`. Raises `Unavailable` once the process was told to stop."""
        if self._stop.is_set():
            raise Unavailable("the process is stopping: send requests to another one")

    def middlewares(self) -> Sequence[Middleware]:
        """Answers of a process that is told to stop, or to retire, close their connections."""

        @web.middleware
        async def close(request: web.Request, handler: Handler) -> web.StreamResponse:
            response = await handler(request)
            leaving = self._stop.is_set() or self._retire.is_set()
            if leaving and not response.prepared:
                response.force_close()
            return response

        return (close,)


def draining(
    stack: AsyncExitStack,
    stop: asyncio.Event,
    drain_s: float,
    retire: asyncio.Event | None = None,
) -> Drain:
    """A drain that waits for `stop` in the background, until the stack is closed."""
    drain = Drain(stop, drain_s, retire)
    waiting = asyncio.create_task(drain.run())
    stack.callback(waiting.cancel)
    return drain
