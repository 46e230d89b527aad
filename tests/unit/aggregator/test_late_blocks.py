"""How far blocks reach, by which late rows are found along the log instead of by time."""

from collections.abc import Iterator

import pytest

from meterline.limits import SLICE_SPAN_MS
from meterline.meter import Aggregation
from meterline.usage import ends_of
from tests.unit.aggregator.test_blocks import Blocks
from tests.unit.aggregator.world import PARTITIONS, Meters, World

LONG_AFTER_MS = 6_000_000 * SLICE_SPAN_MS  # of all events


@pytest.fixture
def blocks(world: World) -> Blocks:
    """All events are late."""
    world.clock.at_ms = LONG_AFTER_MS
    return Blocks(world, Meters(0))


async def test_slices_of_a_build_without_late_rows_are_read_by_time(
    blocks: Blocks, fresh_numbers: Iterator[int]
) -> None:
    """However many there are, and also those that this build or a newer one begins behind them."""
    meter = blocks.meters.add(Aggregation.SUM, next(fresh_numbers))
    for _ in range(2):
        await blocks.seal()
    await blocks.lose_late_rows()
    maker = blocks.maker()
    assert await maker.step()
    await blocks.check(meter)
    await blocks.seal()
    await blocks.lose_late_rows()
    await blocks.check(meter)
    while await maker.step():
        await blocks.check(meter)
    ends = ends_of((await blocks.columns())[-1].stretches)
    log = blocks.world.log
    assert ends == {number: await log.end(number) for number in range(PARTITIONS)}


async def test_late_rows_are_read_along_the_log_once_all_slices_have_them(
    blocks: Blocks, fresh_numbers: Iterator[int]
) -> None:
    meter = blocks.meters.add(Aggregation.SUM, next(fresh_numbers))
    maker = blocks.maker()
    for _ in range(2):
        await blocks.seal()
        assert await maker.step()
        await blocks.check(meter)
    assert all(column.end_ms >= LONG_AFTER_MS for column in await blocks.columns())


async def test_blocks_reach_as_far_as_their_slices_where_each_lacks_a_partition(
    blocks: Blocks, fresh_numbers: Iterator[int]
) -> None:
    """Slices end together, but their seals are spread: blocks are made between them."""
    meter = blocks.meters.add(Aggregation.SUM, next(fresh_numbers))
    maker = blocks.maker()
    for turn in range(6):
        await blocks.seal(only=turn % PARTITIONS)
        assert await maker.step()
        await blocks.check(meter)
    ends = [column.end_ms for column in await blocks.columns()]
    log, progress = blocks.world.log.number, blocks.world.progress
    last = [await progress.last_seal(log, number) for number in range(PARTITIONS)]
    assert ends[-1] == min(seal.append_ms for seal in last if seal) >= LONG_AFTER_MS
    assert ends == sorted(ends)
