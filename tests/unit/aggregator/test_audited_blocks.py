"""The audit of blocks over real embedded stores: every touch is named, and repair has them made
again.
"""

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
)
from functools import partial

import pytest

from aggregator.blocks import BlockMaker
from meterline.audit import AuditSpan, AuditStep, BlockPlace, Finding, encode_place
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database, insert
from meterline.backends.control_store.progress.blocks import SqlBlockLedger
from meterline.backends.control_store.tables.meters import logs
from meterline.limits import SLICE_SPAN_MS
from meterline.meter import Aggregation
from meterline.usage import Block, BlockState
from tests.unit.aggregator.audited import Audited, tally_changed
from tests.unit.aggregator.test_blocks import Blocks
from tests.unit.aggregator.world import PARTITIONS, Meters, World

TOUCHES = {
    "a sum of hours": ("hours", "UPDATE total = total + 1"),
    "a minimum, which weights do not have": ("hours", "UPDATE minimum = minimum - 1"),
    "the newest value of a day": ("days", "UPDATE latest = latest + 1"),
    "an hour of one order": ("hours_by_subject", "UPDATE maximum = maximum + 1"),
    "a day of all subjects": ("days_of_all", "UPDATE minimum = minimum - 1"),
    "distinct values are lost": ("member_days", "DELETE"),
    "what one number lacks another one has": (
        "days_by_subject",
        "UPDATE counted = 0, rejected = counted",
    ),
}


class Summed:
    """A world with blocks of two meters, and who audits it."""

    def __init__(self, audited: Audited, blocks: Blocks, maker: BlockMaker) -> None:
        self.audited = audited
        self.blocks = blocks
        self.maker = maker

    async def readable(self) -> list[Block]:
        return [it for it in await self.blocks.there() if it.state is BlockState.READABLE]

    async def steps(self, span: AuditSpan | None = None) -> list[AuditStep]:
        return await self.audited.steps(span)

    async def found(self, span: AuditSpan | None = None) -> list[Finding]:
        return [one for step in await self.steps(span) for one in step.findings]

    async def found_in_blocks(self, span: AuditSpan | None = None) -> list[Finding]:
        """Slices are audited before, and take longer."""
        first = BlockPlace(self.blocks.world.log.number, 0)
        steps = await self.audited.steps(span, begin=encode_place(first))
        return [one for step in steps for one in step.findings]

    async def make(self) -> None:
        while await self.maker.step():
            pass


@pytest.fixture
async def summed(world: World, fresh_numbers: Iterator[int]) -> AsyncIterator[Summed]:
    async def register(connection: Connection) -> None:
        row = {"number": world.log.number, "id": world.log.id, "partitions": PARTITIONS}
        await connection.execute(insert(connection, logs).values(row))

    await world.database.write(register)
    meters = Meters(0)
    for aggregation in (Aggregation.SUM, Aggregation.UNIQUE_COUNT):
        meters.add(aggregation, next(fresh_numbers))
    blocks = Blocks(world, meters)
    worker = world.worker(meters)
    summed = Summed(Audited(world, meters, worker), blocks, blocks.maker())
    for _ in range(3):
        await blocks.seal()
        await summed.make()
    await world.run(worker)
    yield summed
    await worker.close_all()


async def test_blocks_that_nobody_touched_are_clean(summed: Summed) -> None:
    there = await summed.readable()
    for span in (AuditSpan(), AuditSpan(repair=True)):
        steps = await summed.steps(span)
        assert [one for step in steps for one in step.findings] == []
        assert sum(step.blocks for step in steps) == len(there) == 3
    assert await summed.readable() == there


@pytest.mark.parametrize("name", list(TOUCHES))
async def test_every_touch_of_a_block_is_named_and_mended(summed: Summed, name: str) -> None:
    table, change = TOUCHES[name]
    second = (await summed.readable())[1]
    await summed.audited.world.usage.connection.execute(
        f"ALTER TABLE {table} {change} WHERE block = {second.number} SETTINGS mutations_sync = 2"
    )
    (found,) = await summed.found_in_blocks()
    place = f"{second.log}.{second.number}"
    assert (found.table, found.place, found.name) == ("blocks", place, f"rows of {table}")
    assert not found.mended
    (mended,) = await summed.found_in_blocks(AuditSpan(repair=True))
    assert mended.mended
    assert len(await summed.readable()) == 1, "nor is what follows it"
    await summed.make()
    assert len(await summed.readable()) == 2, "all slices behind the first are made one block"
    assert await summed.found() == []
    await summed.blocks.check(summed.audited.meters.meters[0])


async def test_blocks_of_a_slice_that_is_mended_are_made_again(summed: Summed) -> None:
    slice_id = await summed.audited.sealed()
    await tally_changed(summed.audited, slice_id)
    found = await summed.found()
    assert {one.table for one in found} == {"tallies", "blocks"}
    mended = await summed.found(AuditSpan(repair=True))
    assert {(one.table, one.mended) for one in mended} == {("tallies", True)}
    assert await summed.readable() == []
    await summed.make()
    assert await summed.found() == []
    await summed.blocks.check(summed.audited.meters.meters[0])


class MendedMeanwhile(SqlBlockLedger):
    """A slice is mended when a block with it was counted back, and cannot be read yet."""

    def __init__(self, database: Database, mend: Callable[[], Awaitable[object]]) -> None:
        super().__init__(database)
        self._mend = mend

    async def publish(
        self, block: Block, rows: Mapping[str, int], sources: Collection[int], now_ms: int
    ) -> bool:
        """As the ledger does, later."""
        await self._mend()
        return await super().publish(block, rows, sources, now_ms)


async def test_a_block_that_was_being_made_of_a_slice_when_it_was_mended_is_never_read(
    summed: Summed,
) -> None:
    blocks = summed.blocks
    there = [it.number for it in await summed.readable()]
    await blocks.ledger.withdraw(blocks.world.log.number, there, 0)
    await tally_changed(summed.audited, await summed.audited.sealed())
    mend = partial(summed.found, AuditSpan(repair=True))
    blocks.ledger = MendedMeanwhile(blocks.world.database, mend)
    assert not await blocks.maker(seed=1).step()
    assert await summed.readable() == []
    await summed.make()
    assert await summed.found() == []
    await blocks.check(summed.audited.meters.meters[0])


async def test_a_block_with_rows_of_a_slice_as_it_was_before_is_found(summed: Summed) -> None:
    """Somebody changes a slice and what is counted of it; only the blocks still know."""
    for it in await summed.readable():
        await summed.audited.world.usage.connection.execute(
            f"ALTER TABLE days UPDATE counted = counted + 1 WHERE block = {it.number}"
            " SETTINGS mutations_sync = 2"
        )
    found = await summed.found()
    assert [one.place for one in found] == [
        f"{it.log}.{it.number}" for it in await summed.readable()
    ]


async def test_only_blocks_that_may_have_slices_of_a_span_are_recounted(summed: Summed) -> None:
    there = await summed.readable()
    assert 0 < there[1].begin_ms < there[2].begin_ms
    assert sum(step.blocks for step in await summed.steps(AuditSpan(None, there[1].begin_ms))) == 1
    after = AuditSpan(there[1].made_at_ms)
    assert sum(step.blocks for step in await summed.steps(after)) == 1
    later = AuditSpan(there[-1].made_at_ms + SLICE_SPAN_MS)
    assert sum(step.blocks for step in await summed.steps(later)) == 0
