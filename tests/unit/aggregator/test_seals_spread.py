"""Slices of all partitions end at one moment: what their seals cost is spread over a while."""

import asyncio
from dataclasses import replace
from math import ceil

import pytest

from aggregator.completeness import Completeness
from aggregator.housekeeping import Housekeeping, Intervals
from aggregator.slice.flush_due import FlushBounds
from aggregator.slice.sealing import SealRests
from meterline.limits import (
    SEAL_LATE_PART,
    SEALS_AT_ONCE_MAX,
    SLICE_EVENTS_MAX,
    SLICE_SPAN_MS,
)
from meterline.meter import Aggregation
from tests.unit.aggregator.held import Held
from tests.unit.aggregator.world import LOOK_S, PARTITIONS, numbered

LOOKS = 5
FOR_EVER = 10**9
BEGUN_WITHIN_S = 60
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
    """One seal is set. A rest has begun that is far longer than the test."""
    held.may.set()
    while len(held.waiting()) == PARTITIONS:
        await held.worker.settle_seals(soon=False)
        await asyncio.sleep(LOOK_S)


@pytest.fixture
async def endless(ended: Held) -> Held:
    """The same, with rests that are far longer than the test."""
    ended.worker.sealer.rests = ENDLESS
    return ended


async def until_asked(held: Held, seals: int) -> None:
    async with asyncio.timeout(BEGUN_WITHIN_S):
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


@pytest.mark.parametrize("left_s", [0.0, 1.0, 59.0, 300.0])
@pytest.mark.parametrize("seals", [1, 2, 16, 64, 160])
@pytest.mark.parametrize("took_s", [0.01, 0.3, 1.0, 90.0])
def test_a_round_is_over_when_it_is_to_be(seals: int, took_s: float, left_s: float) -> None:
    """Or when all of its seals are set, without any rest: one after another, then two at once."""
    rests, at_s, waiting = SealRests(), 0.0, seals
    while waiting:
        if rests.may_rest(took_s, waiting, left_s - at_s):
            rest_s = rests.rest_s(took_s, seals, waiting, left_s - at_s)
            assert 0 <= rest_s <= took_s * rests.times
            waiting -= 1
            at_s += rest_s + took_s
        else:
            waiting -= min(waiting, SEALS_AT_ONCE_MAX)
            at_s += took_s
    hurried_s = took_s * ceil(seals / SEALS_AT_ONCE_MAX)
    spread_s = max(rests.spread_s, took_s * seals)
    assert at_s <= max(min(spread_s, left_s) + took_s, hurried_s) * 1.000_001


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


async def test_it_does_not_wait_while_the_log_is_caught_up(endless: Held) -> None:
    """Spans go by faster than the clock."""
    await first_sealed(endless)
    clock = endless.world.clock
    endless.worker.now_ms = (clock.at_ms // SLICE_SPAN_MS + 1) * SLICE_SPAN_MS - 30_000
    assert await looked(endless) == 1
    endless.worker.now_ms += 30_000
    await until_asked(endless, PARTITIONS)


@pytest.mark.parametrize("pressed", ["half full", "over"])
async def test_two_are_on_their_way_where_the_slice_behind_is_to_end(
    ended: Held, pressed: str
) -> None:
    """None of them comes back: the first one is not set before the second begins."""
    await until_asked(ended, 1)
    assert await looked(ended) == 1
    if pressed == "half full":
        ended.worker.sealer.rests = SealRests(late_part=SLICE_EVENTS_MAX)
    else:
        ended.worker.now_ms = ended.world.clock.at_ms + SLICE_SPAN_MS
    await until_asked(ended, PARTITIONS)


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
