"""Erasures over real embedded stores: whatever dies or fails, and whoever does it at once, totals
never change, and in the end nothing of the subject is left.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine, Iterator
from dataclasses import replace
from typing import Any

import pytest

from aggregator.backfill.filler import FillStores
from aggregator.backfill.fold import refolded
from aggregator.erasure import Eraser
from meterline.audit import AuditSpan, SlicePlace
from meterline.backends.clickhouse.blocks.store import ClickHouseBlockRows
from meterline.backends.control_store.progress.evidence import SqlEvidence
from meterline.backends.control_store.progress.seal_ledger import SqlSealLedger
from meterline.event import is_erased
from meterline.limits import (
    BLOCK_KEPT_MS,
    BLOCK_MAKING_MS,
    ERASURE_AGAIN_S,
    ERASURE_PARTS_MS,
)
from meterline.meter import Aggregation, Catalogue, Meter
from meterline.number import UNIT
from meterline.ports import Unavailable
from meterline.problem import Problem
from meterline.usage import (
    Block,
    Erasure,
    ErasureState,
    Filter,
    Flush,
    Masks,
    Operator,
    Seal,
    SliceId,
    Stretch,
    UsageQuery,
    block_number,
)
from meterline.window import parse_instant
from tests.unit.aggregator.audited import Audited
from tests.unit.aggregator.erasing import AGGREGATIONS, RETENTION_MS, Erasing
from tests.unit.aggregator.world import PARTITIONS, Killed, Meters, World, filled_up


@pytest.fixture
async def erasing(world: World, fresh_numbers: Iterator[int]) -> AsyncIterator[Erasing]:
    made = Erasing(world, Meters(0))
    made.seen = {}
    for aggregation in AGGREGATIONS:
        made.meter(aggregation, next(fresh_numbers))
    await made.register()
    yield made
    world.usage.read_blocks(None)


async def _filled(erasing: Erasing, rounds: int = 2) -> None:
    """Blocks of some slices, slices without a block, and an open one."""
    maker = erasing.maker()
    for at in range(rounds):
        await erasing.send(24)
        await erasing.count()
        await erasing.pass_time()
        if at < rounds - 1:
            while await maker.step():
                pass
        erasing.seen.clear()
    await erasing.send(12)
    await erasing.count()
    erasing.seen.clear()
    await erasing.look(thorough=True)


async def test_a_subject_is_erased_and_totals_stay(erasing: Erasing) -> None:
    await _filled(erasing)
    assert await erasing.found()
    asked = await erasing.ledger.ask(erasing.namespace, erasing.name, erasing.world.clock.now_ms())
    eraser = erasing.eraser()
    await eraser.turn()
    assert (await erasing.erasure(asked.id)).state is ErasureState.ASKED, "a slice is open"
    await erasing.pass_time()
    await eraser.turn()
    await erasing.count()
    await eraser.turn()
    settled = await erasing.erasure(asked.id)
    assert settled.state is ErasureState.SETTLED
    await erasing.look(thorough=True)
    for meter in erasing.meters.meters:
        rows = await erasing.world.usage.usage(UsageQuery(meter, group_by=("subject", "who")))
        names = {row.subject for row in rows}
        assert erasing.name not in names
        assert asked.pseudonym in names
    await _finished(erasing, eraser, asked)
    assert await erasing.found() == []


async def _finished(erasing: Erasing, eraser: Eraser, asked: Erasure) -> None:
    await erasing.pass_time(RETENTION_MS + ERASURE_PARTS_MS + BLOCK_KEPT_MS + BLOCK_MAKING_MS)
    maker = erasing.maker()
    for _ in range(20):
        await eraser.turn()
        await erasing.count()
        await maker.sweep()
        await erasing.shrink_log()
        if (await erasing.erasure(asked.id)).state is ErasureState.DONE:
            break
        await erasing.pass_time(RETENTION_MS)
    done = await erasing.erasure(asked.id)
    assert (done.state, done.subject) == (ErasureState.DONE, None)
    for partition in range(PARTITIONS):
        for record in await erasing.world.log.read(partition, 0, 10_000):
            behind = record.offset >= done.ends[partition]
            assert behind or erasing.name.encode() not in record.value


async def test_it_is_not_done_while_rows_of_a_block_without_a_record_have_the_name(
    erasing: Erasing,
) -> None:
    """Statements that make a block may come again, after its rows were dropped."""
    await _filled(erasing)
    seal = await erasing.world.progress.last_seal(erasing.number, 0)
    assert seal is not None
    end_ms = erasing.world.clock.now_ms() + RETENTION_MS
    number, upto = block_number(end_ms, 1), erasing.meters.version
    lone = Block(number, erasing.number, (Stretch(0, 0, seal.end),), 0, upto)
    await ClickHouseBlockRows(erasing.world.usage.connection).make(lone, [])
    settled = await _settled(erasing)
    erasing.world.clock.at_ms = end_ms
    await erasing.maker().sweep()
    (unfinished,) = await erasing.ledger.unfinished()
    assert await erasing.rows.blocks_with(unfinished) == {lone.number}
    eraser = erasing.eraser()
    for _ in range(3):
        await erasing.shrink_log()
        await erasing.pass_time(ERASURE_AGAIN_S * 1_000)
        await eraser.turn()
        await erasing.count()
        assert (await erasing.erasure(settled.id)).state is ErasureState.SETTLED
    await _finished(erasing, eraser, settled)
    assert await erasing.found() == []


@pytest.mark.long  # minutes, with both cores busy
@pytest.mark.parametrize("seed", [1])
async def test_whatever_dies_and_whoever_erases_totals_never_change(
    erasing: Erasing, seed: int
) -> None:
    """Two erase at once, one makes blocks; all of them die or fail anywhere, and in the end none
    does. Events go on coming, also of the subject: these count under its name, as those of a new
    customer.
    """
    chance = random.Random(seed)
    await _filled(erasing)
    asked = await erasing.ledger.ask(erasing.namespace, erasing.name, erasing.world.clock.now_ms())
    for turn in range(40):
        fate = erasing.fates(chance, 0.15 if turn < 25 else 0)
        await _at_once(
            erasing.eraser(fate).turn(), erasing.eraser(fate).turn(), erasing.maker(fate).step()
        )
        if turn < 4 or chance.random() < 0.2:
            await erasing.pass_time()
            await erasing.send(8)
            await erasing.count()
            erasing.seen.clear()
        await erasing.look(thorough=True)
        if (await erasing.erasure(asked.id)).state is ErasureState.SETTLED:
            break
    settled = await erasing.erasure(asked.id)
    assert settled.state is ErasureState.SETTLED
    await _finished(erasing, erasing.eraser(), asked)
    await erasing.look(thorough=True)
    await _split_at_its_borders(erasing, settled)


async def _at_once(*steps: Coroutine[Any, Any, object]) -> None:
    """All of them; deaths and failures are theirs, what somebody saw is not."""
    for result in await asyncio.gather(*steps, return_exceptions=True):
        if isinstance(result, BaseException) and not isinstance(result, Killed | Unavailable):
            raise result


async def _split_at_its_borders(erasing: Erasing, erasure: Erasure) -> None:
    """Raw events below the borders are under the pseudonym, those behind under the name; so is
    what is counted of them.
    """
    named = erased = 0
    for partition in range(PARTITIONS):
        place = SlicePlace(erasing.number, partition, 0)
        seals = await SqlEvidence(erasing.world.database).seals(place, AuditSpan(), 1_000)
        for seal in seals:
            slice_id = SliceId(erasing.number, partition, seal.slice)
            for row in await erasing.world.usage.slice_events(slice_id):
                below = seal.slice < erasure.ends[partition]
                assert is_erased(row.text) is (below and row.subject == erasure.pseudonym)
                assert not below or row.subject != erasing.name
                named += row.subject == erasing.name
                erased += row.subject == erasure.pseudonym
    assert erased
    assert named
    rows = await erasing.world.usage.usage(
        UsageQuery(erasing.meters.meters[0], group_by=("subject",), rejected_too=True)
    )
    counted = {row.subject: row.count + row.rejected for row in rows}
    assert counted[erasure.pseudonym] == erased
    assert counted[erasing.name] >= named


async def _settled(erasing: Erasing) -> Erasure:
    asked = await erasing.ledger.ask(erasing.namespace, erasing.name, erasing.world.clock.now_ms())
    eraser = erasing.eraser()
    for _ in range(3):
        await eraser.turn()
        await erasing.pass_time()
        await erasing.count()
    settled = await erasing.erasure(asked.id)
    assert settled.state is ErasureState.SETTLED
    return settled


async def test_rows_that_come_back_count_nowhere_and_go_again(erasing: Erasing) -> None:
    """A worker that slept writes what it had: events, tallies and all."""
    await _filled(erasing)
    seal = await erasing.world.progress.last_seal(erasing.number, 0)
    assert seal is not None
    slice_id = SliceId(erasing.number, 0, seal.slice)
    slept = [await refolded(erasing.world.usage, slice_id, it) for it in erasing.meters.meters]
    events = Flush(events=await erasing.world.usage.slice_events(slice_id))
    await _settled(erasing)
    for flush in (events, *slept):
        await erasing.world.usage.write(flush)
    erasing.read()
    await erasing.look(thorough=True)
    assert await erasing.found()
    await erasing.pass_time(ERASURE_AGAIN_S * 1_000)
    await erasing.eraser().turn()
    await erasing.look(thorough=True)
    await erasing.pass_time(BLOCK_KEPT_MS + 1)
    await erasing.maker().sweep()
    assert await erasing.found() == []


async def test_without_masks_rows_count_twice(erasing: Erasing) -> None:
    """The control: what the others look at would be wrong without the guard."""
    await _filled(erasing)
    erasing.masks = Masks(NoErasures())  # type: ignore[arg-type]
    erasing.read()
    with pytest.raises(AssertionError):
        await _settled(erasing)


class NoErasures:
    """A ledger that tells readers nothing."""

    async def unfinished(self) -> list[Erasure]:
        return []


async def test_an_audit_is_clean_afterwards_and_says_what_it_left_out(erasing: Erasing) -> None:
    await _filled(erasing)
    await _settled(erasing)
    worker = erasing.world.worker(erasing.meters)
    await erasing.world.run(worker)
    steps = await Audited(erasing.world, erasing.meters, worker).steps(AuditSpan(payloads=True))
    assert [one for step in steps for one in step.findings] == []
    assert sum(step.erased for step in steps) == sum(
        name == erasing.name for name, _ in erasing.every
    )
    await worker.close_all()


async def test_a_part_of_a_minute_that_has_erased_events_is_refused(erasing: Erasing) -> None:
    await _filled(erasing)
    meter = erasing.meters.meters[0]
    to_ms = parse_instant("2026-01-01T01:01:30Z")  # event 1 lies in this minute
    query = UsageQuery(meter, to_ms=to_ms)
    before = await erasing.world.usage.usage(query)
    await _settled(erasing)
    with pytest.raises(Problem):
        await erasing.world.usage.usage(query)
    others = replace(query, filters=(("subject", Filter(Operator.EQ, ("s0",))),))
    assert await erasing.world.usage.usage(others)
    assert before


async def _counts_without_data(erasing: Erasing, settled: Erasure, later: Meter) -> None:
    """A meter that was made later counts each erased event under the pseudonym, and none else."""
    worker = erasing.world.worker(erasing.meters)
    await erasing.world.run(worker)
    await erasing.world.fill(worker)
    await worker.close_all()
    rows = await erasing.world.usage.usage(UsageQuery(later, group_by=("subject",)))
    counted = {row.subject: row.value // UNIT for row in rows}
    assert counted[settled.pseudonym] == sum(name == erasing.name for name, _ in erasing.every)
    assert erasing.name not in counted


async def test_a_meter_that_is_made_later_counts_erased_events_without_data(
    erasing: Erasing, fresh_numbers: Iterator[int]
) -> None:
    await _filled(erasing)
    settled = await _settled(erasing)
    later = erasing.meter(Aggregation.COUNT, next(fresh_numbers))
    await _counts_without_data(erasing, settled, later)


async def test_events_that_came_back_are_filled_in_without_data(
    erasing: Erasing, fresh_numbers: Iterator[int]
) -> None:
    """A worker that slept wrote them again, and they are not gone yet: a meter that is made now
    counts what is left of them.
    """
    await _filled(erasing)
    back = []
    for partition in range(PARTITIONS):
        for seal in await _seals(erasing, partition):
            slice_id = SliceId(erasing.number, partition, seal.slice)
            back += await erasing.world.usage.slice_events(slice_id)
    settled = await _settled(erasing)
    await erasing.world.usage.write(Flush(events=back))
    later = erasing.meter(Aggregation.COUNT, next(fresh_numbers))
    await erasing.register_later(later)
    await _counts_without_data(erasing, settled, later)


async def test_a_revision_that_ended_is_not_filled_in_from_what_is_left(
    erasing: Erasing, fresh_numbers: Iterator[int]
) -> None:
    """Whoever filled it was killed before he marked it, and its meter was deleted: so its rows are
    copied as they are. A worker that slept, and still knows it, adds none that blocks do not have.
    """
    await _filled(erasing)
    ended = erasing.meter(Aggregation.SUM, next(fresh_numbers))
    await erasing.register_later(ended)
    slept = Catalogue(ended.revision, tuple(erasing.meters.meters))
    for partition in range(PARTITIONS):
        for seal in await _seals(erasing, partition):
            slice_id = SliceId(erasing.number, partition, seal.slice)
            await erasing.world.usage.write(await refolded(erasing.world.usage, slice_id, ended))
    await erasing.delete(ended)
    later = erasing.meter(Aggregation.SUM, next(fresh_numbers))
    await erasing.register_later(later)
    worker = erasing.world.worker(erasing.meters)
    await erasing.world.run(worker)
    await erasing.world.fill(worker)
    await worker.close_all()
    maker = erasing.maker()
    while await maker.step():
        pass
    await _settled(erasing)
    worker = erasing.world.worker(erasing.meters)
    await erasing.world.run(worker)
    audited = Audited(erasing.world, erasing.meters, worker)
    for _ in range(2):
        steps = await audited.steps()
        assert [one for step in steps for one in step.findings] == []
        stores = FillStores(erasing.world.usage, erasing.world.progress, erasing.number)
        for partition in range(PARTITIONS):
            await filled_up(stores, slept, partition)
    await worker.close_all()


async def _seals(erasing: Erasing, partition: int) -> list[Seal]:
    place = SlicePlace(erasing.number, partition, 0)
    return await SqlEvidence(erasing.world.database).seals(place, AuditSpan(), 1_000)


async def test_a_slice_that_somebody_sealed_is_left_to_him(erasing: Erasing) -> None:
    """A worker that slept has counted it, too; since, its rows became those of a pseudonym."""
    await erasing.send(24)
    worker = erasing.world.worker(erasing.meters)
    await erasing.world.run(worker)
    slept = [it for it in worker.partitions.values() if it.slice is not None]
    assert slept
    erasing.world.folder = erasing.world.folder / "of another"
    await erasing.pass_time()
    await _settled(erasing)
    erasing.seen.clear()
    await erasing.look(thorough=True)
    for partition in slept:
        await worker.seal(partition)
        assert (partition.slice, partition.count_back_tries) == (None, 0)
        assert partition.seen.applied == partition.sealed_end
    erasing.read()
    await erasing.look(thorough=True)
    await worker.close_all()


async def test_of_a_store_that_is_counted_anew_it_is_erased_again(erasing: Erasing) -> None:
    await _filled(erasing)
    settled = await _settled(erasing)
    ledger = SqlSealLedger(erasing.world.database)
    await ledger.bind("one")
    await ledger.bind("another", "one")
    again = await erasing.erasure(settled.id)
    assert (again.state, again.ends) == (ErasureState.ASKED, settled.ends)
