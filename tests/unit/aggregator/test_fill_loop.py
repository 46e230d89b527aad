"""The loop that fills in new meters: it gives way while counting is behind the log."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from aggregator.drivers.turns import fill_for_ever
from meterline.backends.clock import SystemClock
from meterline.limits import BEHIND_RESTS, BEHIND_S
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


def _steps(loop: VirtualLoop, behind_s: Callable[[], float]) -> int:
    filling = Filling()
    loop.create_task(fill_for_ever(filling, SystemClock(), behind_s))  # type: ignore[arg-type]
    loop.run_until_complete(asyncio.sleep(MINUTES * 60))
    return filling.steps


def test_it_does_not_rest_while_counting_is_as_usual(loop: VirtualLoop) -> None:
    assert _steps(loop, lambda: float(BEHIND_S)) >= STEPS - 1


def test_it_has_its_least_share_while_counting_is_behind(loop: VirtualLoop) -> None:
    share = STEPS // (1 + BEHIND_RESTS)
    assert share - 1 <= _steps(loop, lambda: BEHIND_S + 1.0) <= share + 1


def test_it_goes_on_at_once_when_counting_has_caught_up(loop: VirtualLoop) -> None:
    until_s = loop.time() + 60.0
    steps = _steps(loop, lambda: 60.0 if loop.time() < until_s else 0.0)
    assert steps >= STEPS - 60 // STEP_S
