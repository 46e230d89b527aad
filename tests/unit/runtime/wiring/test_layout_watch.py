"""A process goes on looking whether its log has grown, whatever goes wrong with one look."""

import asyncio
from collections.abc import Iterator

import pytest

from meterline.ports import Unavailable
from meterline.runtime.wiring.layout_watch import again_and_again
from tests.simulation.virtual_loop import VirtualLoop


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.end()


@pytest.mark.parametrize("error", [Unavailable("away"), RuntimeError("a fault of ours")])
def test_a_look_that_fails_does_not_end_the_next_ones(loop: VirtualLoop, error: Exception) -> None:
    looks: list[float] = []

    async def look() -> None:
        looks.append(loop.time())
        if len(looks) == 1:
            raise error

    async def watched() -> None:
        watching = asyncio.create_task(again_and_again(look, 5))
        await asyncio.sleep(16)
        watching.cancel()

    loop.run_until_complete(watched())
    assert looks == [5, 10, 15]
