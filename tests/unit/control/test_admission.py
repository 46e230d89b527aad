"""Who may ask at once, and what becomes of a question whose asker has gone."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

from control.handlers import Operation
from control.routes import bound_v1, bound_v3, declared_api
from control.usage.admission import BOUNDS, Admissions, Asks, leave_place, while_connected
from control.usage.places import Bounds
from meterline.access import ANONYMOUS, Scope
from meterline.http.operation import Answer, Bound, Call, bind
from meterline.http.operation import Operation as HttpOperation
from meterline.http.shapes import NoParameters
from meterline.limits import CLIENT_LOOK_S
from meterline.problem import Problem
from tests.simulation.virtual_loop import VirtualLoop

ONE = Bounds("usage queries", "ask for less", 1, 1, 1, 1, 1, 10)


class Line:
    """A connection that may be closed."""

    closed = False

    def is_closing(self) -> bool:
        return self.closed


class Asked(dict[Any, Any]):
    """A request, as far as admission looks at it."""

    def __init__(self) -> None:
        super().__init__()
        self.transport = Line()


def call_of(request: Any) -> Call[Any, Any]:
    return Call(request, ANONYMOUS, {}, NoParameters(), None)


def operation(asks: Asks | None) -> HttpOperation[Any, Any]:
    return Operation(
        id="o",
        route="GET /o",
        summary="",
        scope=Scope.USAGE_READ,
        answer=Answer(200, ""),
        asks=asks,
    )


def test_every_operation_that_reads_what_is_stored_is_let_in_by_its_kind() -> None:
    api = declared_api()
    kinds = {
        one.operation.id: getattr(one.operation, "asks", None)
        for one in (*bound_v3(api), *bound_v1(api))
    }
    assert {name for name, kind in kinds.items() if kind is Asks.USAGE} == {
        "query-meter",
        "queryMeter",
        "queryMeterPost",
        "list-rejected-values",
    }
    assert {name for name, kind in kinds.items() if kind is Asks.MUCH} == {
        "preview-meter",
        "preview-report",
        "preview-new-report",
        "compare-meter-revision",
    }
    assert {name for name, kind in kinds.items() if kind is Asks.SEARCH} == {
        "list-accounts",
        "list-usage-events",
        "list-metering-events",
        "list-event-subjects",
        "get-event-trace",
        "list-meter-subjects",
        "list-dimension-values",
        "listMeterSubjects",
        "listMeterGroupByValues",
        "listEvents",
        "listEventsV2",
    }
    assert set(BOUNDS) == set(Asks)


def test_a_slow_reader_of_a_long_answer_leaves_its_place_to_others() -> None:
    loop = VirtualLoop()

    async def answer(call: Call[Any, Any]) -> web.StreamResponse:
        await asyncio.sleep(5)
        leave_place(call.request)
        await asyncio.sleep(500)
        return web.Response()

    bound = Admissions({Asks.USAGE: ONE}).bound(bind(operation(Asks.USAGE), answer))

    async def ask() -> float:
        tasks = [asyncio.create_task(_answered(bound)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Problem, match="ask for less"):
            await bound.answer(call_of(Asked()))
        await asyncio.gather(*tasks)
        return loop.time()

    assert loop.run_until_complete(ask()) == 510
    loop.end()


async def _answered(bound: Bound) -> None:
    await bound.answer(call_of(Asked()))


def test_what_asks_for_nothing_is_always_let_in() -> None:
    async def answer(_: Call[Any, Any]) -> web.StreamResponse:
        return web.Response()

    one = bind(operation(None), answer)
    assert Admissions().bound(one) is one


def test_a_question_whose_asker_has_gone_is_given_up() -> None:
    loop, request = VirtualLoop(), Asked()
    cancelled: list[float] = []

    async def answer() -> web.StreamResponse:
        try:
            await asyncio.sleep(1_000)
        except asyncio.CancelledError:
            cancelled.append(loop.time())
            raise
        return web.Response()

    async def ask() -> None:
        with pytest.raises(ConnectionResetError):
            await while_connected(request, answer())  # type: ignore[arg-type] # as far as looked at

    loop.at(3.2, lambda: setattr(request.transport, "closed", True))
    loop.run_until_complete(ask())
    assert cancelled == [3.5]
    assert CLIENT_LOOK_S == 0.5
    assert loop.end() == []
