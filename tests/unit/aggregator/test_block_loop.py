"""The loop that makes blocks: what nobody reads is swept away beside it, however much is due."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

import pytest

from aggregator.drivers.block_loop import BesideCounting, make_blocks_for_ever
from meterline.limits import BLOCK_LOOK_S, BLOCK_SEALS_WAIT_S, BLOCK_SWEEP_S, LATE_RESTS
from meterline.ports import Unavailable
from tests.simulation.virtual_loop import VirtualLoop

STEP_S = 2
MINUTES = 20
SPAN_S = 300
ROUND_S = 60


@dataclass
class Maker:
    """There is always a block to be made, as where more is counted than can be made; or so many
    each time, and then none.
    """

    sweeps_fail: bool = False
    runs: int = 0
    steps: int = 0
    sweeps: int = 0

    async def step(self) -> bool:
        await asyncio.sleep(STEP_S)
        self.steps += 1
        return not self.runs or self.steps % self.runs > 0

    async def sweep(self) -> None:
        self.sweeps += 1
        if self.sweeps_fail:
            raise Unavailable("a table cannot be altered")


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.end()


async def _nothing() -> None:
    pass


def _counted(
    holds: Callable[[], bool] = lambda: True,
    before: Callable[[], Awaitable[None]] = _nothing,
    rests: Callable[[], int] = lambda: 0,
    is_sealing: Callable[[], bool] = lambda: False,
) -> BesideCounting:
    """Counting that leaves all time to making, but for what is said."""
    return BesideCounting(holds, before, rests, is_sealing)


def _run(loop: VirtualLoop, maker: Maker, rests: Callable[[], int] = lambda: 0) -> None:
    _run_beside(loop, maker, _counted(rests=rests))


def _run_beside(loop: VirtualLoop, maker: Maker, counted: BesideCounting) -> None:
    made = make_blocks_for_ever(maker, counted)  # type: ignore[arg-type]
    loop.create_task(made)
    loop.run_until_complete(asyncio.sleep(MINUTES * 60))


def test_what_nobody_reads_is_swept_away_however_much_is_due(loop: VirtualLoop) -> None:
    maker = Maker()
    _run(loop, maker)
    assert maker.sweeps >= MINUTES * 60 // BLOCK_SWEEP_S - 1


def test_a_maker_rests_as_long_as_it_works(loop: VirtualLoop) -> None:
    maker = Maker()
    _run(loop, maker)
    half = MINUTES * 60 // STEP_S // 2
    assert half - 10 <= maker.steps <= half + 1


def test_a_maker_gives_way_while_counting_is_late(loop: VirtualLoop) -> None:
    maker = Maker()
    _run(loop, maker, lambda: LATE_RESTS)
    share = MINUTES * 60 // STEP_S // (1 + LATE_RESTS)
    assert share - 1 <= maker.steps <= share + 1


def test_a_maker_goes_on_once_counting_has_caught_up(loop: VirtualLoop) -> None:
    maker, until_s = Maker(), loop.time() + 60.0
    _run(loop, maker, lambda: LATE_RESTS if loop.time() < until_s else 0)
    most = (MINUTES - 1) * 60 // STEP_S // 2
    assert most - 10 <= maker.steps <= most + 3


def test_blocks_are_made_also_where_nothing_can_be_swept_away(loop: VirtualLoop) -> None:
    maker = Maker(sweeps_fail=True)
    _run(loop, maker)
    assert maker.steps > MINUTES * 60 // STEP_S // 3
    assert maker.sweeps > MINUTES // 2


def test_what_comes_before_blocks_does_not_wait_until_no_more_are_due(loop: VirtualLoop) -> None:
    maker = Maker()
    steps_before: list[int] = []

    async def before() -> None:
        steps_before.append(maker.steps)

    _run_beside(loop, maker, _counted(before=before))
    assert maker.steps > MINUTES
    assert steps_before == list(range(len(steps_before)))
    assert len(steps_before) in (maker.steps, maker.steps + 1)


def test_a_worker_that_holds_the_partition_no_more_makes_no_more_blocks(loop: VirtualLoop) -> None:
    maker, until_s = Maker(), loop.time() + 60.0
    _run_beside(loop, maker, _counted(holds=lambda: loop.time() < until_s))
    assert 0 < maker.steps <= 60 // STEP_S // 2


def test_seals_of_slices_that_end_together_come_first(loop: VirtualLoop) -> None:
    maker, began_s = Maker(), loop.time()
    begun_s: list[float] = []

    def is_sealing() -> bool:
        return (loop.time() - began_s) % SPAN_S < ROUND_S

    async def before() -> None:
        assert not is_sealing()
        begun_s.append(loop.time())

    maker.runs = 2
    _run_beside(loop, maker, _counted(before=before, is_sealing=is_sealing))
    spans = {(at_s - began_s) // SPAN_S for at_s in begun_s}
    assert len(spans) == MINUTES * 60 // SPAN_S, "blocks are made in each of them"


def test_where_some_slice_always_waits_for_its_seal_blocks_wait_once(loop: VirtualLoop) -> None:
    """There is always one to be made then: they are to keep up with that."""
    maker = Maker()
    _run_beside(loop, maker, _counted(is_sealing=lambda: True))
    assert maker.steps >= (MINUTES * 60 - BLOCK_LOOK_S - BLOCK_SEALS_WAIT_S) // STEP_S // 2 - 1
