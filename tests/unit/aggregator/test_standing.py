"""Whether counting gets on: a partition with records behind it must move."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import pytest

from aggregator.completeness import Completeness
from aggregator.drivers.openings import Openings
from aggregator.drivers.standing import UNREADY_AFTER_S, Standing, Stuck
from aggregator.housekeeping import Housekeeping
from meterline.limits import STALLED_AFTER_S
from meterline.meter import Aggregation
from meterline.ports import Unavailable
from tests.unit.aggregator.world import AT_ONCE, PARTITIONS, Meters, World, numbered


def test_a_partition_that_stands_for_a_minute_is_not_ready() -> None:
    assert UNREADY_AFTER_S == STALLED_AFTER_S / 2 == 60
    standing = Standing()
    for second in range(60):
        standing.look({0: 5, 1: 9}, {0: 8}, second)
        standing.check(second)
    standing.look({0: 5, 1: 9}, {0: 8}, 60)
    assert standing.longest_s(60) == 60
    with pytest.raises(Unavailable, match="partition 0 stands at offset 5 for 60 s"):
        standing.check(60)


def test_whoever_moves_or_has_nothing_behind_it_does_not_stand() -> None:
    standing = Standing()
    for second in range(0, 600, 10):
        standing.look({0: second, 1: 9}, {0: 10_000, 1: 9}, second)
        standing.check(second)
        assert standing.longest_s(second) == 0


def test_it_is_ready_again_once_it_moves_or_is_let_go() -> None:
    standing = Standing()
    standing.look({0: 5, 1: 5}, {0: 8, 1: 8}, 0)
    standing.look({0: 5, 1: 5}, {0: 8, 1: 8}, 100)
    with pytest.raises(Unavailable, match="partition 0"):
        standing.check(100)
    standing.look({0: 6, 1: 5}, {0: 8, 1: 8}, 101)
    with pytest.raises(Unavailable, match="partition 1"):
        standing.check(101)
    standing.look({0: 7}, {0: 8}, 102)  # the other one is somebody else's now
    standing.check(102)


def test_it_is_told_also_while_nobody_looks() -> None:
    standing = Standing()
    standing.look({0: 5}, {0: 8}, 10)
    assert standing.longest_s(100) == 90
    with pytest.raises(Unavailable):
        standing.check(100)


def test_a_partition_that_cannot_be_prepared_for_a_minute_is_told() -> None:
    standing = Standing()
    for second in range(0, 60, 10):
        standing.failed(3, f"reason {second}", 100 + second)
        standing.check(100 + second)
    with pytest.raises(Unavailable, match=r"partition 3 is not counted: .* 60 s, .*: reason 50"):
        standing.check(160)
    standing.prepared(3)
    standing.prepared(4)
    standing.check(160)
    standing.failed(3, "again", 170)
    standing.check(200)


async def test_what_cannot_be_prepared_keeps_the_guard_on_for_others(world: World) -> None:
    """The others are found to be stuck although one waits for what is away."""
    standing, time_s = Standing(), asyncio.get_running_loop().time
    worker = world.worker(Meters(0), lambda: "fail before")
    openings, tried = Openings(worker, standing), list[float]()
    failed = standing.failed

    def telling(number: int, reason: str, now_s: float) -> None:
        failed(number, reason, now_s)
        tried.append(now_s)

    standing.failed = telling  # type: ignore[method-assign]
    assert not openings.is_open(1)
    while len(tried) < 2:  # noqa: ASYNC110 - it is asked as a worker asks, turn by turn
        await asyncio.sleep(0.01)
    with pytest.raises(Unavailable, match=r"partition 1 is not counted: .*: away"):
        standing.check(time_s() + UNREADY_AFTER_S)
    begun_s = tried[0] - STALLED_AFTER_S
    standing.look({0: 5}, {0: 8}, begun_s)
    for second in range(0, STALLED_AFTER_S, 10):
        standing.check_stuck(begun_s + second)
    with pytest.raises(Stuck, match="partition 0"):
        standing.check_stuck(begun_s + STALLED_AFTER_S)
    await openings.close()
    standing.look({}, {}, 0)
    standing.check(time_s() + UNREADY_AFTER_S)
    await worker.close_all()


async def test_a_worker_whose_store_takes_nothing_is_not_ready_until_it_does(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters, away, standing = Meters(0), False, Standing()
    meters.add(Aggregation.SUM, next(fresh_numbers))
    worker = world.worker(meters, lambda: "fail before" if away else "well")
    housekeeping = Housekeeping(worker, Completeness(worker, 0), AT_ONCE)

    async def looked(at_s: int) -> None:
        with suppress(Unavailable):  # a task of its own, which waits and calls again
            await housekeeping.claim(1_000_000 + at_s * 1_000)
        standing.look(*housekeeping.progress(), at_s)

    await world.run(worker)
    await world.send(numbered(0, 60))
    for number in range(PARTITIONS):
        await worker.read_some(number)
    away = True
    with pytest.raises(Unavailable):
        await worker.flush()
    for at_s in range(0, 60, 5):
        await looked(at_s)
        standing.check(at_s)
    await looked(60)
    with pytest.raises(Unavailable, match="stands at offset"):
        standing.check(60)
    away = False
    await worker.flush()
    await looked(61)
    standing.check(61)
    assert standing.longest_s(61) == 0
    await worker.close_all()
