"""What every ProgressStore promises of sealed slices that differ, on SQLite and PostgreSQL."""

import pytest
from sqlalchemy import select

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.progress.erasures import SqlErasureStore
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.backends.control_store.progress.seal_ledger import SqlSealLedger
from meterline.backends.control_store.tables.meters import slice_differences
from meterline.usage import ProgressStore, Seal, SliceDifference, SliceId, TableDifference

NOW = 2**42  # more than 32 bits
LARGE = 2**62


@pytest.fixture
def store(control_database: Database) -> ProgressStore:
    """A store in which nothing has happened."""
    return SqlProgressStore(control_database)


def _difference(
    slice_: int, at_ms: int = NOW, *, log: int = 1, partition: int = 0
) -> SliceDifference:
    tables = (
        TableDifference("tallies", "3 rows", "2 rows"),
        TableDifference("accounts", "received 3", "nothing"),
    )
    return SliceDifference(SliceId(log, partition, slice_), at_ms, tables)


async def test_a_difference_is_kept_with_what_differed(store: ProgressStore) -> None:
    assert await store.differing_slices() == 0
    there = [_difference(20), _difference(LARGE), _difference(10)]
    for one in there:
        assert await store.record_difference(one)
    assert await store.record_difference(_difference(10, partition=1))
    assert await store.record_difference(_difference(10, log=2))
    assert await store.differing_slices() == 5
    assert await store.differences_between(1, 0, 0, LARGE + 1) == sorted(
        there, key=lambda it: it.slice_id
    )
    assert await store.differences_between(1, 0, 10, 20) == [_difference(10)], (
        "the end is not in it"
    )
    assert await store.differences_between(1, 0, 11, 20) == []


async def test_what_is_mended_is_told_no_more(store: ProgressStore) -> None:
    await store.record_difference(_difference(10))
    await store.record_difference(_difference(20))
    await store.mark_mended(_difference(10), NOW + 1)
    assert await store.differing_slices() == 1
    assert await store.differences_between(1, 0, 0, 99) == [_difference(20)]
    await store.mark_mended(_difference(10), NOW + 2)
    await store.mark_mended(_difference(30), NOW + 2)
    assert await store.differing_slices() == 1, "of one that nobody found nothing is said"


async def test_what_is_found_once_more_is_told_once_more(store: ProgressStore) -> None:
    await store.record_difference(_difference(10))
    await store.record_difference(_difference(10, NOW + 5))
    assert await store.differences_between(1, 0, 0, 99) == [_difference(10, NOW + 5)]
    await store.mark_mended(_difference(10), NOW + 6)
    assert await store.differing_slices() == 1, "it was found since that audit had looked"
    await store.mark_mended(_difference(10, NOW + 5), NOW + 7)
    assert await store.differing_slices() == 0
    await store.record_difference(_difference(10, NOW + 8))
    assert await store.differences_between(1, 0, 0, 99) == [_difference(10, NOW + 8)]


async def test_an_erased_subject_is_no_difference(control_database: Database) -> None:
    store, erasures = SqlProgressStore(control_database), SqlErasureStore(control_database)
    log = await store.register_log("log", 2)
    await store.seal(Seal(log, 0, 0, 7, 1, 1, NOW))
    asked = await erasures.ask("n", "acme", NOW)
    await erasures.set_borders(asked.id, log, {0: 5, 1: 0}, NOW)
    assert await store.record_difference(_difference(0, log=log)), "nothing has begun"
    await store.mark_mended(_difference(0, log=log), NOW)
    assert await erasures.begin_copying(asked.id, NOW) is None
    assert not await store.record_difference(_difference(0, log=log))
    assert await store.record_difference(_difference(7, log=log)), "behind its border"
    assert await store.record_difference(_difference(0, log=log, partition=1))
    await erasures.switch(asked.id, [], NOW)
    await erasures.settle(asked.id, NOW)
    await erasures.finish(asked.id, NOW)
    assert not await store.record_difference(_difference(0, log=log)), "it stays erased"
    assert await store.differing_slices() == 2


async def test_when_it_was_mended_is_kept(control_database: Database) -> None:
    store = SqlProgressStore(control_database)
    await store.record_difference(_difference(10))
    await store.mark_mended(_difference(10), NOW + 1)

    async def mended(connection: Connection) -> list[int]:
        question = select(slice_differences.c.mended_at_ms)
        return [row.mended_at_ms for row in await connection.execute(question)]

    assert await control_database.read(mended) == [NOW + 1]


async def test_a_store_that_is_counted_anew_has_no_differences(control_database: Database) -> None:
    store, ledger = SqlProgressStore(control_database), SqlSealLedger(control_database)
    await ledger.bind("old")
    await store.record_difference(_difference(10))
    await ledger.bind("new", lost="old")
    assert await store.differing_slices() == 0
