"""What every ProgressStore promises (meterline/ports.py), on SQLite and PostgreSQL."""

import asyncio
import random
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Select, Table, func, select

from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.meters.revisions import SqlRevisionStore
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.backends.control_store.store import fetch_int
from meterline.backends.control_store.tables.meters import completeness, flushed
from meterline.meter import Aggregation, MeterChange, MeterDraft
from meterline.problem import Problem, ProblemType
from meterline.usage import CatchingUp, ProgressStore, Seal

LARGE = 2**62  # offsets and instants need more than 32 bits


@pytest.fixture
def store(control_database: Database) -> ProgressStore:
    """A store in which nothing has happened."""
    return SqlProgressStore(control_database)


def _count_of(table: Table) -> Select[Any]:
    return select(func.count()).select_from(table)


DIGEST = bytes(range(240, 256))


def _seal(slice_: int, catalogue: int, *, log: int = 1, partition: int = 0) -> Seal:
    return Seal(log, partition, slice_, slice_ + 10, 7, catalogue, LARGE, DIGEST)


async def test_a_log_keeps_the_number_of_its_first_registration(store: ProgressStore) -> None:
    assert await store.register_log("one", 4) == 1
    assert await store.register_log("two", 16) == 2
    assert await store.register_log("one", 4) == 1


async def test_other_partitions_are_refused(store: ProgressStore) -> None:
    await store.register_log("one", 4)
    with pytest.raises(Problem) as caught:
        await store.register_log("one", 5)
    assert caught.value.type is ProblemType.CONFLICT
    assert "4 partitions" in caught.value.detail


async def test_logs_registered_at_once_have_numbers_of_their_own(store: ProgressStore) -> None:
    names = [f"log {n % 5}" for n in range(10)]
    numbers = await asyncio.gather(*(store.register_log(name, 4) for name in names))
    assert sorted(set(numbers)) == [1, 2, 3, 4, 5]
    assert numbers[:5] == numbers[5:]


async def test_the_last_seal_is_that_of_the_greatest_offset(store: ProgressStore) -> None:
    assert await store.last_seal(1, 0) is None
    for slice_ in (0, LARGE, 10):
        await store.seal(_seal(slice_, 1))
    await store.seal(_seal(LARGE + 50, 1, partition=1))
    await store.seal(_seal(LARGE + 50, 1, log=2))
    assert await store.last_seal(1, 0) == _seal(LARGE, 1)


async def test_the_append_time_before_an_offset_is_that_of_the_last_slice_below(
    store: ProgressStore,
) -> None:
    for number, append_ms in ((0, LARGE), (10, LARGE + 5), (LARGE, LARGE + 9)):
        await store.seal(_seal(number, 1)._replace(append_ms=append_ms))
    await store.seal(_seal(5, 1, partition=1)._replace(append_ms=LARGE + 99))
    found = [await store.append_ms_before(1, 0, offset) for offset in (0, 1, 10, 11, LARGE + 1)]
    assert found == [0, LARGE, LARGE, LARGE + 5, LARGE + 9]
    assert await store.append_ms_before(2, 0, LARGE) == 0


async def test_of_two_seals_with_one_name_the_greater_catalogue_wins(store: ProgressStore) -> None:
    for catalogue in (2, 5, 3):
        await store.seal(_seal(0, catalogue))
    assert await store.last_seal(1, 0) == _seal(0, 5)


async def test_a_seal_of_before_has_no_digest_until_a_greater_one_brings_it(
    store: ProgressStore,
) -> None:
    old = _seal(0, 5)._replace(digest=None)
    await store.seal(old)
    assert await store.last_seal(1, 0) == old
    await store.seal(_seal(0, 6))
    found = await store.last_seal(1, 0)
    assert found is not None
    assert found.digest == DIGEST


async def test_the_backfill_list_names_older_seals_without_a_mark(store: ProgressStore) -> None:
    for slice_, catalogue in ((20, 1), (0, 2), (10, 3), (30, 2)):
        await store.seal(_seal(slice_, catalogue))
    await store.seal(_seal(0, 1, partition=1))
    await store.seal(_seal(0, 1, log=2))
    assert await store.unfilled(1, 0, 3, 10) == [_seal(0, 2), _seal(20, 1), _seal(30, 2)]
    assert await store.unfilled(1, 0, 3, 2) == [_seal(0, 2), _seal(20, 1)]
    assert await store.unfilled(1, 0, 2, 10) == [_seal(20, 1)]
    await store.mark_filled(1, 0, [20], [])  # a rival has filled it since it was looked for
    await store.mark_filled(1, 0, [20], [3])
    await store.mark_filled(1, 0, [20], [3])
    assert await store.unfilled(1, 0, 3, 10) == [_seal(0, 2), _seal(30, 2)]
    assert await store.unfilled(1, 0, 2, 10) == [_seal(20, 1)], "a mark is for one revision"


async def test_completeness_is_the_least_of_all_partitions(store: ProgressStore) -> None:
    assert await store.complete_until(1, 2, 0) is None
    await store.complete(1, 1, {0: 500})
    assert await store.complete_until(1, 2, 0) is None, "partition 1 has no claim"
    await store.complete(1, 1, {1: LARGE})
    await store.complete(2, 1, {0: 1})
    assert await store.complete_until(1, 2, 1) == 500
    assert await store.complete_until(1, 1, 1) == 500


async def test_completions_name_the_greatest_claim_of_each_partition(store: ProgressStore) -> None:
    assert await store.completions(1, 0) == {}
    await store.complete(1, 4, {0: 900})
    await store.complete(1, 5, {0: 700})
    await store.complete(1, 5, {3: LARGE})
    await store.complete(2, 5, {1: 1})
    assert await store.completions(1, 4) == {0: 900, 3: LARGE}
    assert await store.completions(1, 5) == {0: 700, 3: LARGE}
    assert await store.completions(1, 6) == {}


async def test_claims_merge_by_the_greatest(store: ProgressStore) -> None:
    for until_ms in (100, 300, 200):
        await store.complete(1, 1, {0: until_ms})
    assert await store.complete_until(1, 1, 1) == 300


async def test_claims_of_an_older_catalogue_say_nothing_of_a_newer_meter(
    store: ProgressStore,
) -> None:
    await store.complete(1, 4, {0: 900})
    await store.complete(1, 5, {0: 700})
    assert await store.complete_until(1, 1, 4) == 900
    assert await store.complete_until(1, 1, 5) == 700
    assert await store.complete_until(1, 1, 6) is None


async def test_nothing_is_complete_before_the_backfill_is_done(store: ProgressStore) -> None:
    await store.seal(_seal(0, 1))
    await store.seal(_seal(0, 1, partition=1))
    await store.complete(1, 2, {0: 100})
    await store.complete(1, 2, {1: 100})
    assert await store.complete_until(1, 2, 2) is None
    await store.mark_filled(1, 0, [0], [2])
    assert await store.complete_until(1, 2, 2) is None
    await store.mark_filled(1, 1, [0], [2])
    assert await store.complete_until(1, 2, 2) == 100
    assert await store.complete_until(1, 2, 1) == 100


async def test_flushed_ends_merge_by_the_greatest(store: ProgressStore) -> None:
    assert await store.flushed_ends(1, 0) == {}
    for end in (5, LARGE, 7):
        await store.flushed(1, 1, {0: end})
    await store.flushed(1, 1, {3: 8})
    await store.flushed(2, 1, {0: 9})
    assert await store.flushed_ends(1, 1) == {0: LARGE, 3: 8}


async def test_a_flush_by_an_older_catalogue_says_nothing_of_a_newer_meter(
    store: ProgressStore,
) -> None:
    await store.flushed(1, 4, {0: 90})
    await store.flushed(1, 5, {0: 70})
    await store.flushed(1, 5, {1: 20})
    assert await store.flushed_ends(1, 4) == {0: 90, 1: 20}
    assert await store.flushed_ends(1, 5) == {0: 70, 1: 20}
    assert await store.flushed_ends(1, 6) == {}


async def test_writers_at_once_lose_nothing(store: ProgressStore) -> None:
    await asyncio.gather(
        *(store.flushed(1, 1, {n % 3: n}) for n in range(30)),
        *(store.complete(1, 1, {n % 3: n}) for n in range(30)),
        *(store.seal(_seal(n % 3, n)) for n in range(30)),
    )
    assert await store.flushed_ends(1, 1) == {0: 27, 1: 28, 2: 29}
    assert await store.complete_until(1, 3, 1) == 27
    assert await store.last_seal(1, 0) == _seal(2, 29)


async def test_what_is_filled_in_is_a_bound_that_a_late_seal_lowers(store: ProgressStore) -> None:
    for slice_ in (0, 10, 20):
        await store.seal(_seal(slice_, 1))
    assert await store.unsettled(1, 0, [1, 2]) == [1, 2], "nobody looked yet"
    await store.settle(1, 0, [1, 2])
    assert await store.unsettled(1, 0, [1, 2]) == [2]
    for slice_ in (20, 0, 10):
        assert await store.unsettled(1, 0, [2]) == [2]
        await store.mark_filled(1, 0, [slice_], [2])
    assert await store.unsettled(1, 0, [1, 2]) == []
    assert await store.unsettled(1, 1, [1, 2]) == [1, 2], "another partition"
    await store.seal(_seal(30, 2))
    await store.seal(_seal(20, 1))
    assert await store.unsettled(1, 0, [1, 2]) == [], "both revisions are counted in them"
    await store.seal(_seal(40, 1))
    assert await store.unsettled(1, 0, [1, 2]) == [2], "sealed by someone who did not know of it"
    assert await store.unfilled(1, 0, 2, 9) == [_seal(40, 1)]
    await store.mark_filled(1, 0, [40], [2])
    assert await store.unsettled(1, 0, [1, 2]) == []
    assert await store.unfilled(1, 0, 2, 9) == []


async def test_a_late_seal_in_a_gap_is_found_behind_a_bound(store: ProgressStore) -> None:
    await store.seal(_seal(0, 1))
    await store.seal(_seal(50, 2))
    await store.mark_filled(1, 0, [0], [2])
    await store.complete(1, 2, {0: 100})
    assert await store.complete_until(1, 1, 2) == 100
    await store.seal(_seal(20, 1))
    assert await store.complete_until(1, 1, 2) is None
    assert await store.unfilled(1, 0, 2, 9) == [_seal(20, 1)]


async def test_whoever_settles_and_whoever_seals_at_once_agree(store: ProgressStore) -> None:
    await store.register_log("one", 2)
    revisions = [2, 3, 4]
    for first in range(0, 200, 20):
        await asyncio.gather(
            store.settle(1, 0, revisions),
            store.seal(_seal(first, 1)),
            store.mark_filled(1, 0, [first], [2]),
            store.settle(1, 0, revisions),
            store.seal(_seal(first + 10, 3)),
        )
        lacking = {it: await store.unfilled(1, 0, it, 99) for it in revisions}
        unsettled = await store.unsettled(1, 0, revisions)
        assert {it for it, seals in lacking.items() if seals} <= set(unsettled)
        assert [it.slice for it in lacking[3]] == list(range(0, first + 1, 20))
        assert len(lacking[4]) == first // 10 + 2


async def test_what_older_catalogues_had_reached_goes_once_it_is_surpassed(
    store: ProgressStore, control_database: Database
) -> None:
    for catalogue in range(1, 9):
        await store.complete(1, catalogue, {0: 100 * catalogue, 1: 100})
        await store.flushed(1, catalogue, {0: 10 * catalogue, 1: 10})
    await store.complete(1, 9, {0: 300})
    await store.flushed(1, 9, {0: 30})
    assert await store.completions(1, 0) == {0: 800, 1: 100}
    assert await store.completions(1, 9) == {0: 300}
    assert await store.flushed_ends(1, 0) == {0: 80, 1: 10}
    for table in (completeness, flushed):
        rows = await control_database.read(partial(fetch_int, question=_count_of(table)))
        assert rows == 3


async def test_what_several_revisions_lack_is_told_together(store: ProgressStore) -> None:
    for slice_, catalogue in ((0, 1), (10, 2), (20, 1), (30, 3)):
        await store.seal(_seal(slice_, catalogue))
    found = await store.lacking(1, 0, [3, 2, 4], 9)
    assert [(it.seal, it.revisions) for it in found] == [
        (_seal(0, 1), (2, 3, 4)),
        (_seal(20, 1), (2, 3, 4)),
    ], "the slices that the oldest of them lacks"
    assert await store.lacking(1, 0, [2, 3, 4], 1) == found[:1]
    assert [it.seal.slice for it in await store.lacking(1, 0, [3], 9)] == [0, 10, 20]
    await store.mark_filled(1, 0, [0, 20], [2, 4])
    await store.mark_filled(1, 0, [0, 20], [2, 4])
    assert await store.unsettled(1, 0, [2, 3, 4]) == [3, 4]
    found = await store.lacking(1, 0, [2, 3, 4], 9)
    assert [(it.seal.slice, it.revisions) for it in found] == [(0, (3,)), (10, (3, 4)), (20, (3,))]
    await store.mark_filled(1, 0, [0, 10, 20], [3])
    found = await store.lacking(1, 0, [2, 3, 4], 9)
    assert [(it.seal.slice, it.revisions) for it in found] == [(10, (4,)), (30, (4,))]
    await store.mark_filled(1, 0, [30], [4])
    assert [it.slice for it in await store.unfilled(1, 0, 4, 9)] == [10]
    await store.mark_filled(1, 0, [10, 30], [4])
    assert await store.lacking(1, 0, [2, 3, 4], 9) == []
    assert await store.unsettled(1, 0, [2, 3, 4]) == []


async def test_a_revision_that_left_the_catalogue_is_not_filled_in(
    store: ProgressStore, control_database: Database
) -> None:
    """Whoever asks for it has not heard of that yet."""
    catalogue, revisions = SqlCatalogueStore(control_database), SqlRevisionStore(control_database)
    draft = MeterDraft("tokens", "Tokens", Aggregation.SUM, "prompt", "$.tokens")
    deleted = await catalogue.create_meter("default", draft, 1)
    kept = await catalogue.create_meter("default", replace(draft, key="kept"), 2)
    change = MeterChange(value_property="$.billed")
    discarded = await revisions.propose("default", "kept", change, 3)
    unknown = discarded.number + 1
    asked = [deleted.revision, kept.revision, discarded.number, unknown]
    await store.seal(_seal(0, 0))

    async def lack() -> list[int]:
        return [it for one in await store.lacking(1, 0, asked, 9) for it in one.revisions]

    assert await lack() == asked
    await revisions.discard("default", "kept", discarded.number, 4)
    assert await lack() == [deleted.revision, kept.revision, unknown]
    await catalogue.delete_meter("default", "tokens", 5)
    assert await lack() == [kept.revision, unknown]
    assert await store.lacking(1, 0, [deleted.revision, discarded.number], 9) == []


async def test_marks_of_the_same_slices_at_once_leave_one_truth(store: ProgressStore) -> None:
    await store.register_log("one", 2)  # its row is what they lock
    slices = list(range(0, 60, 10))
    for slice_ in slices:
        await store.seal(_seal(slice_, 1))
    await asyncio.gather(
        *(store.mark_filled(1, 0, slices[first:], [2, 3]) for first in (3, 0, 1, 4)),
        store.mark_filled(1, 0, slices, [3]),
        store.settle(1, 0, [2, 3, 4]),
    )
    found = await store.lacking(1, 0, [2, 3, 4], 99)
    assert [(it.seal.slice, it.revisions) for it in found] == [(it, (4,)) for it in slices]


async def test_marks_in_any_order_leave_what_was_not_marked(store: ProgressStore) -> None:
    """Bounds, and marks behind them, say the same as one mark for each pair."""
    rng = random.Random(5)
    left: set[tuple[int, int]] = set()
    for slice_ in range(0, 200, 10):
        catalogue = rng.randrange(4)
        await store.seal(_seal(slice_, catalogue))
        left |= {(slice_, revision) for revision in (2, 3, 4) if catalogue < revision}
    while left:
        first, count = rng.randrange(0, 200, 10), rng.randrange(1, 15)
        slices = rng.sample(range(first, 200, 10), min(count, len(range(first, 200, 10))))
        revisions = rng.sample((2, 3, 4), rng.randrange(1, 4))
        await store.mark_filled(1, 0, slices, revisions)
        left -= {(slice_, revision) for slice_ in slices for revision in revisions}
        for revision in (2, 3, 4):
            found = await store.unfilled(1, 0, revision, 99)
            assert [it.slice for it in found] == sorted(s for s, r in left if r == revision)
        found_all = await store.lacking(1, 0, [2, 3, 4], 99)
        assert all((it.seal.slice, r) in left for it in found_all for r in it.revisions)


async def test_how_far_seen_stores_are_is_kept_until_they_are_done(store: ProgressStore) -> None:
    assert await store.catch_ups(1) == []
    first, second = CatchingUp(0, 5, 6, 1, LARGE), CatchingUp(3, 5, 7, 0, 0)
    await store.tell_catch_ups(1, [second, first], [])
    await store.tell_catch_ups(2, [first], [])
    assert await store.catch_ups(1) == [first, second]
    further = first._replace(seen_ms=9, keys=LARGE - 1)
    await store.tell_catch_ups(1, [further], [3])
    assert await store.catch_ups(1) == [further]
    await store.tell_catch_ups(1, [], [0, 1])
    assert await store.catch_ups(1) == []
    assert await store.catch_ups(2) == [first]
