"""One comparison of both stores for all answers that wait for one, and for a moment after."""

import asyncio

import pytest

from meterline.backends.shared_check import SharedCheck
from meterline.ports import StoreLost
from meterline.usage import Life

UP_S = 100


class Checks:
    """Comparisons that end when they are told to."""

    def __init__(self, life: Life | None = None) -> None:
        self.life = life
        self.lost = False
        self.begun = 0
        self.go = asyncio.Semaphore(0)

    async def check(self) -> Life | None:
        self.begun += 1
        await self.go.acquire()
        if self.lost:
            raise StoreLost("the usage store has lost what was counted")
        return self.life


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_who_asks_while_one_runs_shares_the_next() -> None:
    checks = Checks()
    shared = SharedCheck(checks.check)
    first = asyncio.ensure_future(shared.stands(None))
    await settle()
    others = [asyncio.ensure_future(shared.stands(None)) for _ in range(5)]
    await settle()
    assert checks.begun == 1
    checks.go.release()
    await first
    await settle()
    assert checks.begun == 2
    assert not any(other.done() for other in others)
    checks.go.release()
    await asyncio.gather(*others)
    assert checks.begun == 2


async def test_a_life_that_was_found_whole_is_good_for_a_while() -> None:
    checks = Checks(Life("server", UP_S))
    checks.go = asyncio.Semaphore(9)
    shared = SharedCheck(checks.check, held_s=50)
    assert shared.held is None
    await shared.stands(shared.held)
    held = shared.held
    assert held is not None
    assert held.life == checks.life
    await shared.stands(held)
    assert checks.begun == 1
    await shared.stands(None)
    assert checks.begun == 2


@pytest.mark.parametrize(("up_s", "held_s"), [(UP_S, -1), (1, 1)])
async def test_not_for_longer_and_not_where_it_may_have_begun_since(
    up_s: int, held_s: float
) -> None:
    checks = Checks(Life("server", up_s))
    checks.go = asyncio.Semaphore(9)
    shared = SharedCheck(checks.check, held_s)
    await shared.stands(None)
    assert shared.held is None


async def test_nothing_stands_on_a_store_that_was_found_lost() -> None:
    checks = Checks(Life("server", UP_S))
    checks.go = asyncio.Semaphore(9)
    shared = SharedCheck(checks.check, held_s=50)
    await shared.stands(None)
    checks.lost = True
    for _ in range(2):
        with pytest.raises(StoreLost):
            await shared.stands(None)
    assert shared.held is None
    assert checks.begun == 3


async def test_who_gives_up_waiting_leaves_the_others_theirs() -> None:
    checks = Checks()
    shared = SharedCheck(checks.check)
    waiting = [asyncio.ensure_future(shared.stands(None)) for _ in range(2)]
    await settle()
    waiting[0].cancel()
    await settle()
    checks.go.release()
    await waiting[1]
    assert checks.begun == 1
