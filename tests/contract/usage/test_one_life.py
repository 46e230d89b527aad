"""What rests on one answer is asked between two comparisons, in one life of the usage store."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.ports import StoreLost, Unavailable
from meterline.usage import (
    CheckedErasedRows,
    CheckedRevisionRows,
    CheckedUsageStore,
    Erasure,
    ErasureState,
    Life,
    SliceId,
    SliceRows,
    UsageIntegrity,
)
from meterline.usage.integrity.comparison import is_one_life

UP_S = 500
ERASURE = Erasure("1", "default", "s1", "erased-1", ErasureState.COPYING, 0, 1)
START = SliceId(0, 0, 0)
_instants = st.integers(0, 10_000_000)  # milliseconds


@given(_instants, _instants, _instants, _instants)
def test_a_store_that_began_in_between_is_found_out(
    began_ms: int, asked_ms: int, again_ms: int, until_ms: int
) -> None:
    """However long its life of before was: of both it is known how long they were up."""
    asked, again, until = sorted((asked_ms, again_ms, until_ms))
    after = Life("server", max(0, again - began_ms) // 1_000)
    same = is_one_life(Life("server", UP_S), after, (until - asked) / 1_000)
    if began_ms > asked:
        assert not same
    elif began_ms < asked - 1_000 - (until - again):
        assert same


def test_what_is_not_known_is_not_one_life() -> None:
    life = Life("server", UP_S)
    assert is_one_life(life, life, 1)
    assert not is_one_life(life, Life("another", UP_S), 1)
    assert not is_one_life(life, None, 1)
    assert not is_one_life(None, life, 1)
    assert not is_one_life(None, None, 1)


class Volume(UsageIntegrity):
    """Of a store whose volume is not mounted for one question: the server begins without it, and
    once again with it.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self.began_s = -float(UP_S)
        self.mounted = True
        self.of = "server"

    async def check(self) -> Life:
        if not self.mounted:
            raise StoreLost("the usage store has lost what was counted")
        return Life(self.of, int(self.now_s - self.began_s))

    def passed_s(self) -> float:
        return self.now_s

    def asked(self, seconds: float) -> None:
        """A question that is answered in the life of before."""
        self.now_s += seconds

    def away(self, seconds: float) -> None:
        """A question that is answered without the volume; then it is there again."""
        self.now_s += seconds
        self.began_s = self.now_s - 1


class Rows:
    """`ErasedRows` and `RevisionRows`: nothing is found where the volume is away."""

    def __init__(self, volume: Volume) -> None:
        self.volume = volume
        self.blinks = False

    def _found(self) -> bool:
        act = self.volume.away if self.blinks else self.volume.asked
        act(60)
        return not self.blinks

    async def copy(self, erasure: Erasure) -> None:
        del erasure
        self._found()

    redact = delete = copy

    async def refusals_of(
        self, erasure: Erasure, redriven: Sequence[tuple[tuple[int, int, int, int], str, str]]
    ) -> list[tuple[int, int, int, int]]:
        del erasure, redriven
        return [(1, 0, 0, 0)] if self._found() else []

    async def blocks_with(self, of: object) -> Collection[int]:
        del of
        return {7} if self._found() else set()

    async def forget(self) -> None:
        """Whatever is noted."""

    async def rows_by_slice(self, revision: int, after: SliceId, limit: int) -> list[SliceRows]:
        del revision, after, limit
        return [SliceRows(1, 0, 0, 1, 0, 0)] if self._found() else []

    async def delete_rows(self, revisions: Collection[int]) -> bool:
        del revisions
        return self._found()


def _asks(volume: Volume, rows: Rows) -> list[Callable[[], Awaitable[object]]]:
    erased = CheckedErasedRows(rows, volume, volume.passed_s)
    revisions = CheckedRevisionRows(rows, volume, volume.passed_s)
    return [
        lambda: erased.copy(ERASURE),
        lambda: erased.redact(ERASURE),
        lambda: erased.delete(ERASURE),
        lambda: erased.refusals_of(ERASURE, []),
        lambda: erased.blocks_with(ERASURE),
        lambda: revisions.rows_by_slice(1, START, 10),
        lambda: revisions.delete_rows([1]),
        lambda: revisions.blocks_with([1]),
    ]


class Keys:
    """What is read of a `UsageStore` to be kept elsewhere: nothing where the volume is away."""

    def __init__(self, rows: Rows) -> None:
        self._found = rows._found  # noqa: SLF001 - a store that blinks alike

    def __getattr__(self, name: str) -> Callable[..., object]:
        return self._streamed if name in ("raw_events", "seen_between") else self._told

    async def _told(self, *_: object) -> list[int]:
        return [1] if self._found() else []

    async def _streamed(self, *_: object) -> AsyncIterator[list[int]]:
        yield await self._told()


async def _all(asked: Any) -> list[Any]:
    return [one async for one in asked]


def _kept(volume: Volume, rows: Rows) -> list[Callable[[], Awaitable[object]]]:
    store: Any = Keys(rows)
    checked: Any = CheckedUsageStore(store, volume)
    return [
        lambda: checked.seen_extent(()),
        lambda: checked.seen_keys((), 0, 9),
        lambda: checked.slice_events(START),
        lambda: _all(checked.raw_events(1, 0, [0], 9, [])),
        lambda: _all(checked.seen_between(1, 0, 0, 9)),
    ]


@pytest.mark.parametrize("at", range(13))
async def test_a_store_that_is_empty_for_one_question_is_not_believed(at: int) -> None:
    volume = Volume()
    rows = Rows(volume)
    ask = [*_asks(volume, rows), *_kept(volume, rows)][at]
    await ask()
    rows.blinks = True
    with pytest.raises(Unavailable, match="began again"):
        await ask()
    rows.blinks = False
    volume.now_s += 5
    await ask()
    volume.mounted = False
    with pytest.raises(StoreLost):
        await ask()
