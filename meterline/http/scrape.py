"""`/metrics`, and what measures requests.

What only stores know is asked for when it is scraped, at most every `METRIC_ASK_S`, and a scrape
does not wait for it longer than `METRIC_WAIT_S`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from aiohttp import web
from aiohttp.hdrs import ACCEPT

from meterline.http.answers import REQUEST_ID
from meterline.http.connections import Answered
from meterline.limits import METRIC_ASK_S, METRIC_ASK_TIMEOUT_S, METRIC_WAIT_S
from meterline.ports import OTHER, Recorder, Tell, Unavailable, metrics

OPERATION: Final = web.RequestKey("operation", str)
TRACE_ID: Final = web.RequestKey("trace_id", str)  # where it is sampled
PATH: Final = "/metrics"
_log: Final = structlog.get_logger("meterline.http")
# Sets gauges; raises `Unavailable` where what it asks does not answer.
Look = Callable[[], Awaitable[None]]


class Scrape:
    """Answers scrapes. `exposition` makes the text for an `Accept` header, and its media type.

    `looks` ask stores; `glances` set gauges from what the process knows, with each scrape.
    """

    def __init__(
        self,
        exposition: Callable[[str], tuple[bytes, str]],
        ask_s: float = METRIC_ASK_S,
        wait_s: float = METRIC_WAIT_S,
    ) -> None:

        async def in_thread(accept: str) -> tuple[bytes, str]:
            return await asyncio.to_thread(exposition, accept)

        self.exposition: Callable[[str], Awaitable[tuple[bytes, str]]] = in_thread
        self._ask_s = ask_s
        self._wait_s = wait_s
        self.looks: list[Look] = []
        self.glances: list[Callable[[], None]] = []
        self._looking: asyncio.Task[None] | None = None
        self._looked_s = -ask_s

    def routes(self) -> list[web.RouteDef]:
        """Where it is mounted."""
        return [web.get(PATH, self.answer)]

    async def answer(self, request: web.Request) -> web.Response:
        """200 with all metrics. OpenMetrics where that is accepted, else Prometheus' text."""
        await self.refresh()
        text, media = await self.exposition(request.headers.get(ACCEPT, ""))
        return web.Response(body=text, headers={"Content-Type": media})

    async def refresh(self) -> None:
        """Bring every gauge up to date, as far as stores answer."""
        await self.look()
        for glance in self.glances:
            glance()

    async def look(self) -> None:
        """Ask the stores where it is time, and wait a moment for them."""
        now_s = asyncio.get_running_loop().time()
        if self._looking is None and now_s - self._looked_s >= self._ask_s:
            self._looked_s = now_s
            self._looking = asyncio.create_task(self._look_at_all())
        if self._looking is not None:
            await asyncio.wait((self._looking,), timeout=self._wait_s)

    async def _look_at_all(self) -> None:
        try:
            await asyncio.gather(*map(_looked, self.looks))
        finally:
            self._looking = None

    async def close(self) -> None:
        """Wait for looks under way: they have stores in hand."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait((self._looking,))


async def _looked(look: Look) -> None:
    """A look that fails shows in the errors of its store, and leaves the others alone."""
    try:
        async with asyncio.timeout(METRIC_ASK_TIMEOUT_S):
            await look()
    except (Unavailable, TimeoutError) as error:
        _log.debug("metrics", action="unavailable", reason=str(error))
    except Exception:  # noqa: BLE001 - a fault of one gauge must not take the others along
        _log.exception("metrics", action="failed")


def measuring(recorder: Recorder, *, traced: bool = False) -> Answered:
    """Tells each answer of a `Runner`, by its operation and status. Whatever is no operation is
    one: paths that are made up make no series. `traced`: some requests have a `TRACE_ID`.

    Every request pays for this. So it is no middleware, whose coroutine costs more than all it
    does, and it asks for no key that is absent as a rule: aiohttp raises and catches for it.
    """
    series: dict[tuple[str, int], Tell] = {}  # as many as there are series

    def bound(operation: str, status: int) -> Tell:
        counted, timed = metrics.HTTP_REQUESTS, metrics.HTTP_SECONDS
        tell = series[operation, status] = recorder.timer(counted, timed, operation, str(status))
        return tell

    def answered(request: web.BaseRequest, response: web.StreamResponse, took_s: float) -> None:
        try:
            operation = request[OPERATION]
        except KeyError:
            if REQUEST_ID not in request:
                return  # it was no HTTP: the application never saw it
            operation = OTHER
        status = response.status
        (series.get((operation, status)) or bound(operation, status))(took_s)
        if traced and (trace_id := request.get(TRACE_ID)):
            recorder.exemplify(metrics.HTTP_SECONDS, took_s, trace_id, operation)

    return answered
