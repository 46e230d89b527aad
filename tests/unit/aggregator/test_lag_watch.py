"""Partitions that Faust does not bring the records of."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aggregator.completeness import Completeness
from aggregator.drivers.faust_worker import FaustWorker
from aggregator.drivers.lag_watch import LagWatch
from aggregator.drivers.membership import Membership
from aggregator.housekeeping import Housekeeping
from meterline.event import Record
from meterline.limits import SILENT_AFTER_S, SILENT_BESIDE_OTHERS_AFTER_S, STALLED_AFTER_S
from meterline.meter import Aggregation
from tests.unit.aggregator.world import AT_ONCE, PARTITIONS, Meters, World, numbered

SILENT_MS = SILENT_AFTER_S * 1_000
ALL = range(PARTITIONS)


class Silent(FaustWorker):
    """A worker that was assigned every partition, and is brought nothing."""

    def _assigned(self) -> set[int]:
        return set(ALL)


def never(_: Any) -> Record:
    raise AssertionError("nothing is brought")


async def ends(world: World) -> list[int]:
    return [await world.log.end(number) for number in ALL]


async def test_what_faust_does_not_bring_is_read_from_the_log(
    world: World, fresh_numbers: Iterator[int], tmp_path: Path
) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.COUNT, next(fresh_numbers))
    aggregator = world.worker(meters)
    housekeeping = Housekeeping(aggregator, Completeness(aggregator, 0), AT_ONCE)
    membership = Membership("group", "127.0.0.1:9", "topic", str(tmp_path / "faust"))
    worker = Silent(aggregator, housekeeping, world.clock, never, membership)

    async def reached_after(pause_ms: int) -> list[int]:
        world.clock.at_ms += pause_ms
        await worker._tick()  # noqa: SLF001 - its clock is turned by hand
        return [aggregator.partitions[number].next_offset for number in ALL]

    while len(aggregator.partitions) < PARTITIONS:
        await worker._tick()  # noqa: SLF001 - each is prepared in a task of its own
        await asyncio.sleep(0.01)
    assert await reached_after(0) == [0] * PARTITIONS
    for first in (0, 40):  # and once more, when it has moved on
        await world.send(numbered(first, first + 40))
        before = await reached_after(0)
        assert await reached_after(SILENT_MS) == before != await ends(world), "it may come yet"
        await reached_after(1)
        assert await reached_after(0) == await ends(world)
    await aggregator.flush()
    await world.check(meter)
    await aggregator.close_all()


async def test_who_moves_or_has_all_is_not_behind(world: World) -> None:
    watch = LagWatch(world.log)
    await world.send(numbered(0, 40))
    end = await world.log.end(0)
    now_ms = 0
    for offset in range(end):  # as slow as can be
        assert await watch.behind(0, offset, now_ms) is None
        now_ms += SILENT_MS
        assert await watch.behind(0, offset, now_ms) is None
    for _ in range(2 * STALLED_AFTER_S // SILENT_AFTER_S):
        now_ms += SILENT_MS + 1
        assert await watch.behind(0, end, now_ms) is None


async def test_while_others_are_brought_one_waits_for_longer(world: World) -> None:
    watch = LagWatch(world.log)
    await world.send(numbered(0, 40))
    await watch.behind(0, 0, 0)
    for now_ms in range(0, SILENT_BESIDE_OTHERS_AFTER_S * 1_000 + 1, 1_000):
        watch.received(now_ms)
        assert await watch.behind(0, 0, now_ms) is None
    assert await watch.behind(0, 0, now_ms + 1) == await world.log.end(0)


async def test_who_stands_although_it_was_told_so_is_given_up(world: World) -> None:
    watch = LagWatch(world.log)
    await world.send(numbered(0, 40))
    end = await world.log.end(0)
    assert await watch.behind(0, 0, 0) is None
    now_ms = SILENT_MS + 1
    while now_ms <= STALLED_AFTER_S * 1_000:
        assert await watch.behind(0, 0, now_ms) == end
        assert await watch.behind(0, 0, now_ms + 1) is None, "asked once, not at every tick"
        now_ms += SILENT_MS + 1
    with pytest.raises(RuntimeError, match="partition 0 is stuck at 0"):
        await watch.behind(0, 0, now_ms)
    watch.reset()
    assert await watch.behind(0, 0, now_ms) is None
    assert await watch.behind(0, 0, now_ms + SILENT_MS + 1) == end
    watch.forget([0])
    assert await watch.behind(0, 0, now_ms + 2 * SILENT_MS) is None


@pytest.mark.parametrize("turned_ms", [4 * 86_400_000, STALLED_AFTER_S * 1_000 + 1, -86_400_000])
async def test_who_waited_for_a_moment_when_the_clock_was_turned_does_not_stand(
    world: World, turned_ms: int
) -> None:
    watch = LagWatch(world.log)
    await world.send(numbered(0, 40))
    end = await world.log.end(0)
    now_ms = 100 * 86_400_000
    watch.received(now_ms)
    assert await watch.behind(0, 0, now_ms) is None
    now_ms += turned_ms
    assert await watch.behind(0, 0, now_ms) is None
    assert await watch.behind(0, 0, now_ms + SILENT_MS) is None
    assert await watch.behind(0, 0, now_ms + SILENT_MS + 1) == end, "as long as ever after that"
