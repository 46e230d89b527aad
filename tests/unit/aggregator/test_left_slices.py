"""A sealed slice that differs when a late worker counts it back: it is recorded, named by audits,
and told as mended once it is.
"""

from collections.abc import AsyncIterator, Iterator

import pytest

from aggregator.step import Aggregator
from meterline.audit import AuditSpan, Finding
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import insert
from meterline.backends.control_store.tables.meters import logs
from meterline.backends.rocksdb import RocksSeenStore
from meterline.limits import SLICE_SPAN_MS
from meterline.meter import Aggregation
from meterline.ports import OutdatedMeters
from meterline.usage import Flush, Seal, SliceDifference, SliceId
from tests.unit.aggregator.audited import Audited, Touch, tally_added, tally_changed, tally_deleted
from tests.unit.aggregator.world import HORIZON_MS, PARTITIONS, Meters, World, numbered, taken_on

NOW_MS = SLICE_SPAN_MS * 2_000


class Late:
    """A slice of partition 0 that one worker has sealed, and another one is about to."""

    def __init__(self, world: World, meters: Meters) -> None:
        self.world = world
        self.late = Aggregator(
            world.log, world.usage, world.progress, meters,  # type: ignore[arg-type]
            lambda number: RocksSeenStore(world.folder / "late" / str(number), HORIZON_MS),
            HORIZON_MS,
        )  # fmt: skip
        self.audited = Audited(world, meters, world.worker(meters))
        self.slice_id = SliceId(world.log.number, 0, 0)

    async def begin(self) -> None:
        number = self.world.log.number

        async def register(connection: Connection) -> None:
            row = {"number": number, "id": self.world.log.id, "partitions": PARTITIONS}
            await connection.execute(insert(connection, logs).values(row))

        await self.world.database.write(register)
        await self.world.send(numbered(0, 40))
        await self.world.send(numbered(0, 9))  # copies
        await self.world.run(self.late)
        await self.world.run(self.audited.worker, seal=True)
        self.late.now_ms = NOW_MS

    async def seal(self) -> None:
        """The late worker comes to the end of its slice."""
        await self.late.seal(self.late.partitions[0])

    async def recorded(self) -> list[SliceDifference]:
        return await self.world.progress.differences_between(self.slice_id.log, 0, 0, 1 << 40)

    async def findings(self, *, repair: bool = False) -> list[Finding]:
        return await self.audited.findings(AuditSpan(repair=repair))


@pytest.fixture
async def late(world: World, fresh_numbers: Iterator[int]) -> AsyncIterator[Late]:
    meters = Meters(0)
    for aggregation in (Aggregation.SUM, Aggregation.UNIQUE_COUNT):
        meters.add(aggregation, next(fresh_numbers))
    made = Late(world, meters)
    await made.begin()
    yield made
    await made.late.close_all()
    await made.audited.worker.close_all()


async def test_a_slice_that_is_as_it_was_sealed_is_no_difference(late: Late) -> None:
    await late.seal()
    assert await late.recorded() == []
    assert await late.findings() == []


@pytest.mark.parametrize("touch", [tally_deleted, tally_changed, tally_added])
async def test_what_differs_is_recorded_before_the_slice_is_left_and_mended_by_an_audit(
    late: Late, touch: Touch
) -> None:
    await touch(late.audited, late.slice_id)
    await late.seal()
    (one,) = await late.recorded()
    assert (one.slice_id, one.found_at_ms) == (late.slice_id, NOW_MS)
    assert "tallies" in {it.table for it in one.tables}
    assert late.late.partitions[0].slice is None, "it is left"
    told = [it for it in await late.findings() if it.name.startswith("count-back at ")]
    assert {(it.table, it.place) for it in told} == {(it.table, one.place) for it in one.tables}
    assert not any(it.mended for it in told)
    assert await late.world.progress.differing_slices() == 1, "an audit without repair only looks"
    after = await late.findings(repair=True)
    assert {it.key for it in after} >= {it.key for it in told}
    assert all(it.mended for it in after)
    assert await late.world.progress.differing_slices() == 0
    assert await late.findings() == []


async def test_rows_that_only_count_back_looks_at_are_mended_too(late: Late) -> None:
    tally = await late.audited.tally(late.slice_id)
    await late.audited.write(Flush(late_tallies=[tally._replace(subject="nobody")]))
    await late.seal()
    (one,) = await late.recorded()
    assert [it.table for it in one.tables] == ["late_tallies"]
    assert all(it.mended for it in await late.findings(repair=True))
    back = await late.world.usage.count_back(
        late.slice_id, [meter.revision for meter in late.audited.meters.meters]
    )
    assert one.tables[0].expected == f"{back['late_tallies'].rows} rows"
    assert await late.recorded() == []


async def test_what_cannot_be_mended_stays_recorded(late: Late) -> None:
    await late.audited.sql("rejects", "DELETE WHERE {where}", late.slice_id)
    await late.seal()
    (one,) = await late.recorded()
    assert [it.table for it in one.tables] == ["rejects"]
    after = await late.findings(repair=True)
    assert [it.mended for it in after if it.name.startswith("count-back at ")] == [False]
    assert await late.recorded() == [one]


async def test_by_older_meters_than_its_seals_nothing_is_judged(
    late: Late, fresh_numbers: Iterator[int]
) -> None:
    await tally_deleted(late.audited, late.slice_id)
    newer = late.audited.meters.add(Aggregation.COUNT, next(fresh_numbers))
    progress = late.world.progress
    last_seal = progress.last_seal

    async def of_newer(log: int, partition: int) -> Seal | None:
        seal = await last_seal(log, partition)
        return None if seal is None else seal._replace(catalogue=newer.revision)

    progress.last_seal = of_newer  # type: ignore[method-assign]
    await is_read_again(late)


async def test_by_meters_that_are_about_to_go_nothing_is_judged(
    late: Late, fresh_numbers: Iterator[int]
) -> None:
    await tally_deleted(late.audited, late.slice_id)
    late.audited.meters.meters.pop(0)
    late.audited.meters.version = next(fresh_numbers)
    await is_read_again(late)


async def is_read_again(late: Late) -> None:
    with pytest.raises(OutdatedMeters):
        await late.seal()
    assert await late.recorded() == []
    assert late.late.partitions[0].next_offset == late.slice_id.slice
    await late.world.run(late.late)
    await late.seal()
    assert await late.recorded() == [], "with it what was lost was written again"


async def test_new_meters_that_come_all_the_time_hold_nobody_at_a_slice(
    late: Late, fresh_numbers: Iterator[int]
) -> None:
    await tally_deleted(late.audited, late.slice_id)
    late.audited.meters.add(Aggregation.COUNT, next(fresh_numbers))
    assert await late.late.refresh_catalogue()
    late.audited.meters.add(Aggregation.COUNT, next(fresh_numbers))
    await late.seal()
    assert late.late.is_adopting
    assert [it.slice_id for it in await late.recorded()] == [late.slice_id]
    assert late.late.partitions[0].sealed_end > late.slice_id.slice, "it is left"


async def test_a_slice_without_events_is_counted_for_newer_meters_too(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meters.add(Aggregation.SUM, next(fresh_numbers))
    worker = world.worker(meters)
    await world.log.append(0, b"[]")
    await world.run(worker)
    meters.add(Aggregation.COUNT, next(fresh_numbers))
    await taken_on(worker)
    await world.run(worker, seal=True)
    assert worker.partitions[0].count_back_tries == 0
    assert await world.progress.last_seal(world.log.number, 0) is not None
    await worker.close_all()
