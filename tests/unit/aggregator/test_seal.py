"""What a seal says of its slice, when it is set, and what count-back compares."""

from collections.abc import Iterator
from typing import Any

import pytest

from meterline.event import Record, RecordKind, Unreadable, record_digest
from meterline.limits import SLICE_SPAN_MS
from meterline.meter import Aggregation
from meterline.ports import Unavailable
from meterline.usage import Counted, Flush, Seal, SliceId, together
from meterline.usage.row_hash import MODULUS
from tests.unit.aggregator.world import HORIZON_MS, PARTITIONS, Meters, World, numbered


def _amiss(flush: Flush, table: str) -> None:
    """As many rows as ever, and one of them says something else."""
    if table == "tallies":
        flush.tallies[0] = flush.tallies[0]._replace(total=flush.tallies[0].total + 1)
    elif table == "events":
        flush.events[0] = flush.events[0]._replace(append_ms=flush.events[0].append_ms + 1)
    else:
        flush.accounts[0] = flush.accounts[0]._replace(conflict=1)


@pytest.mark.parametrize("table", ["events", "tallies", "accounts"])
async def test_a_store_that_keeps_something_else_is_noticed_before_the_seal(
    world: World, fresh_numbers: Iterator[int], table: str
) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.SUM, next(fresh_numbers))
    await world.send(numbered(0, 20))
    worker = world.worker(meters)
    real = world.usage.write
    done: list[str] = []

    async def wrong(flush: Any) -> None:
        if not done and flush.tallies:
            done.append(table)
            _amiss(flush, table)
        await real(flush)

    world.usage.write = wrong  # type: ignore[method-assign]
    await world.run(worker, seal=True)
    sealed = [await world.progress.last_seal(world.log.number, n) for n in range(PARTITIONS)]
    assert None in sealed
    tries = [partition.count_back_tries for partition in worker.partitions.values()]
    assert sorted(tries) == [0, 1]
    await world.run(worker, seal=True)
    assert [partition.count_back_tries for partition in worker.partitions.values()] == [0, 0]
    await world.check(meter)
    await worker.close_all()


async def test_a_seal_says_what_its_slice_is(world: World, fresh_numbers: Iterator[int]) -> None:
    meters = Meters(0)
    for aggregation in (Aggregation.SUM, Aggregation.UNIQUE_COUNT):
        meters.add(aggregation, next(fresh_numbers))
    await world.send(numbered(0, 40))
    world.clock.at_ms += 1_000
    await world.send(numbered(0, 5))  # copies
    worker = world.worker(meters)
    await world.run(worker, seal=True)
    for number, partition in worker.partitions.items():
        seal = await world.progress.last_seal(world.log.number, number)
        assert seal is not None
        records = await world.log.read(number, 0, 100)
        slice_id = SliceId(seal.log, seal.partition, seal.slice)
        account = await world.usage.account(slice_id)
        assert account is not None
        back = await world.usage.count_back(slice_id, [m.revision for m in meters.meters])
        assert (seal.slice, seal.end) == (0, records[-1].offset + 1)
        assert seal.end == partition.sealed_end == partition.seen.applied
        assert seal.events == account.new < account.received
        assert seal.catalogue == meters.version
        assert seal.append_ms == records[-1].append_ms == world.clock.at_ms
        assert seal.digest == record_digest(records[-1])
        tables = ("rejects", "tallies", "members", "rejected")
        assert seal[8:-1] == tuple(back[table].rows for table in tables)
        assert seal.late == back["late_tallies"].rows + back["late_members"].rows
        assert seal.tallies > seal.members > seal.rejects > seal.rejected == 0
    await worker.close_all()
    worker = world.worker(meters)
    assert (await worker.open(0)).append_ms == world.clock.at_ms, "where it stood is kept"
    await worker.close_all()


async def test_verdicts_are_the_seen_stores_only_when_the_seal_is_set(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meters.add(Aggregation.SUM, next(fresh_numbers))
    await world.send(numbered(0, 20))
    worker = world.worker(meters)
    await world.run(worker)
    partition = worker.partitions[0]
    real = world.progress.seal

    async def away(seal: Seal) -> None:  # noqa: ARG001
        raise Unavailable("away")

    world.progress.seal = away  # type: ignore[method-assign]
    with pytest.raises(Unavailable):
        await worker.seal(partition)
    assert partition.ended is not None
    assert (partition.seen.applied, partition.sealed_end) == (0, 0)
    world.progress.seal = real  # type: ignore[method-assign]
    await worker.seal(partition)
    assert partition.seen.applied == partition.sealed_end == partition.next_offset
    await worker.close_all()


async def test_a_log_whose_clock_steps_back_opens_no_slice(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meters.add(Aggregation.SUM, next(fresh_numbers))
    worker = world.worker(meters)
    partition = await worker.open(0)

    def at(offset: int, append_ms: int) -> Record:
        return Record(0, offset, append_ms, RecordKind.PACK, b"", "log")

    # nothing readable, but an event each: an empty record would end its slice
    items = [Unreadable(0, "data", "is broken", b"x")]
    partition.absorb(at(0, 9 * SLICE_SPAN_MS), items, {}, HORIZON_MS)
    back = at(1, 8 * SLICE_SPAN_MS)
    assert not partition.closes_with(back, items)
    partition.absorb(back, items, {}, HORIZON_MS)
    assert partition.append_ms == 9 * SLICE_SPAN_MS
    assert partition.closes_with(at(2, 10 * SLICE_SPAN_MS), items)
    partition.drop_slice()
    assert partition.append_ms == 0, "it is read again as it was"
    await worker.close_all()


def test_hashes_of_rows_written_in_parts_stay_within_what_a_store_says() -> None:
    assert together(Counted(1, MODULUS - 1), Counted(2, 2)) == Counted(3, 1)
