"""The loop that fills in new meters: it gives way while counting is late."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from aggregator.drivers.turns import fill_for_ever
from meterline.backends.clock import SystemClock
from meterline.limits import BUSY_RESTS, LATE_RESTS
from tests.simulation.virtual_loop import VirtualLoop

STEP_S = 2
MINUTES = 20
STEPS = MINUTES * 60 // STEP_S


@dataclass
class Filling:
    """There is always something to be filled in."""

    steps: int = 0

    async def turn(self, now_ms: int) -> bool:
        assert now_ms > 0, "it is told the time"
        await asyncio.sleep(STEP_S)
        self.steps += 1
        return True


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.end()


def _steps(loop: VirtualLoop, rests: Callable[[], int]) -> int:
    filling = Filling()
    loop.create_task(fill_for_ever(filling, SystemClock(), rests))  # type: ignore[arg-type]
    loop.run_until_complete(asyncio.sleep(MINUTES * 60))
    return filling.steps


def test_it_does_not_rest_while_counting_has_nothing_before_it(loop: VirtualLoop) -> None:
    assert _steps(loop, lambda: 0) >= STEPS - 1


def test_it_rests_as_long_as_it_worked_while_counting_is_busy(loop: VirtualLoop) -> None:
    half = STEPS // (1 + BUSY_RESTS)
    assert half - 1 <= _steps(loop, lambda: BUSY_RESTS) <= half + 1


def test_it_has_its_least_share_while_counting_is_late(loop: VirtualLoop) -> None:
    share = STEPS // (1 + LATE_RESTS)
    assert share - 1 <= _steps(loop, lambda: LATE_RESTS) <= share + 1


def test_it_goes_on_at_once_when_counting_has_caught_up(loop: VirtualLoop) -> None:
    until_s = loop.time() + 60.0
    steps = _steps(loop, lambda: LATE_RESTS if loop.time() < until_s else 0)
    assert steps >= STEPS - 60 // STEP_S
