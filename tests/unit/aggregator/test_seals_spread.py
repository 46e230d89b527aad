"""Slices of all partitions end at one moment: what their seals cost is spread over a while."""

import asyncio
from dataclasses import replace

import pytest

from aggregator.completeness import Completeness
from aggregator.housekeeping import Housekeeping, Intervals
from aggregator.slice.flush_due import FlushBounds
from aggregator.slice.sealing import SealRests
from meterline.limits import SEAL_LATE_PART, SLICE_EVENTS_MAX, SLICE_SPAN_MS
from meterline.meter import Aggregation
from tests.unit.aggregator.held import Held
from tests.unit.aggregator.world import LOOK_S, PARTITIONS, numbered

LOOKS = 5
FOR_EVER = 10**9
PRESSED_BY_NOTHING = SealRests(late_part=0)
ENDLESS = SealRests(times=FOR_EVER, spread_s=FOR_EVER, late_part=0)
SELDOM = FlushBounds(FOR_EVER, FOR_EVER, FOR_EVER)


@pytest.fixture
async def ended(held: Held) -> Held:
    """Slices of all partitions have ended and are durable; no seal is begun. What is behind them
    does not press.
    """
    held.worker.sealer.rests = PRESSED_BY_NOTHING
    for number in range(PARTITIONS):
        await held.worker.open(number)
        while await held.worker.read_some(number):
            pass
    await held.worker.flush()
    return held


async def looked(held: Held) -> int:
    """How many seals were begun after a few looks that are in no hurry."""
    for _ in range(LOOKS):
        await held.worker.settle_seals(soon=False)
        await asyncio.sleep(LOOK_S)
    return held.asked


async def first_sealed(held: Held) -> None:
    """One seal is set. A rest that ends only when the test does has begun."""
    held.may.set()
    while len(held.waiting()) == PARTITIONS:
        await held.worker.settle_seals(soon=False)
        await asyncio.sleep(LOOK_S)


@pytest.fixture
async def endless(ended: Held) -> Held:
    """The same, with rests that end only when the test does."""
    ended.worker.sealer.rests = ENDLESS
    return ended


async def until_asked(held: Held, seals: int) -> None:
    while held.asked < seals:
        await held.worker.settle_seals(soon=False)
        await asyncio.sleep(LOOK_S)


async def test_one_seal_at_a_time_is_on_its_way(ended: Held) -> None:
    await ended.worker.settle_seals(soon=False)
    await until_asked(ended, 1)
    assert await looked(ended) == 1
    await ended.worker.settle_seals()
    await until_asked(ended, PARTITIONS)


async def test_the_next_one_waits_until_the_rest_is_over(endless: Held) -> None:
    await first_sealed(endless)
    assert await looked(endless) == 1
    await endless.worker.settle_seals()
    await until_asked(endless, PARTITIONS)


async def test_a_rest_ends(ended: Held) -> None:
    ended.may.set()
    while ended.waiting():
        await ended.worker.settle_seals(soon=False)
        await asyncio.sleep(LOOK_S)
    assert ended.asked == PARTITIONS


@pytest.mark.parametrize("left_s", [0, 1, 59, 300])
@pytest.mark.parametrize("seals", [1, 2, 16, 64, 160])
@pytest.mark.parametrize("took_s", [0.01, 0.3, 1.0, 90.0])
def test_a_round_is_over_when_it_is_to_be(seals: int, took_s: float, left_s: float) -> None:
    """Or when all of its seals are set, one after another."""
    rests = SealRests()
    each_s = took_s + rests.rest_s(took_s, seals, left_s / seals)
    assert each_s * seals <= max(min(rests.spread_s, left_s), took_s * seals) * 1.000_001
    assert each_s <= took_s * (1 + rests.times)


async def test_it_does_not_wait_when_the_slice_behind_has_grown(endless: Held) -> None:
    await first_sealed(endless)
    (number,) = endless.waiting()
    behind = endless.worker.partitions[number].slice
    assert behind is not None
    part = SLICE_EVENTS_MAX / behind.border.events
    endless.worker.sealer.rests = replace(ENDLESS, late_part=part * 0.99)
    assert await looked(endless) == 1
    endless.worker.sealer.rests = replace(ENDLESS, late_part=part * 1.01)
    await endless.worker.settle_seals(soon=False)
    await until_asked(endless, PARTITIONS)


async def test_it_waits_behind_little_however_little_its_own_slice_had(endless: Held) -> None:
    """As where load begins after a lull: what ended long ago is not sealed all at once."""
    await first_sealed(endless)
    endless.worker.sealer.rests = replace(ENDLESS, late_part=SEAL_LATE_PART)
    for number in endless.waiting():
        held = endless.worker.partitions[number]
        assert held.ended is not None
        assert held.slice is not None
        assert held.slice.border.events >= held.ended.slice.border.events
    assert await looked(endless) == 1


async def test_it_does_not_wait_until_the_span_of_the_slice_behind_is_over(endless: Held) -> None:
    """Else that one ends before it is sealed, as where slices were full shortly before."""
    await first_sealed(endless)
    clock = endless.world.clock
    clock.at_ms = (clock.at_ms // SLICE_SPAN_MS + 1) * SLICE_SPAN_MS - 1
    await endless.world.send(numbered(90, 120))
    waiting = endless.waiting()
    for number in waiting:
        while await endless.worker.read_some(number):
            pass
    assert endless.waiting() == waiting, "nothing has ended"
    await until_asked(endless, PARTITIONS)


@pytest.mark.parametrize("needs", ["memory", "meters", "nothing"])
async def test_it_does_not_wait_where_its_end_is_waited_for(endless: Held, needs: str) -> None:
    await first_sealed(endless)
    intervals = Intervals(SELDOM, FOR_EVER, open_bytes=1 if needs == "memory" else FOR_EVER)
    keeping = Housekeeping(endless.worker, Completeness(endless.worker, 0), intervals)
    if needs == "meters":
        endless.meters.add(Aggregation.COUNT, endless.meters.version + 1)
        assert await endless.worker.refresh_catalogue()
    await keeping.tick(1)
    await asyncio.sleep(LOOK_S)
    if needs == "nothing":
        assert await looked(endless) == 1
    else:
        await until_asked(endless, PARTITIONS)
