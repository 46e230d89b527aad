"""Lanes of the usage store: none waits behind another, each statement is within its bounds, and
what nobody waits for is ended.
"""

import asyncio
import threading
from collections.abc import Iterator
from typing import Final
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.backends.clickhouse.bounds import READING, RUNS, UPKEEP, within_bounds
from meterline.backends.clickhouse.clients.lanes import COUNTING, Lane
from meterline.backends.clickhouse.connection import Connection, Exceeded
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.limits import ANSWER_PIECE_BYTES, ANSWER_S_MAX
from meterline.problem import Problem, ProblemType
from meterline.usage import SliceId

# One of its own for each process of tests: they share a server.
_OWN: Final = uuid4().int % 10**9
LONG: Final = f"SELECT sum(cityHash64(number + {_OWN})) AS n FROM numbers(1000000000000)"
MUCH: Final = "SELECT uniqExact(number) AS n FROM numbers(100000000)"
SHORT: Final = Lane("short", 2, 1, 1, seconds_each=1, gives_up=True)
SMALL: Final = Lane("small", 2, 1, 1, bytes_each=20_000_000, gives_up=True)
RUNNING: Final = f"SELECT count() FROM system.processes WHERE startsWith(query, '{LONG}')"
lanes = st.sampled_from([COUNTING, READING, RUNS, UPKEEP, SHORT, SMALL])


async def running(connection: Connection) -> int:
    ((number,),) = await connection.query(RUNNING, {})
    return int(number)


async def until(connection: Connection, number: int) -> None:
    """So many long statements run."""
    while await running(connection) != number:  # noqa: ASYNC110 - the engine tells nobody
        await asyncio.sleep(0.01)


async def test_counting_and_runs_do_not_wait_behind_readers(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    over, connection = threading.Event(), usage_store.connection
    nobodys = SliceId(next(fresh_numbers), 0, 0)
    reading = connection.lane(READING)
    readers = [
        asyncio.create_task(reading.run(lambda _: over.wait())) for _ in range(3 * READING.threads)
    ]
    try:
        assert await usage_store.account(nobodys) is None
        assert await usage_store.count_back(nobodys, [1])
        for lane in (RUNS, UPKEEP):
            assert await connection.lane(lane).query("SELECT 1", {}) == [(1,)]
        assert not any(task.done() for task in readers)
    finally:
        over.set()
        await asyncio.gather(*readers)


async def test_a_lane_is_one_for_all_who_ask_for_it(usage_store: ClickHouseUsageStore) -> None:
    connection = usage_store.connection
    assert connection.lane(READING) is connection.lane(READING)


async def test_a_statement_has_so_much_time(usage_store: ClickHouseUsageStore) -> None:
    short = usage_store.connection.lane(SHORT)
    with pytest.raises(Exceeded):
        await short.query(LONG, {})
    with pytest.raises(Exceeded):
        await anext(short.stream(LONG, {}, {}, bytes))
    await until(usage_store.connection, 0)
    assert await short.query("SELECT 1", {}) == [(1,)]


async def test_a_statement_has_so_much_memory(usage_store: ClickHouseUsageStore) -> None:
    small = usage_store.connection.lane(SMALL)
    with pytest.raises(Exceeded):
        await small.query(MUCH, {})
    with pytest.raises(Exceeded):
        await anext(small.stream(MUCH, {}, {}, bytes))


@pytest.mark.parametrize("streamed", [False, True])
async def test_what_nobody_waits_for_is_ended(
    usage_store: ClickHouseUsageStore, *, streamed: bool
) -> None:
    connection = usage_store.connection
    reading = connection.lane(READING)

    async def ask() -> None:
        if not streamed:
            await reading.query(LONG, {}, {})
        async for _ in reading.stream(LONG, {}, {}, bytes):
            pass

    asking = asyncio.create_task(ask())
    await until(connection, 1)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await until(connection, 0)


async def test_a_short_answer_is_one_piece_and_a_long_one_is_whole(
    usage_store: ClickHouseUsageStore,
) -> None:
    reading = usage_store.connection.lane(READING)

    async def pieces(rows: int) -> list[bytes]:
        sql = f"SELECT number AS n FROM numbers({rows})"
        return [piece async for piece in reading.stream(sql, {}, {}, bytes)]

    assert await pieces(0) == [b""]
    assert [len(piece.splitlines()) for piece in await pieces(3)] == [3]
    long = await pieces(50_000)
    assert len(long) > 1
    assert max(map(len, long)) <= ANSWER_PIECE_BYTES
    assert len(b"".join(long).splitlines()) == 50_000


@given(
    lanes,
    st.dictionaries(
        st.sampled_from(["max_execution_time", "max_memory_usage", "max_threads", "max_rows"]),
        st.integers(1, 10**9),
    ),
    st.booleans(),
    st.booleans(),
)
def test_settings_are_what_was_asked_for_within_the_lane(
    lane: Lane,
    asked: dict[str, int],
    embedded: bool,
    streamed: bool,
) -> None:
    made = lane.settings(asked, embedded=embedded, streamed=streamed)
    assert made["priority"] == lane.rank
    assert all(made[name] <= value for name, value in asked.items())
    if lane.bytes_each is not None:
        assert made["max_memory_usage"] <= lane.bytes_each
    if lane.seconds_each is not None:
        assert made["max_execution_time"] <= (ANSWER_S_MAX if streamed else lane.seconds_each)
    if lane is COUNTING:
        assert {name: made[name] for name in asked} == asked, "counting has no bounds"


def test_who_is_beyond_a_bound_is_told_how_to_ask_for_less() -> None:
    words = "fewer days, a larger window or fewer groups"
    with pytest.raises(Problem, match=words) as told, within_bounds():
        raise Exceeded("Timeout exceeded")
    assert told.value.type is ProblemType.BAD_REQUEST
