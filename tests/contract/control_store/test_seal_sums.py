"""Adding up seals (RetentionLedger.sum_seals), on SQLite and PostgreSQL: nobody notices but those
who ask for single slices.
"""

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import pytest

from meterline.audit import AuditSpan, SlicePlace
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.progress.blocks import SqlBlockLedger
from meterline.backends.control_store.progress.evidence import SqlEvidence
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.backends.control_store.progress.retention import SqlRetention
from meterline.backends.control_store.progress.seal_ledger import SqlSealLedger
from meterline.backends.control_store.report_store import SqlReportStore
from meterline.backends.control_store.reports.late import SqlLateStore
from meterline.meter import Aggregation, Meter, MeterDraft
from meterline.report import Interval, Report, Schedule
from meterline.usage import (
    EVENTS,
    REJECTS,
    SEEN,
    Block,
    Notice,
    Period,
    Reach,
    Seal,
    Stretch,
    block_number,
    summed,
)

NOW_MS = 1_767_225_600_000
HOUR_MS = 3_600_000  # between slices: all are of one week
SLICES = 12
LATER = 1 << 60  # an instant before which everything is old


def _seal(partition: int, number: int, catalogue: int = 1, log: int = 1) -> Seal:
    """The slice with this number: ten offsets, an hour after the one before."""
    rows = (number, 3, 2, 1)
    return Seal(
        log,
        partition,
        number * 10,
        number * 10 + 10,
        7,
        catalogue,
        number * HOUR_MS,
        b"d",
        *rows,
        0,
    )


class Stores:
    """All that is asked."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.retention = SqlRetention(database)
        self.seals = SqlSealLedger(database)
        self.progress = SqlProgressStore(database)
        self.blocks = SqlBlockLedger(database)
        self.evidence = SqlEvidence(database)
        self.catalogue = SqlCatalogueStore(database)
        self.late = SqlLateStore(database)
        self.meter: Meter | None = None

    async def noticed(self, table: str, hours: int) -> None:
        """Rows of the first so many slices are not kept."""
        period = Period(table, f"{hours:03}", 0, hours * HOUR_MS)
        assert isinstance(await self.retention.give_notice(period, Reach({}, 0), 1, NOW_MS), Notice)

    async def covered(self, ends: Sequence[int], upto: int = 9, first: int = 0) -> list[Block]:
        """Blocks one behind the other, up to these offsets of both partitions."""
        made = []
        for chance, (begin, end) in enumerate(pairwise([first, *ends]), first):
            stretches = (Stretch(0, begin, end), Stretch(1, begin, end))
            block = Block(block_number(NOW_MS, chance), 1, stretches, 0, upto)
            await self.blocks.begin(block)
            assert await self.blocks.publish(block, {"hours": 1}, (), NOW_MS)
            made.append(block)
        return made

    async def reported(self) -> None:
        """A report on the meter."""
        assert self.meter is not None
        report = Report(
            id="01R",
            namespace="default",
            slug="monthly",
            meter_id=self.meter.id,
            schedule=Schedule(Interval.HOUR, 0),
            group_by=(),
            endpoint="https://example.com/hook",
            signing_secret_sealed=b"sealed",
            created_at_ms=0,
            updated_at_ms=0,
        )
        await SqlReportStore(self.database).create_report(report, 0)

    async def singles(self, partition: int = 0) -> list[int]:
        """The numbers of slices with seals of their own."""
        place = SlicePlace(1, partition, 0)
        return [it.slice // 10 for it in await self.evidence.seals(place, AuditSpan(), 99)]

    async def sums(self, span: AuditSpan | None = None) -> list[tuple[int, int]]:
        """First and last slice of each sum of the first partition."""
        found = await self.evidence.sums(SlicePlace(1, 0, 0), span or AuditSpan(), 99)
        return [(it.slice // 10, it.end // 10 - 1) for it in found]


@pytest.fixture
async def stores(control_database: Database) -> Stores:
    """One log with slices in two partitions, counted for one meter."""
    made = Stores(control_database)
    await made.progress.register_log("one", 2)
    made.meter = await made.catalogue.create_meter(
        "default", MeterDraft("calls", "", Aggregation.COUNT, "call"), 0
    )
    for partition in (0, 1):
        for number in range(SLICES):
            await made.progress.seal(_seal(partition, number, made.meter.revision))
    return made


async def test_what_is_compared_with_the_usage_store_stays_the_same(stores: Stores) -> None:
    await stores.covered([40, 110])
    await stores.noticed(EVENTS, 9)
    before = await stores.seals.sealed(1, {})
    behind = await stores.seals.sealed(1, {0: 20, 1: 90})
    assert await stores.retention.sum_seals(1, LATER, 99) == 2 * 9
    assert await stores.sums() == [(0, 3), (4, 8)], "no column ends within one"
    assert await stores.singles() == [9, 10, 11]
    assert await stores.seals.sealed(1, {}) == before
    assert (await stores.seals.sealed(1, {0: 90, 1: 90})).rows == [
        it._replace(partition=n) for n in (0, 1) for it in behind.rows if it.partition == 1
    ]
    assert (await stores.seals.sealed(1, {0: 110, 1: 110})).rows == []
    await stores.noticed(SEEN, 9)
    await stores.noticed(REJECTS, 3)
    assert await stores.retention.sum_seals(1, LATER, 99) == 0, "again it does nothing"
    (rows, _) = (await stores.seals.sealed(1, {})).rows
    assert rows.slices == SLICES
    assert rows.rejects == sum(range(4, SLICES)), "of a sum that is not kept as a whole none count"
    assert (rows.events, rows.seen) == (3 * 7, 3 * 7)
    assert rows.tallies == 3 * SLICES


async def test_single_seals_stay_as_long_as_they_are_needed(stores: Stores) -> None:
    assert await stores.retention.sum_seals(1, LATER, 99) == 0, "all events are kept"
    await stores.noticed(EVENTS, 8)
    assert await stores.retention.sum_seals(1, LATER, 99) == 0, "there are no blocks"
    await stores.covered([50], upto=1)
    later = await stores.catalogue.create_meter(
        "default", MeterDraft("more", "", Aggregation.COUNT, "call"), 0
    )
    assert await stores.retention.sum_seals(1, LATER, 99) == 0, "nor for the newest meter"
    await stores.catalogue.delete_meter("default", later.id, 0)
    assert await stores.retention.sum_seals(1, 3 * HOUR_MS, 99) == 2 * 3, "the others are too new"
    assert await stores.retention.sum_seals(1, LATER, 99) == 2 * 2
    assert await stores.sums() == [(0, 2), (3, 4)]
    await stores.covered([120], first=50)
    assert await stores.retention.sum_seals(1, LATER, 1) == 3, "as many sums as asked for"
    assert await stores.singles() == [8, 9, 10, 11]
    assert await stores.singles(1) == [5, 6, 7, 8, 9, 10, 11]


async def test_the_last_seal_stays_whatever_is_old(stores: Stores) -> None:
    await stores.covered([120])
    await stores.noticed(EVENTS, 99)
    await stores.retention.sum_seals(1, LATER, 99)
    assert await stores.singles() == [SLICES - 1]
    last = await stores.progress.last_seal(1, 0)
    assert stores.meter is not None
    assert last == _seal(0, SLICES - 1, stores.meter.revision)
    assert (await stores.retention.sealed_ends(1))[0].offset == 120
    before = (11 * 10, SLICES * 10)  # behind the sum, and behind the last seal
    found = [await stores.progress.append_ms_before(1, 0, offset) for offset in before]
    assert found == [(SLICES - 2) * HOUR_MS, (SLICES - 1) * HOUR_MS]
    late_from = [await stores.blocks.late_kept_from(1, {0: end, 1: 120}) for end in before]
    assert late_from == found


async def test_a_sum_does_not_reach_across_the_mark_of_a_growth(stores: Stores) -> None:
    await stores.covered([120])
    await stores.noticed(EVENTS, 99)
    await stores.progress.pass_mark(1, 0, 4, 50)
    await stores.retention.sum_seals(1, LATER, 99)
    assert await stores.sums() == [(0, 4), (5, 10)]
    assert await stores.progress.append_ms_before(1, 0, 50) == 4 * HOUR_MS, "as it was there"


async def test_slices_wait_until_late_usage_was_looked_for(stores: Stores) -> None:
    await stores.covered([120])
    await stores.noticed(EVENTS, 99)
    await stores.reported()
    await stores.late.end_look(1, {0: 40})
    assert await stores.retention.sum_seals(1, LATER, 99) == 4
    assert await stores.sums() == [(0, 3)]
    stretches = await stores.late.unlooked(1, 2, 1_000)
    assert stretches == [Stretch(0, 40, 120), Stretch(1, 0, 120)]


async def test_whoever_seals_late_adds_nothing(stores: Stores) -> None:
    await stores.covered([120])
    await stores.noticed(EVENTS, 99)
    await stores.retention.sum_seals(1, LATER, 99)
    before = await stores.seals.sealed(1, {})
    for number in range(SLICES):
        await stores.progress.seal(_seal(0, number, 1))
        await stores.progress.mark_filled(1, 0, [number * 10], [1])
    assert await stores.singles() == [SLICES - 1]
    assert await stores.seals.sealed(1, {}) == before
    assert await stores.progress.unfilled(1, 0, 10**6, 99) == [
        await stores.progress.last_seal(1, 0)
    ]


async def test_sums_and_late_seals_at_once_count_once(stores: Stores) -> None:
    await stores.covered([120])
    await stores.noticed(EVENTS, 99)
    before = await stores.seals.sealed(1, {})
    assert stores.meter is not None
    again = [_seal(0, number, stores.meter.revision) for number in range(SLICES)]
    await asyncio.gather(
        *(stores.retention.sum_seals(1, LATER, 99) for _ in range(3)),
        *(stores.progress.seal(seal) for seal in again),
        *(stores.progress.settle(1, n, [1]) for n in (0, 1)),
    )
    assert await stores.seals.sealed(1, {}) == before
    assert await stores.sums() == [(0, SLICES - 2)]


async def test_blocks_are_made_again_of_sums(stores: Stores) -> None:
    blocks = await stores.covered([40, 110])
    await stores.noticed(EVENTS, 9)
    single = await stores.blocks.sealed_after(1, 0, 0, 99)
    stretches = (Stretch(0, 40, 110), Stretch(1, 0, 40))
    events = await stores.blocks.events_within(1, stretches)
    assert events == 7 * 7 + 4 * 7
    await stores.retention.sum_seals(1, LATER, 99)
    assert await stores.blocks.events_within(1, stretches) == events
    await stores.blocks.withdraw(1, [blocks[0].number], NOW_MS)
    made = await stores.blocks.sealed_after(1, 0, 0, 99)
    assert made == [summed(single[:4]).as_seal(), summed(single[4:9]).as_seal(), *single[9:]]
    assert await stores.blocks.sealed_after(1, 0, 0, 2) == made[:2]
    assert await stores.blocks.sealed_after(1, 0, 40, 2) == made[1:3]
    assert await stores.blocks.lacking(1, (Stretch(0, 0, 90),), [1, 10**6]) is None
    assert await stores.blocks.lacking(1, (Stretch(0, 0, 100),), [1, 10**6]) == 10**6


async def test_an_audit_sees_sums_of_its_span(stores: Stores) -> None:
    await stores.covered([40, 110])
    await stores.noticed(EVENTS, 9)
    await stores.retention.sum_seals(1, LATER, 99)
    assert await stores.evidence.seal_count(AuditSpan()) == 2 * SLICES
    assert await stores.evidence.seal_count(AuditSpan(9 * HOUR_MS)) == 2 * 3
    assert await stores.sums(AuditSpan(5 * HOUR_MS)) == [(4, 8)]
    assert await stores.sums(AuditSpan(None, 4 * HOUR_MS)) == [(0, 3)]
    assert await stores.evidence.summed_end(1, 0) == 90
    assert await stores.evidence.summed_end(2, 0) == 0


async def test_sums_go_with_the_store_they_are_about(stores: Stores) -> None:
    await stores.seals.bind("a")
    await stores.covered([120])
    await stores.noticed(EVENTS, 99)
    await stores.retention.sum_seals(1, LATER, 99)
    await stores.seals.bind("b", lost="a")
    assert await stores.sums() == []
    assert await stores.progress.unsettled(1, 0, [1]) == [1]
    await stores.progress.seal(_seal(0, 0))
    assert await stores.singles() == [0], "the log is counted again"
