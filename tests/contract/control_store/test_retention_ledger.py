"""What every RetentionLedger promises (`meterline.usage`), on SQLite and PostgreSQL."""

import asyncio

import pytest

from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.progress.blocks import SqlBlockLedger
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.backends.control_store.progress.retention import SqlRetention
from meterline.backends.control_store.progress.seal_ledger import SqlSealLedger
from meterline.meter import Aggregation, MeterDraft
from meterline.usage import (
    EVENTS,
    REJECTS,
    SEEN,
    TALLIES,
    Block,
    Dropped,
    Kept,
    Notice,
    Period,
    Reach,
    Seal,
    SealedEnd,
    SealedRows,
    SliceDifference,
    SliceId,
    Stretch,
    TableDifference,
    counted_from,
)

WEEK_MS = 7 * 86_400_000
OLD = {table: Period(table, "20260105", WEEK_MS, 2 * WEEK_MS) for table in (EVENTS, REJECTS, SEEN)}
REACH = Reach({0: 20}, 5)


class Stores:
    """All that is asked."""

    def __init__(self, database: Database) -> None:
        self.ledger = SqlRetention(database)
        self.seals = SqlSealLedger(database)
        self.progress = SqlProgressStore(database)
        self.catalogue = SqlCatalogueStore(database)


@pytest.fixture
async def stores(control_database: Database) -> Stores:
    """One log; two slices of the first week, one of a later one."""
    made = Stores(control_database)
    await made.progress.register_log("one", 2)
    for slice_, append_ms in ((0, WEEK_MS), (10, WEEK_MS + 7), (20, 9 * WEEK_MS)):
        await made.progress.seal(Seal(1, 0, slice_, slice_ + 10, 7, 0, append_ms, b"d", 2, 3, 4, 5))
    return made


async def test_the_ends_of_what_is_sealed_are_told(stores: Stores) -> None:
    assert await stores.progress.register_log("two", 2) == 2
    await stores.progress.seal(Seal(2, 1, 50, 60, 1, 0, 3))
    assert await stores.ledger.sealed_ends(1) == {0: SealedEnd(30, 9 * WEEK_MS)}
    assert await stores.ledger.sealed_ends(2) == {1: SealedEnd(60, 3)}
    assert await stores.ledger.sealed_ends(3) == {}


async def test_a_notice_is_given_once_and_what_is_sealed_before_is_not_asked_for(
    stores: Stores,
) -> None:
    notice = Notice(EVENTS, "20260105", 2 * WEEK_MS, 5, 0, 100)
    given = await asyncio.gather(
        *(stores.ledger.give_notice(OLD[EVENTS], REACH, 1, 100) for _ in range(4))
    )
    assert set(given) == {notice}
    assert await stores.ledger.give_notice(OLD[EVENTS], REACH, 1, 999) == notice
    assert await stores.ledger.notices() == [notice]
    sealed = await stores.seals.sealed(1, {})
    assert sealed.kept == {EVENTS: Kept("20260105", 2 * WEEK_MS)}
    assert sealed.rows == [SealedRows(0, 20, 3, 7, 6, 9, 12, 15, 21)], "events of one slice"
    for table in (SEEN, REJECTS):
        await stores.ledger.give_notice(OLD[table], Reach({0: 20}, 0), 1, 100)
    assert (await stores.seals.sealed(1, {})).rows == [SealedRows(0, 20, 3, 7, 2, 9, 12, 15, 7)]
    assert (await stores.seals.sealed(1, {0: 10})).rows == [SealedRows(0, 20, 1, 7, 2, 3, 4, 5, 7)]


async def test_notices_are_forgotten_with_the_store_they_are_about(stores: Stores) -> None:
    await stores.seals.bind("a")
    await stores.ledger.give_notice(OLD[EVENTS], REACH, 1, 100)
    await stores.seals.bind("b", lost="a")
    assert await stores.ledger.notices() == []


async def test_events_are_kept_while_a_meter_is_filled_from_them(stores: Stores) -> None:
    draft = MeterDraft("calls", "", Aggregation.COUNT, "call")
    meter = await stores.catalogue.create_meter("default", draft, 0)
    said = await stores.ledger.give_notice(OLD[EVENTS], REACH, 1, 100)
    assert isinstance(said, str)
    assert "the meter calls is being filled" in said
    assert await stores.ledger.notices() == []
    for slice_ in (0, 10):
        await stores.progress.mark_filled(1, 0, [slice_], [meter.revision])
    notice = await stores.ledger.give_notice(OLD[EVENTS], REACH, 1, 100)
    assert isinstance(notice, Notice), "what is filled later is of a later week"
    assert notice.catalogue == meter.revision
    assert counted_from(await stores.ledger.notices(), meter.revision) == 0, "it had counted them"
    later = await stores.catalogue.create_meter(
        "default", MeterDraft("more", "", Aggregation.COUNT, "call"), 0
    )
    assert counted_from(await stores.ledger.notices(), later.revision) == 2 * WEEK_MS
    found = await stores.progress.lacking(1, 0, [meter.revision, later.revision], 9)
    counting = {it.seal.slice: (it.revisions, it.counting) for it in found}
    both = (meter.revision, later.revision)
    assert counting == {20: (both, both)}, "the oldest comes first"
    await stores.progress.mark_filled(1, 0, [20], both)
    found = await stores.progress.lacking(1, 0, both, 9)
    counting = {it.seal.slice: (it.revisions, it.counting) for it in found}
    assert counting == dict.fromkeys((0, 10), ((later.revision,), ())), "their events are gone"


async def test_seen_rows_and_refusals_wait_for_no_meter(stores: Stores) -> None:
    draft = MeterDraft("calls", "", Aggregation.COUNT, "call")
    meter = await stores.catalogue.create_meter("default", draft, 0)
    for table in (SEEN, REJECTS):
        given = await stores.ledger.give_notice(OLD[table], Reach({0: 20}, 0), 1, 100)
        assert isinstance(given, Notice)
    assert counted_from(await stores.ledger.notices(), meter.revision + 1) == 0


MONTH_MS = 1_769_904_000_000  # 2026-02-01
JANUARY = Period(TALLIES, "202601", MONTH_MS - 31 * 86_400_000, MONTH_MS)
BEHIND_MS = MONTH_MS + WEEK_MS


def _block(number: int, first: int, end: int, begin_ms: int, end_ms: int) -> Block:
    stretches = (Stretch(0, first, end), Stretch(1, 0, 0))
    return Block(number, 1, stretches, 0, 0, begin_ms, end_ms, changed_at_ms=BEHIND_MS)


async def _readable(ledger: SqlBlockLedger, block: Block) -> None:
    await ledger.begin(block)
    assert await ledger.publish(block, {"hours": 1, "days": 1}, (), BEHIND_MS)


async def test_minutes_go_once_blocks_have_them_and_blocks_are_withdrawn_until_they_go(
    stores: Stores, control_database: Database
) -> None:
    blocks, reach, late = SqlBlockLedger(control_database), Reach({0: 11}, 0), 15 * 60_000
    assert isinstance(await stores.ledger.give_notice(JANUARY, reach, 1, 100), str)
    await _readable(blocks, _block(1, 0, 20, 0, BEHIND_MS))
    said = await stores.ledger.give_notice(JANUARY, Reach({0: 21}, 0), 1, 100)
    assert said == "some of its rows are in no block yet"
    notice = await stores.ledger.give_notice(JANUARY, reach, 1, 100)
    assert notice == Notice(TALLIES, "202601", MONTH_MS + late, MONTH_MS - 1, 0, 100)
    assert await blocks.dropped_minutes() == (Dropped(MONTH_MS // 60_000, 0, gone=False),)
    assert await blocks.kept([1], MONTH_MS // 60_000)
    assert not await blocks.kept([1], MONTH_MS // 60_000 - 1), "planned before the notice"

    # Until the drop has begun all can be made again, and nothing is begun meanwhile.
    assert await blocks.withdraw(1, [1], BEHIND_MS)
    assert not await stores.ledger.begin_drop(JANUARY, reach, 1, 200)
    await _readable(blocks, _block(2, 0, 20, 0, BEHIND_MS))
    await _readable(blocks, _block(3, 20, 30, BEHIND_MS, BEHIND_MS + WEEK_MS))
    assert await stores.ledger.begin_drop(JANUARY, reach, 1, 300)
    assert await stores.ledger.begin_drop(JANUARY, reach, 1, 400)
    assert await stores.ledger.notices() == [notice._replace(begun_at_ms=300)]
    assert not await blocks.withdraw(1, [2], BEHIND_MS), "its minutes may be gone"
    assert await blocks.kept([2, 3], MONTH_MS // 60_000)
    assert await blocks.withdraw(1, [3], BEHIND_MS), "it has only late rows of before"
    assert not await blocks.kept([3], MONTH_MS // 60_000)


async def test_a_slice_does_not_differ_by_minutes_that_may_be_gone(
    stores: Stores, control_database: Database
) -> None:
    usage = TableDifference(TALLIES, "2 rows", "1 rows")
    events = TableDifference("events", "2 rows", "1 rows")
    minute, reach = MONTH_MS // 60_000, Reach({0: 11}, 0)

    def differing(slice_: int, first_minute: int, *tables: TableDifference) -> SliceDifference:
        return SliceDifference(SliceId(1, 0, slice_), BEHIND_MS, tables, first_minute)

    record = stores.progress.record_difference
    assert await record(differing(1, minute - 1, usage)), "all are kept"
    await _readable(SqlBlockLedger(control_database), _block(1, 0, 20, 0, BEHIND_MS))
    assert isinstance(await stores.ledger.give_notice(JANUARY, reach, 1, 100), Notice)
    assert await record(differing(2, minute - 1, usage)), "the drop has not begun"
    assert await stores.ledger.begin_drop(JANUARY, reach, 1, 200)
    assert not await record(differing(3, minute - 1, usage))
    assert await record(differing(4, minute, usage)), "its minutes are kept"
    assert await record(differing(5, minute - 1, usage, events))
    there = await stores.progress.differences_between(1, 0, 0, 10)
    told = [(it.slice_id.slice, [table.table for table in it.tables]) for it in there]
    assert told == [(1, [TALLIES]), (2, [TALLIES]), (4, [TALLIES]), (5, ["events"])]


async def test_minutes_that_no_log_but_another_has_are_kept(
    stores: Stores, control_database: Database
) -> None:
    await _readable(SqlBlockLedger(control_database), _block(1, 0, 20, 0, BEHIND_MS))
    await stores.progress.register_log("two", 2)
    said = await stores.ledger.give_notice(JANUARY, Reach({0: 11}, 0), 1, 100)
    assert said == "another log was counted, and its minutes are in no block that is read"


async def test_seals_tell_of_rows_of_usage_that_are_not_late(stores: Stores) -> None:
    """Of slices that have all of their rows of before a second time, along the log."""
    blocks = SqlBlockLedger(stores.ledger.database)
    await _readable(blocks, _block(1, 0, 30, 0, BEHIND_MS))
    for slice_, late in ((30, 1), (40, 9)):
        row = (1, 0, slice_, slice_ + 10, 7, 0, BEHIND_MS, b"d", 2, 6, 4, 5, late)
        await stores.progress.seal(Seal(*row))
    (before,) = (await stores.seals.sealed(1, {})).rows
    await stores.ledger.give_notice(JANUARY, Reach({0: 11}, 0), 1, 100)
    (after,) = (await stores.seals.sealed(1, {})).rows
    assert before.tallies == 9 + 12
    assert (after.tallies, after.members) == (6 - 1, before.members), "members have no notice"
    assert (after.events, after.seen) == (before.events, before.seen)
