"""Rows of revisions that nothing asks for are dropped, over real embedded stores: whatever dies or
fails, and whoever does it at once, no number of another revision changes at any moment.
"""

import asyncio
import random
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any

import pytest

from aggregator.backfill.fold import refolded
from aggregator.step import Aggregator
from meterline.audit import AuditSpan
from meterline.backends.clickhouse.blocks.dropped_revisions import ClickHouseRevisionRows
from meterline.backends.clickhouse.blocks.store import ClickHouseBlockRows
from meterline.backends.clickhouse.connection import Connection
from meterline.backends.control_store.progress.blocks import SqlBlockLedger
from meterline.backends.control_store.progress.dropped_revisions import SqlRevisionLedger
from meterline.backends.rocksdb import RocksSeenStore
from meterline.limits import BLOCK_KEPT_MS, BLOCK_MAKING_MS, RETENTION_NOTICE_MS
from meterline.ports import OutdatedMeters, Unavailable
from meterline.usage import Block, Flush, RevisionNotice, Seal, SliceId, SliceRows, columns_of
from tests.unit.aggregator.audited import Audited
from tests.unit.aggregator.dropping import NUMBERS, Dropping
from tests.unit.aggregator.world import HORIZON_MS, Killed, World


@pytest.fixture
async def dropping(world: World, fresh_numbers: Iterator[int]) -> AsyncIterator[Dropping]:
    base, *_ = [next(fresh_numbers) for _ in range(NUMBERS)]
    made = Dropping(world, base)
    await made.begin()
    yield made
    world.usage.read_blocks(None)


async def _ended(dropping: Dropping) -> list[int]:
    """Revisions that ended long ago: some of their rows are in blocks, some are not."""
    await dropping.send(12)
    await dropping.send(12)
    await dropping.blocks()
    gone = [await dropping.change("sum", "$['v']"), await dropping.change("who", "$['v']")]
    await dropping.send(6)
    gone.append(await dropping.discarded("sum"))
    await dropping.blocks()
    await dropping.send(8)
    await dropping.look()
    assert await dropping.left_of(gone)
    return gone


async def test_rows_leave_slices_and_blocks_and_all_others_stay(dropping: Dropping) -> None:
    gone = await _ended(dropping)
    dropping.watched = True
    assert not await dropping.dropper().step(), "they ended a moment ago"
    assert await dropping.ledger.revision_notices() == []
    await dropping.grow_old()
    before = await dropping.sealed()
    await dropping.drop()
    assert await dropping.left_of(gone) > 0, "replaced blocks are read for a while"
    dropping.world.clock.at_ms += BLOCK_KEPT_MS + BLOCK_MAKING_MS
    dropping.read()
    await dropping.sweep()
    await dropping.dropper().step()
    assert await dropping.left_of(gone) == 0
    for number in gone:
        notice = await dropping.notice(number)
        assert notice is not None
        assert notice.dropped_at_ms is not None
    need, there = await dropping.sealed(), await dropping.stored()
    assert need["tallies"] < before["tallies"]
    assert need["members"] < before["members"]
    kept = [(await dropping.meter(key)).revision for key in ("sum", "who")]
    own = [await dropping.stored(number) for number in kept]
    assert there["tallies"] == sum(one["tallies"] for one in own)
    await dropping.look()
    assert dropping.looks > 20


async def test_the_days_between_notice_seals_and_rows(dropping: Dropping) -> None:
    """Copies of both stores that are made within a day agree."""
    gone = await _ended(dropping)
    await dropping.grow_old()
    before = await dropping.sealed(), await dropping.stored()
    assert not await dropping.dropper().step(), "a notice, and nothing else"
    assert [one.revision for one in await dropping.ledger.revision_notices()] == gone
    assert (await dropping.sealed(), await dropping.stored()) == before
    dropping.world.clock.at_ms += RETENTION_NOTICE_MS
    while await dropping.dropper().step():
        pass
    assert await dropping.stored() == before[1]
    assert (await dropping.sealed())["tallies"] < before[0]["tallies"]
    assert await dropping.unsealed.revisions() == tuple(gone)
    dropping.world.clock.at_ms += RETENTION_NOTICE_MS - 1
    assert not await dropping.dropper().step()
    assert await dropping.stored() == before[1]
    dropping.world.clock.at_ms += 1
    assert await dropping.dropper().step()
    assert (await dropping.stored(gone[0]))["tallies"] == 0


async def test_seals_tell_of_just_the_rows_that_are_kept(dropping: Dropping) -> None:
    """What was filled in later was never told of, so it is not taken away."""
    gone = await _ended(dropping)
    await dropping.grow_old()
    await dropping.drop()
    kept = [(await dropping.meter(key)).revision for key in ("sum", "who")]
    there = 0
    for seal in await _seals(dropping):
        for revision in kept:
            where = f"slice = {seal.slice} AND partition = {seal.partition}"
            sql = (
                f"SELECT count() FROM tallies FINAL WHERE log = {dropping.number} AND {where}"
                f" AND revision = {revision}"
            )
            ((count,),) = await dropping.world.usage.connection.query(sql, {})
            there += count if seal.catalogue >= revision else 0
    assert (await dropping.sealed())["tallies"] == there
    assert gone


async def _seals(dropping: Dropping) -> list[Seal]:
    ledger = SqlBlockLedger(dropping.world.database)
    return [
        seal
        for partition in range(2)
        for seal in await ledger.sealed_after(dropping.number, partition, 0, 1_000)
    ]


@pytest.mark.long  # minutes, with both cores busy
@pytest.mark.parametrize("seed", [1])
async def test_whatever_dies_and_whoever_drops_numbers_never_change(
    dropping: Dropping, seed: int
) -> None:
    """Two drop at once, one makes blocks; all of them die or fail anywhere, and in the end none
    does. Events go on coming.
    """
    chance = random.Random(seed)
    gone = await _ended(dropping)
    dropping.watched = True
    await dropping.grow_old()
    for turn in range(14):
        fate = _fates(chance, 0.2 if turn < 9 else 0)
        await _at_once(
            dropping.dropper(fate).step(),
            dropping.dropper(fate).step(),
            dropping.maker(fate).step(),
        )
        if chance.random() < 0.2:
            dropping.world.clock.at_ms += chance.choice((1, RETENTION_NOTICE_MS, BLOCK_MAKING_MS))
            await dropping.send(4)
            await dropping.sweep()
        dropping.read()
        await dropping.look()
    await dropping.drop()
    dropping.world.clock.at_ms += BLOCK_KEPT_MS + BLOCK_MAKING_MS + RETENTION_NOTICE_MS
    dropping.read()
    await dropping.drop()
    assert await dropping.left_of(gone) == 0
    await dropping.look()


def _fates(chance: random.Random, share: float) -> Any:
    def fate() -> str:
        if chance.random() >= share:
            return "well"
        return chance.choice(["die before", "die after", "fail before", "fail after"])

    return fate


async def _at_once(*steps: Coroutine[Any, Any, object]) -> None:
    """All of them; deaths and failures are theirs, what somebody saw is not."""
    for result in await asyncio.gather(*steps, return_exceptions=True):
        if isinstance(result, BaseException) and not isinstance(result, Killed | Unavailable):
            raise result


class Unlessened(SqlRevisionLedger):
    """Says that seals are lessened, and leaves them."""

    async def lessen(self, notice: RevisionNotice, rows: Sequence[SliceRows], now_ms: int) -> bool:
        mine = [it for it in await self.revision_notices() if it.revision == notice.revision]
        return bool(rows) or await super().lessen(mine[0], (), now_ms)


async def test_without_seals_that_tell_of_less_the_stores_disagree(dropping: Dropping) -> None:
    """The control: what the others look at would be wrong without that step."""
    await _ended(dropping)
    await dropping.grow_old()
    dropping.ledger = Unlessened(dropping.world.database)
    dropping.watched = True
    with pytest.raises(AssertionError):
        await dropping.drop()


async def test_rows_that_come_back_count_nowhere_and_go_again(dropping: Dropping) -> None:
    """A worker that slept writes what it had; it cannot seal it."""
    meter = await dropping.meter("sum")
    gone = await _ended(dropping)
    slices = [SliceId(seal.log, seal.partition, seal.slice) for seal in await _seals(dropping)]
    slept = [await refolded(dropping.world.usage, it, meter) for it in slices]
    await dropping.grow_old()
    await dropping.drop()
    for flush in slept:
        await dropping.world.usage.write(Flush(tallies=flush.tallies))
    assert await dropping.left_of(gone) > 0
    await dropping.look()
    await dropping.blocks()
    await dropping.look()
    dropping.world.clock.at_ms += BLOCK_KEPT_MS + BLOCK_MAKING_MS
    await dropping.drop()
    assert await dropping.left_of(gone) == 0
    seal = (await _seals(dropping))[-1]
    old = seal._replace(catalogue=meter.revision, slice=seal.end, end=seal.end + 1, tallies=99)
    with pytest.raises(Unavailable):
        await dropping.world.progress.seal(old)
    assert (await _seals(dropping))[-1] == seal


async def test_a_worker_that_lags_counts_again_by_newer_meters(dropping: Dropping) -> None:
    """It stood still since before the notice, with a slice that it cannot seal."""
    await dropping.send(6)
    world, folder = dropping.world, dropping.world.folder / "slept"
    slept = Aggregator(
        world.log, world.usage, world.progress, dropping.catalogue,
        lambda number: RocksSeenStore(folder / str(number), HORIZON_MS), HORIZON_MS,
    )  # fmt: skip
    await world.run(slept)
    version = slept.catalogue.version
    await dropping.change("sum", "$['v']")
    await dropping.grow_old()
    await dropping.drop()
    with pytest.raises(OutdatedMeters):
        await world.run(slept)
    while await slept.read_ahead():
        pass  # beside counting, in a worker
    await world.run(slept)
    assert slept.catalogue.version > version
    await slept.close_all()
    await dropping.look()


async def test_blocks_that_are_made_again_are_made_without_them(dropping: Dropping) -> None:
    gone = await _ended(dropping)
    await dropping.grow_old()
    await dropping.drop()
    await dropping.blocks()
    ledger = SqlBlockLedger(dropping.world.database)
    there = await ledger.blocks(dropping.number)
    await ledger.withdraw(dropping.number, [there[0].number], dropping.now_ms)
    await dropping.sweep()
    dropping.read()
    await dropping.look()
    await dropping.blocks()
    assert columns_of(await ledger.blocks(dropping.number)), "seals tell of what there is"
    await dropping.look()
    dropping.world.clock.at_ms += BLOCK_KEPT_MS + BLOCK_MAKING_MS
    await dropping.sweep()
    assert await dropping.left_of(gone) == 0


async def test_an_audit_is_clean_at_each_stage(dropping: Dropping) -> None:
    await _ended(dropping)
    await dropping.grow_old()
    for _ in range(4):
        worker = dropping.worker()
        await dropping.world.run(worker)
        audited = Audited(dropping.world, dropping.catalogue, worker, dropping.block_rows())  # type: ignore[arg-type]
        steps = await audited.steps(AuditSpan(payloads=True))
        assert [one for step in steps for one in step.findings] == []
        assert sum(step.blocks for step in steps)
        await worker.close_all()
        while await dropping.dropper().step():
            pass
        dropping.world.clock.at_ms += RETENTION_NOTICE_MS
        dropping.read()


class Interrupted(ClickHouseBlockRows):
    """After each recount somebody else takes a step."""

    async def recount(self, block: Block) -> Mapping[str, int]:
        found = await super().recount(block)
        await self.meanwhile()
        return found

    meanwhile: Callable[[], Awaitable[object]]


async def test_seals_that_are_lessened_during_an_audit_are_no_difference(
    dropping: Dropping,
) -> None:
    await _ended(dropping)
    await dropping.grow_old()
    assert not await dropping.dropper().step()
    dropping.world.clock.at_ms += RETENTION_NOTICE_MS
    rows = Interrupted(dropping.world.usage.connection, unsealed=dropping.unsealed)
    rows.meanwhile = dropping.dropper().step
    worker = dropping.worker()
    await dropping.world.run(worker)
    audited = Audited(dropping.world, dropping.catalogue, worker, rows)  # type: ignore[arg-type]
    steps = await audited.steps(AuditSpan())
    assert [one for step in steps for one in step.findings if one.table == "blocks"] == []
    assert await dropping.unsealed.revisions()
    await worker.close_all()


class Counted(ClickHouseRevisionRows):
    """Counts how often rows of a revision are read."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.reads: Counter[int] = Counter()

    async def rows_by_slice(self, revision: int, after: SliceId, limit: int) -> list[SliceRows]:
        self.reads[revision] += 1
        return await super().rows_by_slice(revision, after, limit)


async def test_rows_of_a_revision_are_read_once_however_many_seals_tell_of_them(
    dropping: Dropping,
) -> None:
    dropping.portions = (100, 2)
    gone = await _ended(dropping)
    await dropping.grow_old()
    dropping.watched = True
    dropping.rows = rows = Counted(dropping.world.usage.connection)
    slices = {number: await rows.rows_by_slice(number, SliceId(0, 0, 0), 100) for number in gone}
    assert min(map(len, slices.values())) > 2
    rows.reads.clear()
    await dropping.drop()
    assert rows.reads == dict.fromkeys(gone, 1)
    assert await dropping.unsealed.revisions() == tuple(gone)
    assert sum((await dropping.stored(gone[0])).values()) == 0


async def test_nothing_goes_while_a_subject_is_being_erased(dropping: Dropping) -> None:
    await _ended(dropping)
    await dropping.grow_old()
    await dropping.erasures.ask("default", "s1", dropping.now_ms)
    assert not await dropping.dropper().step()
    assert await dropping.ledger.revision_notices() == []
