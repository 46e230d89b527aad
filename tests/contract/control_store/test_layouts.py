"""What every ProgressStore promises of a log that grows, on SQLite and PostgreSQL."""

import pytest

from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.event import Growth, Layout
from meterline.problem import Problem
from meterline.usage import ProgressStore

LARGE = 2**62  # more than 32 bits


@pytest.fixture
def store(control_database: Database) -> ProgressStore:
    """A store in which nothing has happened."""
    return SqlProgressStore(control_database)


def _twice(first: int = LARGE) -> Layout:
    return Layout(4, (Growth(2, 4, first),))


async def test_a_log_that_grows_is_laid_out_so_from_then_on(store: ProgressStore) -> None:
    log = await store.register_log("one", 2)
    assert await store.layout(log) == Layout(2)
    await store.begin_growth(log, _twice(), 7)
    await store.begin_growth(log, _twice(), 8)  # again, as after a crash
    await store.begin_growth(log, _twice(9), 8)  # and by somebody who was slower
    assert await store.layout(log) == _twice()
    assert await store.register_log("one", 2) == log, "the log has yet to get them"
    assert await store.register_log("one", 4) == log
    with pytest.raises(Problem):
        await store.register_log("one", 8)


async def test_new_partitions_are_complete_as_their_parents_were(store: ProgressStore) -> None:
    log = await store.register_log("one", 2)
    await store.flushed(log, 3, {0: 5, 1: 6})
    await store.complete(log, 3, {0: 100, 1: 90})
    await store.begin_growth(log, _twice(), 7)
    assert await store.completions(log, 3) == {0: 100, 1: 90, 2: 100, 3: 90}
    assert await store.flushed_ends(log, 3) == {0: 5, 1: 6, 2: LARGE, 3: LARGE}
    assert await store.complete_until(log, 2, 3) == 90
    await store.complete(log, 3, {0: 200, 1: 200})
    # also for who does not know of the growth yet
    assert await store.complete_until(log, 2, 3) == 90
    await store.complete(log, 3, {2: 150, 3: 170})
    assert await store.complete_until(log, 2, 3) == await store.complete_until(log, 4, 3) == 150


async def test_nothing_is_complete_without_partitions_that_nobody_claimed(
    store: ProgressStore,
) -> None:
    log = await store.register_log("one", 2)
    await store.begin_growth(log, _twice(), 7)
    await store.complete(log, 3, {0: 200, 1: 200})
    assert await store.complete_until(log, 2, 3) is None


async def test_the_first_mark_of_a_partition_stands(store: ProgressStore) -> None:
    log = await store.register_log("one", 2)
    assert await store.marks(log) == {}
    await store.pass_mark(log, 1, 4, LARGE)
    await store.pass_mark(log, 1, 4, LARGE + 5)
    await store.pass_mark(log, 0, 4, 3)
    await store.pass_mark(log, 0, 8, 9)
    assert await store.marks(log) == {(1, 4): LARGE, (0, 4): 3, (0, 8): 9}
    assert await store.marks(log + 1) == {}


async def test_a_growth_begins_when_the_one_before_has_ended(store: ProgressStore) -> None:
    log = await store.register_log("one", 2)
    await store.begin_growth(log, _twice(), 7)
    more = Layout(8, (*_twice().growths, Growth(4, 8, LARGE + 1)))
    await store.pass_mark(log, 0, 4, 3)
    with pytest.raises(Problem):
        await store.begin_growth(log, more, 8)
    await store.pass_mark(log, 1, 4, 3)
    with pytest.raises(Problem):
        await store.begin_growth(log, Layout(8, (Growth(2, 8, 9),)), 8)
    await store.begin_growth(log, more, 8)
    assert await store.layout(log) == more


async def test_offsets_of_new_partitions_are_greater_than_all_that_is_counted(
    store: ProgressStore,
) -> None:
    log = await store.register_log("one", 2)
    await store.flushed(log, 3, {0: 5, 1: 6})
    with pytest.raises(Problem, match="greater"):
        await store.begin_growth(log, _twice(6), 7)
    await store.begin_growth(log, _twice(7), 7)
    assert await store.layout(log) == _twice(7)
