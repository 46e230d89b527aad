"""Contract of `UsageEvidence` and `ControlEvidence` beside the recount and the runs, on every
engine.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from meterline.audit import AuditSpan, Chunk, Filled, Kept, SlicePlace, Strange, Touched
from meterline.backends.clickhouse.audit.evidence import ClickHouseEvidence
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.progress.evidence import SqlEvidence
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.event import Unreadable
from meterline.limits import SLICE_SPAN_MS
from meterline.meter import Meter
from meterline.usage import Flush, Seal, SliceId
from tests.contract.usage.event_feed import BEGIN_MS, Feed
from tests.contract.usage.slices import event, folded, meter

HORIZON_MS = 35 * 86_400_000
EVER = (0, 2**62)


@pytest.fixture
def one(fresh_numbers: Iterator[int]) -> Meter:
    return meter(next(fresh_numbers))


async def _written(store: ClickHouseUsageStore, one: Meter, log: int) -> Flush:
    """Two slices of three events each, written twice."""
    whole = Flush()
    for offset in (0, 4):
        events = [event(one, 10 * offset + n, "2026-01-01T00:00:00Z", {"v": n}) for n in range(3)]
        whole.extend(folded(log, [one], events, offset).take())
    await store.write(whole)
    await store.write(whole)
    return whole


async def test_rows_are_counted_by_slice_and_up_to_a_position(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int], one: Meter
) -> None:
    log = next(fresh_numbers)
    whole = await _written(usage_store, one, log)
    evidence = ClickHouseEvidence(usage_store.connection)
    both = Chunk(log, 0, (0, 4), 0, 5)
    expected = {Kept(what, slice_, 3) for what in ("events", "seen") for slice_ in (0, 4)}
    assert set(await evidence.kept(both)) == expected
    cut = Chunk(log, 0, (4,), 4, 5, upto=(4 << 10) | 1)
    assert set(await evidence.kept(cut)) == {Kept("events", 4, 2), Kept("seen", 4, 2)}
    assert await evidence.accounts_between(log, 0, 0, 5) == whole.accounts
    assert await evidence.accounts_between(log, 0, 1, 5) == whole.accounts[1:]
    assert await evidence.accounts_between(log, 1, 0, 5) == []
    slices = await evidence.cell_slices(log, 0, (0, 5), [one.revision])
    assert sorted(slices) == [("tallies", 0), ("tallies", 4)]
    assert await evidence.cell_slices(log, 0, (1, 4), [one.revision]) == []
    assert await evidence.strange(both, 9) == []
    assert await evidence.repeated(log, 0, EVER, HORIZON_MS, 9) == []


async def test_what_there_is_in_a_chunk_is_told_by_type_and_by_revision(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int], one: Meter
) -> None:
    log = next(fresh_numbers)
    await _written(usage_store, one, log)
    evidence = ClickHouseEvidence(usage_store.connection)
    both = Chunk(log, 0, (0, 4), 0, 5)
    touched = await evidence.touched(both)
    assert touched == Touched({(one.namespace, one.event_type)}, {one.revision})
    assert touched.has_any_of(one)
    assert touched.has_any_of(replace(one, event_type="another"))  # its cells are there
    assert touched.has_any_of(replace(one, revision=one.revision + 1))  # its events are there
    stranger = replace(one, revision=one.revision + 1, namespace="another")
    assert not touched.has_any_of(stranger)
    nothing = Touched(frozenset(), frozenset())
    assert await evidence.touched(Chunk(log, 0, (3,), 0, 5)) == nothing
    assert await evidence.touched(Chunk(log, 1, (0, 4), 0, 5)) == nothing


@pytest.mark.parametrize("kind", ["tallies", "late_tallies", "members", "late_members", "rejected"])
async def test_cells_of_a_slice_without_events_are_told(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int], kind: str
) -> None:
    log, revision = next(fresh_numbers), next(fresh_numbers)
    names = "revision, log, partition, slice, window"
    sql = f"INSERT INTO {kind} ({names}) VALUES ({revision}, {log}, 0, 7, 29000000)"
    await (await usage_store.connection.at(0)).execute(sql)
    touched = await ClickHouseEvidence(usage_store.connection).touched(Chunk(log, 0, (7,), 7, 8))
    assert touched == Touched(frozenset(), {revision})


async def test_what_lacks_its_other_half_is_named(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int], one: Meter
) -> None:
    log = next(fresh_numbers)
    whole = await _written(usage_store, one, log)
    evidence = ClickHouseEvidence(usage_store.connection)
    chunk = Chunk(log, 0, (0, 4), 0, 5)
    row, trace = whole.events[0], whole.seen[0]
    lone = row._replace(place=7, key=bytes(16))
    traced = trace._replace(place=8, key=bytes(range(16)))
    wrong = row._replace(place=9, subject="else", key=bytes(15) + b"x")
    await usage_store.write(Flush(events=[lone, wrong], seen=[traced]))
    named = {(it.table, it.place, it.expected) for it in await evidence.strange(chunk, 9)}
    assert named == {
        ("events", 7, "its trace in seen"),
        ("seen", 8, "its event"),
        ("events", 9, "its trace in seen"),
        ("events", 9, "columns as in its text"),
    }
    assert len(await evidence.strange(chunk, 2)) == 2


async def test_copies_follow_the_event_that_they_name(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int], one: Meter
) -> None:
    log = next(fresh_numbers)
    feed = Feed(usage_store, log, "default")
    events = [event(one, n, "2026-01-01T00:00:00Z", {"v": n}) for n in range(2)]
    await feed.add([*events], BEGIN_MS, 0)
    broken = Unreadable(2, "id", "is empty", b"{}", "default", "t", "0/1")
    await feed.add([events[1], events[0], broken], BEGIN_MS, 0)
    evidence = ClickHouseEvidence(usage_store.connection)
    chunk = Chunk(log, 0, (1,), 1, 2)
    assert set(await evidence.kept(chunk)) == {Kept("duplicate", 1, 2), Kept("invalid", 1, 1)}
    assert await evidence.strange(chunk, 9) == []
    place = f"log = {log} AND partition = 0 AND offset = 0 AND place = 1"
    for table in ("seen", "events"):
        sql = f"ALTER TABLE {table} DELETE WHERE {place} SETTINGS mutations_sync = 2"
        await (await usage_store.connection.at(0)).execute(sql)
    (orphan,) = await evidence.strange(chunk, 9)
    assert orphan == Strange("rejects", 1, 1, 0, "the event that it is a copy of", "nothing")


async def test_an_identity_is_new_once_within_the_horizon(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int], one: Meter
) -> None:
    log = next(fresh_numbers)
    whole = await _written(usage_store, one, log)
    at_ms = whole.seen[0].append_ms
    later = [
        whole.seen[0]._replace(offset=9, slice=9, append_ms=at_ms + HORIZON_MS + 1),
        whole.seen[1]._replace(offset=9, slice=9, place=1, append_ms=at_ms + HORIZON_MS),
    ]
    await usage_store.write(Flush(seen=later))
    evidence = ClickHouseEvidence(usage_store.connection)
    (found,) = await evidence.repeated(log, 0, EVER, HORIZON_MS, 99)
    assert (found.table, found.slice, found.offset, found.place) == ("seen", 9, 9, 1)
    span = (at_ms + HORIZON_MS, 2**62)
    assert await evidence.repeated(log, 0, span, HORIZON_MS, 99) == [found]
    assert await evidence.repeated(log, 0, (0, at_ms + 1), HORIZON_MS, 99) == []


async def test_an_account_can_be_deleted_to_be_made_anew(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int], one: Meter
) -> None:
    log = next(fresh_numbers)
    await _written(usage_store, one, log)
    evidence = ClickHouseEvidence(usage_store.connection)
    await evidence.purge_account(SliceId(log, 0, 4))
    assert [it.slice for it in await evidence.accounts_between(log, 0, 0, 9)] == [0]


async def test_seals_of_a_span_come_by_offset(control_database: Database) -> None:
    progress, evidence = SqlProgressStore(control_database), SqlEvidence(control_database)
    assert await evidence.logs() == []
    number = await progress.register_log("a", 3)
    assert await progress.register_log("b", 2) == number + 1
    assert await evidence.logs() == [(number, 3), (number + 1, 2)]
    begin_ms = 1_000 * SLICE_SPAN_MS
    seals = [
        Seal(number, 0, 10 * n, 10 * n + 7, n, 4, begin_ms + n * SLICE_SPAN_MS + 100)
        for n in range(4)
    ]
    for seal in [*seals[::-1], Seal(number, 1, 5, 9, 1, 4, begin_ms)]:
        await progress.seal(seal)
    every, first = AuditSpan(), SlicePlace(number, 0, 0)
    assert await evidence.seals(first, every, 9) == seals
    assert await evidence.seals(first, every, 2) == seals[:2]
    assert await evidence.seals(SlicePlace(number, 0, 11), every, 9) == seals[2:]
    assert await evidence.seal_count(every) == 5
    within = AuditSpan(begin_ms + SLICE_SPAN_MS + 1, begin_ms + 2 * SLICE_SPAN_MS + 1)
    assert await evidence.seals(first, within, 9) == seals[1:3], "slices that it cuts are in whole"
    assert await evidence.seal_count(within) == 2
    await progress.mark_filled(number, 0, [10], [7])
    await progress.mark_filled(number, 1, [10], [8])
    filled = await evidence.filled(number, 0, [0, 10, 20])
    assert filled == Filled({7: 0}, {(10, 7)})
    assert [filled.holds(slice_, 7) for slice_ in (0, 10, 20)] == [False, True, False]
    assert not filled.holds(10, 8)
    seals = [Seal(1, 0, slice_, slice_ + 10, 0, 6, 0) for slice_ in (0, 10, 20)]
    assert filled.held(seals, 6) == (0, 10, 20)
    assert filled.held(seals, 7) == (10,)
    assert (await evidence.filled(number, 0, [0])).marks == set()
    await progress.mark_filled(number, 0, [0], [7])
    filled = await evidence.filled(number, 0, [0, 10, 20])
    assert [filled.holds(slice_, 7) for slice_ in (0, 10, 20)] == [True, True, False]
