"""Who may ask what is stored now: so many at once of each kind, in all, of a namespace and of a
key. Others wait for a moment, then they are told to come back, or to ask for less.

What nobody waits for any more is given up: a request whose connection was closed is cancelled.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from enum import Enum
from typing import Any, Final

from aiohttp import web

from control.usage.places import Bounds, Place, Places, caller_of
from meterline import limits
from meterline.http.operation import Bound, Call
from meterline.ports import SILENT, Recorder, metrics

PLACE: Final = web.RequestKey("place", Place)
_SPAN: Final = "ask for less in each: fewer days, or one part of the span after another"


class Asks(Enum):
    """What an operation asks for."""

    USAGE = "usage"  # a question that is answered within a moment, or streams its rows
    SEARCH = "search"  # among events, or for the values that occur
    MUCH = "much"  # it folds or compares what many rows say


BOUNDS: Final[Mapping[Asks, Bounds]] = {
    Asks.USAGE: Bounds(
        "usage queries",
        "ask for less in each: fewer days, a larger window, fewer groups",
        *limits.QUERIES_AT_ONCE,
        *limits.QUERIES_WAITING,
        limits.QUERY_WAIT_S,
    ),
    Asks.SEARCH: Bounds(
        "searches among events and values",
        _SPAN,
        *limits.SEARCHES_AT_ONCE,
        *limits.SEARCHES_WAITING,
        limits.QUERY_WAIT_S,
    ),
    Asks.MUCH: Bounds(
        "previews and comparisons",
        _SPAN,
        *limits.PREVIEWS_AT_ONCE,
        *limits.PREVIEWS_WAITING,
        limits.PREVIEW_WAIT_S,
    ),
}


class Admissions:
    """Lets requests in; one for all operations of a process."""

    def __init__(self, bounds: Mapping[Asks, Bounds] = BOUNDS, recorder: Recorder = SILENT) -> None:
        self._recorder = recorder
        self._places = {kind: Places(each) for kind, each in bounds.items()}

    def bound(self, one: Bound) -> Bound:
        """The operation, whose requests have to be let in if it asks for something."""
        asks: Asks | None = getattr(one.operation, "asks", None)
        if asks is None:
            return one
        places = self._places[asks]

        async def placed(call: Call[Any, Any]) -> web.StreamResponse:
            async with places.place(caller_of(call.principal)) as place:
                call.request[PLACE] = place
                return await one.answer(call)

        async def answer(call: Call[Any, Any]) -> web.StreamResponse:
            time_s = asyncio.get_running_loop().time
            began_s = time_s()
            try:
                return await while_connected(call.request, placed(call))
            finally:
                self._recorder.observe(metrics.QUERY_SECONDS, time_s() - began_s, asks.value)

        return Bound(one.operation, answer)


def leave_place(request: web.Request) -> None:
    """Give the place of a request back before its end: a long answer has one of another kind."""
    if (place := request.get(PLACE)) is not None:
        place.leave()


async def while_connected(
    request: web.Request, answering: Coroutine[Any, Any, web.StreamResponse]
) -> web.StreamResponse:
    """The answer; given up once its client has gone, and `ConnectionResetError` raised then."""
    task = asyncio.create_task(answering)
    try:
        while not task.done():
            await asyncio.wait((task,), timeout=limits.CLIENT_LOOK_S)
            if not task.done() and _gone(request):
                raise ConnectionResetError("the client has gone")
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))


def _gone(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()
