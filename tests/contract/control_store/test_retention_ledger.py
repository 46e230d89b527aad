"""What every RetentionLedger promises (`meterline.usage`), on SQLite and PostgreSQL."""

import asyncio

import pytest

from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.backends.control_store.progress.retention import SqlRetention
from meterline.backends.control_store.progress.seal_ledger import SqlSealLedger
from meterline.meter import Aggregation, MeterDraft
from meterline.usage import (
    EVENTS,
    REJECTS,
    SEEN,
    Kept,
    Notice,
    Period,
    Reach,
    Seal,
    SealedEnd,
    SealedRows,
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
