"""What every RevisionLedger promises (`meterline.usage`), on SQLite and PostgreSQL."""

import asyncio

import pytest

from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.meters.revisions import SqlRevisionStore
from meterline.backends.control_store.progress.blocks import SqlBlockLedger
from meterline.backends.control_store.progress.dropped_revisions import SqlRevisionLedger
from meterline.backends.control_store.progress.erasures import SqlErasureStore
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.backends.control_store.progress.retention import SqlRetention
from meterline.backends.control_store.progress.seal_ledger import SqlSealLedger
from meterline.meter import Aggregation, Meter, MeterChange, MeterDraft
from meterline.ports import Unavailable
from meterline.usage import (
    EVENTS,
    Block,
    Notice,
    Period,
    Reach,
    RevisionNotice,
    Seal,
    SliceRows,
    Stretch,
    block_number,
)

KEPT_MS = 1_000_000
NOW_MS = 1_700_000_000_000
LATER_MS = NOW_MS + KEPT_MS
BILLED = MeterChange(value_property="$.billed")


class Stores:
    """All that is asked."""

    def __init__(self, database: Database) -> None:
        self.ledger = SqlRevisionLedger(database)
        self.seals = SqlSealLedger(database)
        self.progress = SqlProgressStore(database)
        self.catalogue = SqlCatalogueStore(database)
        self.revisions = SqlRevisionStore(database)
        self.blocks = SqlBlockLedger(database)
        self.retention = SqlRetention(database)
        self.erasures = SqlErasureStore(database)

    async def superseded(self, key: str = "tokens") -> Meter:
        """A meter, as it was before another revision of it took over."""
        draft = MeterDraft(key, key, Aggregation.SUM, "prompt", "$.tokens")
        before = await self.catalogue.create_meter("default", draft, NOW_MS)
        await self.catalogue.update_meter("default", key, BILLED, NOW_MS)
        (number,) = await self.catalogue.filling()
        assert await self.catalogue.switch_filled(number, NOW_MS) is not None
        return before

    async def notice(self, now_ms: int = LATER_MS) -> RevisionNotice:
        (number,) = await self.ledger.give_revision_notices(now_ms, now_ms, KEPT_MS)
        return next(one for one in await self.ledger.revision_notices() if one.revision == number)

    async def seal(self, slice_: int, catalogue: int, partition: int = 0, log: int = 1) -> None:
        rows = (2, 30, 40, 50)
        await self.progress.seal(
            Seal(log, partition, slice_, slice_ + 10, 7, catalogue, slice_, b"d", *rows, 0)
        )

    async def counts(self, partition: int = 0) -> list[tuple[int, int, int, int]]:
        """By slice, what seals tell of tallies, members and rejected values."""
        seals = await self.blocks.sealed_after(1, partition, 0, 100)
        return [(it.slice, it.tallies, it.members, it.rejected) for it in seals]


@pytest.fixture
async def stores(control_database: Database) -> Stores:
    made = Stores(control_database)
    await made.progress.register_log("one", 2)
    return made


async def test_what_nothing_asks_for_gets_one_notice(stores: Stores) -> None:
    before = await stores.superseded()
    early_ms = LATER_MS - 1
    assert await stores.ledger.give_revision_notices(early_ms, LATER_MS, KEPT_MS) == []
    given = await asyncio.gather(
        *(stores.ledger.give_revision_notices(LATER_MS, LATER_MS + 5, KEPT_MS) for _ in range(4))
    )
    assert sorted(given) == [[], [], [], [before.revision]]
    version = await stores.catalogue.catalogue_version()
    assert await stores.ledger.revision_notices() == [
        RevisionNotice(before.revision, version, LATER_MS + 5)
    ]
    shown = await stores.revisions.revision("default", "tokens", before.revision)
    assert shown.not_kept_since_ms == LATER_MS + 5
    there = await stores.catalogue.meter("default", "tokens")
    assert there is not None
    one = await stores.revisions.revision("default", "tokens", there.revision)
    assert one.not_kept_since_ms is None


async def test_no_more_get_a_notice_than_statements_can_name(
    stores: Stores, control_database: Database
) -> None:
    first, second = [await stores.superseded(key) for key in ("tokens", "seconds")]
    bounded = SqlRevisionLedger(control_database, notices_max=1)
    assert first.revision < second.revision
    for given in ([first.revision], []):
        assert await bounded.give_revision_notices(LATER_MS, LATER_MS, KEPT_MS) == given
    assert await stores.ledger.give_revision_notices(LATER_MS, LATER_MS, KEPT_MS) == [
        second.revision
    ]


async def test_what_answers_or_may_come_to_is_kept(stores: Stores) -> None:
    before = await stores.superseded()
    made = await stores.revisions.propose(
        "default", "tokens", MeterChange(value_property="$.other"), NOW_MS
    )
    for at_ms in (LATER_MS, LATER_MS + 10 * KEPT_MS):
        await stores.ledger.give_revision_notices(at_ms, at_ms, KEPT_MS)
        there = await stores.ledger.revision_notices()
        assert [one.revision for one in there] == [before.revision]
    await stores.revisions.discard("default", "tokens", made.number, LATER_MS)
    assert await stores.ledger.give_revision_notices(LATER_MS, LATER_MS, KEPT_MS) == []
    end_ms = LATER_MS + KEPT_MS
    found = await stores.ledger.give_revision_notices(end_ms, end_ms, KEPT_MS)
    assert found == [made.number]


async def test_the_revisions_of_a_deleted_meter_that_ended_go_too(stores: Stores) -> None:
    before = await stores.superseded()
    await stores.catalogue.delete_meter("default", "tokens", NOW_MS)
    assert (await stores.notice()).revision == before.revision, "and not the last one"


async def test_nobody_seals_by_an_older_catalogue_any_more(stores: Stores) -> None:
    await stores.superseded()
    await stores.seal(0, 1)
    notice = await stores.notice()
    await stores.seal(10, notice.catalogue - 1)  # whoever counts has a day to know newer meters
    await stores.ledger.close(notice.revision, LATER_MS + 5)
    await stores.ledger.close(notice.revision, LATER_MS + 6)
    assert (await stores.ledger.revision_notices())[0].closed_at_ms == LATER_MS + 5
    with pytest.raises(Unavailable):
        await stores.seal(20, notice.catalogue - 1)
    await stores.seal(20, notice.catalogue)
    assert [slice_ for slice_, *_ in await stores.counts()] == [0, 10, 20]


async def test_seals_that_counted_it_tell_of_less(stores: Stores) -> None:
    before = await stores.superseded()
    older, own = before.revision - 1, before.revision
    for slice_, catalogue in ((0, older), (10, own), (20, own + 1)):
        await stores.seal(slice_, catalogue)
    await stores.seal(10, own, partition=1)
    notice = await stores.notice()
    rows = [SliceRows(1, 0, at, 1, 2, 3) for at in (0, 10, 20)] + [SliceRows(1, 1, 10, 99, 0, 50)]
    whole = await stores.seals.sealed(1, {})
    assert whole.unsealed == 0
    answers = await asyncio.gather(
        *(stores.ledger.lessen(notice, rows, LATER_MS) for _ in range(3))
    )
    assert sorted(answers) == [False, False, True], "one of those at once"
    assert await stores.counts() == [(0, 30, 40, 50), (10, 29, 38, 47), (20, 29, 38, 47)]
    assert await stores.counts(1) == [(10, 0, 40, 0)], "never below nothing"
    (gone_on,) = await stores.ledger.revision_notices()
    assert gone_on.reached == (1, 1, 10)
    assert (await stores.seals.sealed(1, {})).unsealed == 0, "not all of them yet"
    assert not await stores.ledger.lessen(notice, [], LATER_MS), "that was before"
    assert await stores.ledger.lessen(gone_on, [], LATER_MS)
    assert (await stores.seals.sealed(1, {})).unsealed == 1
    (done,) = await stores.ledger.revision_notices()
    assert done.lessened_at_ms == LATER_MS
    assert not await stores.ledger.lessen(gone_on, [], LATER_MS + 1)
    await stores.ledger.note_dropped([done.revision], LATER_MS + 7)
    await stores.ledger.note_dropped([done.revision], LATER_MS + 8)
    (gone,) = await stores.ledger.revision_notices()
    assert gone.dropped_at_ms == LATER_MS + 7


async def test_sums_of_seals_tell_of_less(stores: Stores) -> None:
    before = await stores.superseded()
    for slice_ in (0, 10, 20, 30):
        await stores.seal(slice_, before.revision + 1)
    there = await stores.catalogue.catalogue()
    stretches = (Stretch(0, 0, 30), Stretch(1, 0, 0))
    block = Block(block_number(NOW_MS, 1), 1, stretches, 0, there.meters[-1].revision)
    await stores.blocks.begin(block)
    assert await stores.blocks.publish(block, {}, (), NOW_MS)
    period = Period(EVENTS, "20260105", 0, 1_000)
    given = await stores.retention.give_notice(period, Reach({}, 0), 1, NOW_MS)
    assert isinstance(given, Notice), given
    assert await stores.retention.sum_seals(1, 1_000, 1) == 3
    assert await stores.counts() == [(0, 90, 120, 150), (30, 30, 40, 50)]
    notice = await stores.notice()
    rows = [SliceRows(1, 0, at, 1, 2, 3) for at in (10, 20, 30, 40)]
    assert await stores.ledger.lessen(notice, rows, LATER_MS)
    assert await stores.counts() == [(0, 88, 116, 144), (30, 29, 38, 47)]


async def test_seals_stay_while_a_subject_is_being_erased(stores: Stores) -> None:
    await stores.superseded()
    await stores.seal(0, await stores.catalogue.catalogue_version())
    notice = await stores.notice()
    await stores.erasures.ask("default", "alice", LATER_MS)
    rows = [SliceRows(1, 0, 0, 1, 2, 3)]
    assert not await stores.ledger.lessen(notice, rows, LATER_MS)
    assert await stores.counts() == [(0, 30, 40, 50)]


async def test_a_notice_stays_where_a_lost_store_is_counted_anew(stores: Stores) -> None:
    await stores.superseded()
    await stores.seals.bind("a")
    notice = await stores.notice()
    await stores.seals.bind("b", lost="a")
    assert await stores.ledger.revision_notices() == [notice], "it is not counted again"
