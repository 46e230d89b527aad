"""The room that request bodies share: bounded, and one caller leaves some to others."""

import asyncio

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from meterline.backends.clock import SystemClock
from meterline.http import SERVER_OPTIONS, problem_middleware
from meterline.http.bodies import HOLDING, BodyRoom, Holding, read_body
from meterline.http.connections import Runner
from meterline.problem import Problem, ProblemType

asked = st.lists(
    st.tuples(st.sampled_from(["", "a", "b", "c"]), st.integers(1, 60), st.booleans()), max_size=60
)


@given(asked)
def test_no_more_is_held_than_there_is_and_all_is_given_back(
    asked: list[tuple[str, int, bool]],
) -> None:
    room = BodyRoom(100, 50)
    held: list[tuple[str, int]] = []
    for caller, size, gives_back in asked:
        if gives_back and held:
            room.release(*held.pop(0))
        before = room.held
        of_caller = sum(one for name, one in held if name == caller)
        fits = before + size <= 100 and (not caller or of_caller + size <= 50)
        if fits:
            room.hold(caller, size)
            held.append((caller, size))
        else:
            with pytest.raises(Problem) as refused:
                room.hold(caller, size)
            assert refused.value.type is ProblemType.UNAVAILABLE
            assert refused.value.retry_after_s == 1
        assert room.held == sum(size for _, size in held) <= 100
    for one in held:
        room.release(*one)
    assert room.held == 0


def test_one_key_leaves_room_to_others() -> None:
    room = BodyRoom(100, 50)
    room.hold("greedy", 50)
    with pytest.raises(Problem, match="one key may"):
        room.hold("greedy", 1)
    room.hold("other", 50)
    with pytest.raises(Problem, match="memory"):
        room.hold("third", 1)


async def test_what_a_request_held_is_given_back_however_it_ends() -> None:
    rooms: list[Holding] = []
    room = BodyRoom(1_000)

    async def echo(request: web.Request) -> web.Response:
        request[HOLDING] = Holding(room)
        rooms.append(request[HOLDING])
        try:
            return web.Response(body=await read_body(request, 400))
        finally:
            assert room.held <= 1_000
            request[HOLDING].end()

    clock = SystemClock()
    app = web.Application(middlewares=[problem_middleware(clock)])
    app.add_routes([web.post("/", echo)])
    runner = Runner(app, clock, **SERVER_OPTIONS)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0]
    head = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    whole = head + b"Content-Length: 5\r\n\r\nhello"
    too_large = head + b"Transfer-Encoding: chunked\r\n\r\n" + b"ff\r\n" + b"x" * 255 + b"\r\n" * 1
    for raw in (whole, too_large + b"ff\r\n" + b"y" * 255 + b"\r\n0\r\n\r\n", head + b"\r\n"):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(raw)
        answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 ")
        assert room.held == 0
    assert len(rooms) == 3
    await runner.cleanup()


async def test_where_there_is_no_room_the_answer_says_to_come_back() -> None:
    """Three requests hold all the room by bodies that do not end; a fourth is told, and is taken
    when one of them has gone.
    """

    async def take(request: web.Request) -> web.Response:
        request[HOLDING] = holding = Holding(room)
        try:
            return web.Response(text=str(len(await read_body(request, 400))))
        finally:
            holding.end()

    room, clock = BodyRoom(300), SystemClock()
    app = web.Application(middlewares=[problem_middleware(clock)])
    app.add_routes([web.post("/", take)])
    runner = Runner(app, clock, **SERVER_OPTIONS)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0]
    slow = []
    for _ in range(3):
        _, writer = await asyncio.open_connection(host, port)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200\r\n\r\n" + b"x" * 100)
        slow.append(writer)
    while room.held < 300:  # noqa: ASYNC110 - the room is told by nobody
        await asyncio.sleep(0.01)

    async def ask() -> bytes:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(
            b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"
        )
        answer = await reader.read()
        writer.close()
        return answer

    refused = await ask()
    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nRetry-After: 1\r\n" in refused
    slow[0].write(b"x" * 100)
    while room.held > 200:  # noqa: ASYNC110 - as above
        await asyncio.sleep(0.01)
    assert (await ask()).endswith(b"\r\n\r\n5")
    for writer in slow:
        writer.close()
    await runner.cleanup()
