"""The audit over real embedded adapters: clean where nothing was touched; every touch is named."""

from collections.abc import AsyncIterator, Iterator

import pytest

from meterline.audit import (
    AuditSpan,
    BlockPlace,
    Finding,
    Place,
    RunPlace,
    SlicePlace,
    decode_place,
    encode_place,
)
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import insert
from meterline.backends.control_store.progress.blocks import SqlBlockLedger
from meterline.backends.control_store.progress.evidence import SqlEvidence
from meterline.backends.control_store.progress.retention import SqlRetention
from meterline.backends.control_store.tables.meters import logs
from meterline.event import encode_pack
from meterline.limits import SLICE_SPAN_MS
from meterline.meter import Aggregation
from meterline.usage import EVENTS, Block, Flush, Notice, Period, Reach, Stretch
from tests.unit.aggregator.audited import TOUCHES, Audited
from tests.unit.aggregator.world import PARTITIONS, Meters, World, numbered, taken_on

REPAIR = AuditSpan(repair=True)


@pytest.fixture
async def audited(world: World, fresh_numbers: Iterator[int]) -> AsyncIterator[Audited]:
    number = world.log.number

    async def register(connection: Connection) -> None:
        row = {"number": number, "id": world.log.id, "partitions": PARTITIONS}
        await connection.execute(insert(connection, logs).values(row))

    await world.database.write(register)
    meters = Meters(0)
    for aggregation in (Aggregation.SUM, Aggregation.UNIQUE_COUNT):
        meters.add(aggregation, next(fresh_numbers))
    meters.add(Aggregation.COUNT, next(fresh_numbers), event_type="nothing")
    worker = world.worker(meters)
    for first in (0, 40, 80):
        await world.send(numbered(first, first + 60))
        await world.log.append(first % PARTITIONS, encode_pack([b"{}"]))
        world.clock.at_ms += SLICE_SPAN_MS
    await world.send(numbered(140, 170))
    await world.run(worker)
    made = Audited(world, meters, worker)
    yield made
    await worker.close_all()


def tables(findings: list[Finding]) -> set[str]:
    return {one.table for one in findings}


async def test_what_nobody_touched_is_clean(audited: Audited) -> None:
    for span in (AuditSpan(), AuditSpan(payloads=True), REPAIR):
        steps = await audited.steps(span)
        assert [one for step in steps for one in step.findings] == []
        assert sum(step.slices for step in steps) == steps[0].slices_total == 2 * 3
        assert sum(step.events for step in steps) == len(audited.world.sent)
        assert sum(step.cells for step in steps) > 0
    await audited.world.run(audited.worker, seal=True)
    assert await audited.findings() == []


async def test_a_span_is_looked_at_and_no_more(audited: Audited) -> None:
    begin_ms = SLICE_SPAN_MS * 1_000
    await audited.sql("tallies", "DELETE WHERE {where}", await audited.sealed())
    for shift, expected in ((0, True), (1, False), (3, False)):
        from_ms = begin_ms + shift * SLICE_SPAN_MS
        span = AuditSpan(from_ms, from_ms + SLICE_SPAN_MS)
        steps = await audited.steps(span)
        assert bool([one for step in steps for one in step.findings]) is expected, shift
        assert sum(step.slices for step in steps) == (0 if shift == 3 else PARTITIONS)


@pytest.mark.parametrize(
    "gone", [("rejects",), ("events",), ("events", "seen"), ("events", "seen", "rejects")]
)
async def test_what_is_not_kept_is_no_difference_and_the_rest_is_looked_at_as_before(
    audited: Audited, gone: tuple[str, ...]
) -> None:
    ledger, log = SqlRetention(audited.world.database), audited.world.log.number
    before_ms = SLICE_SPAN_MS * 1_002  # two of the three spans that are sealed
    for table in gone:
        period = Period(table, "a", 0, before_ms)
        assert isinstance(await ledger.give_notice(period, Reach({}, 0), log, 0), Notice)
        where = f"DELETE WHERE log = {log} AND append_ms < {before_ms}"
        await audited.world.usage.connection.execute(
            f"ALTER TABLE {table} {where} SETTINGS mutations_sync = 2"
        )
    for span in (AuditSpan(payloads=True), REPAIR):
        steps = await audited.steps(span)
        assert [one for step in steps for one in step.findings] == []
        assert sum(step.slices for step in steps) == 2 * 3
        not_kept = sum(step.not_kept for step in steps)
        assert not_kept == (2 * 2 if "events" in gone else 0)
    last_ms = AuditSpan(before_ms)
    for table in gone:
        where = f"DELETE WHERE log = {log} AND append_ms = {before_ms}"
        await audited.world.usage.connection.execute(
            f"ALTER TABLE {table} {where} SETTINGS mutations_sync = 2"
        )
        found = [one for step in await audited.steps(last_ms) for one in step.findings]
        assert table in tables(found)


async def test_cells_of_a_meter_that_no_event_is_of_are_named(audited: Audited) -> None:
    of_nothing = audited.meters.meters[-1]
    slice_id = await audited.sealed()
    invented = (await audited.tally(slice_id))._replace(revision=of_nothing.revision)
    await audited.write(Flush(tallies=[invented]))
    (found,) = await audited.findings()
    assert found.name.startswith(f"meter {of_nothing.key} ")
    assert all(one.mended for one in await audited.findings(REPAIR))
    assert await audited.findings() == []


async def test_only_meters_that_have_something_there_are_recounted(audited: Audited) -> None:
    counting = {one.revision for one in audited.meters.meters if one.event_type == "t"}
    assert len(counting) == len(audited.meters.meters) - 1
    await audited.findings()
    assert set(audited.evidence.recounted) == counting


async def test_a_meter_that_is_not_filled_in_yet_is_no_difference(
    audited: Audited, fresh_numbers: Iterator[int]
) -> None:
    audited.meters.add(Aggregation.MAX, next(fresh_numbers))
    steps = await audited.steps()
    assert not [one for step in steps for one in step.findings]
    assert sum(step.unfilled for step in steps) == 2 * 3
    await taken_on(audited.worker)
    await audited.world.run(audited.worker)
    await audited.world.fill(audited.worker)
    steps = await audited.steps()
    assert not [one for step in steps for one in step.findings]
    assert sum(step.unfilled for step in steps) == 0


EXPECTED = {
    # what is done: the tables that are named, and whether repair mends it all
    "tally deleted": ({"tallies"}, True),
    "tally changed": ({"tallies"}, True),
    "tally added": ({"tallies"}, True),
    "member added": ({"members"}, True),
    "members deleted": ({"members"}, True),
    "slice invented": ({"tallies"}, True),
    "event deleted": ({"events", "seen", "tallies", "members"}, True),
    "event deleted, log gone": ({"events", "seen", "tallies", "members"}, False),
    "event changed": ({"events", "tallies", "members"}, False),
    "event added": ({"events", "tallies"}, False),
    "trace deleted": ({"events", "seen"}, True),
    "reject deleted": ({"rejects"}, False),
    "account deleted": ({"accounts"}, True),
    "account changed": ({"rejects"}, False),
    "account impossible": ({"accounts"}, True),
    "seal deleted": ({"seals"}, False),
}


@pytest.mark.parametrize("touch", EXPECTED)
async def test_every_touch_is_named_and_mended_where_it_can_be(
    audited: Audited, touch: str
) -> None:
    slice_id = await audited.sealed()
    await TOUCHES[touch](audited, slice_id)
    found = await audited.findings()
    expected, mends = EXPECTED[touch]
    assert tables(found) >= expected, found
    place = ".".join(map(str, slice_id))
    if touch != "slice invented":
        assert any(one.place == place for one in found)
    after = await audited.findings(REPAIR)
    assert {one.key for one in after} >= {one.key for one in found}
    left = await audited.findings(AuditSpan(payloads=True))
    if mends:
        assert all(one.mended for one in after), after
        assert left == []
    else:
        assert not all(one.mended for one in after)
        assert {one.key for one in left} == {one.key for one in after if not one.mended}


async def test_a_log_that_lost_its_ends_is_named(audited: Audited) -> None:
    await audited.world.progress.flushed(audited.world.log.number, 10**6, {0: 999})
    (found,) = await audited.findings()
    assert (found.table, found.name, found.found) == ("log", "end", str(await _end(audited)))


async def _end(audited: Audited) -> int:
    return await audited.world.log.end(0)


PLACES = [
    SlicePlace(1, 0, 2**50),
    BlockPlace(1, 2**62),
    RunPlace(0, ""),
    RunPlace(7, "run_" + "a" * 32),
]


@pytest.mark.parametrize("place", PLACES)
def test_a_cursor_leads_back_to_its_step(place: Place) -> None:
    assert decode_place(encode_place(place)) == place
    for wrong in ("", "slices.1.2", encode_place(place) + "x", "runs.1", "blocks.1"):
        with pytest.raises(ValueError, match="is not a cursor"):
            decode_place(wrong)


async def test_slices_whose_seals_were_added_up_are_compared_in_sum(audited: Audited) -> None:
    world, log = audited.world, audited.world.log.number
    before = await audited.steps(within=f"slices.{log}.0.")
    place = SlicePlace(log, 0, 0)
    seals = await SqlEvidence(world.database).seals(place, AuditSpan(), 9)
    blocks, retention = SqlBlockLedger(world.database), SqlRetention(world.database)
    whole = tuple(Stretch(n, 0, seals[-1].end) for n in range(PARTITIONS))
    block = Block(1, log, whole, 0, 1 << 31)
    await blocks.begin(block)
    assert await blocks.publish(block, {}, (), 0)
    until_ms = world.clock.at_ms + SLICE_SPAN_MS
    for number in range(PARTITIONS):
        revisions = [meter.revision for meter in audited.meters.meters]
        await world.progress.settle(log, number, revisions)
    period = Period(EVENTS, "x", 0, until_ms)
    assert isinstance(await retention.give_notice(period, Reach({}, 0), log, 0), Notice)
    assert await retention.sum_seals(log, until_ms, 99)
    last = seals[-1].slice
    assert [it.slice for it in await SqlEvidence(world.database).seals(place, AuditSpan(), 9)] == [
        last
    ]
    assert await audited.findings() == []
    steps = await audited.steps(within=f"slices.{log}.0.")
    assert sum(step.slices for step in steps) == sum(step.slices for step in before) == len(seals)
    assert sum(step.events for step in steps) == sum(step.events for step in before)
    assert steps[0].not_kept == len(seals) - 1

    gone = await audited.sealed()
    first = next(seal for seal in seals if seal.events)
    gone = gone._replace(slice=first.slice)
    await audited.sql("accounts", "DELETE WHERE {where}", gone)
    for span in (AuditSpan(), REPAIR):
        found = {(one.table, one.name): (one.expected, one.found)
                 for one in await audited.findings(span) if not one.mended}  # fmt: skip
        slices, new = (f"{what}slices before {last}" for what in ("", "new in "))
        assert found == {
            ("accounts", slices): (str(len(seals) - 1), str(len(seals) - 2)),
            ("accounts", new): (
                str(sum(seal.events for seal in seals[:-1])),
                str(sum(seal.events for seal in seals[:-1]) - first.events),
            ),
        }
    assert (await audited.cells(gone)).tallies, "nothing is deleted for want of an account"
