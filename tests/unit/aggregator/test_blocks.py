"""Blocks over real embedded stores: whatever dies or fails, whoever makes them at once, an answer
that is read through them is that of the tallies.
"""

import random
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress

import pytest
from sqlalchemy import update

from aggregator.blocks import BlockMaker
from meterline.backends.clickhouse.blocks.store import ClickHouseBlockRows
from meterline.backends.clickhouse.usage.snapshot import BlockSnapshot
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.progress.blocks import SqlBlockLedger
from meterline.backends.control_store.tables.meters import seals
from meterline.event import identity_key, partition_of
from meterline.limits import BLOCK_FAN, BLOCK_KEPT_MS, BLOCK_MAKING_MS, SLICE_SPAN_MS
from meterline.meter import Aggregation, Meter
from meterline.number import UNIT
from meterline.ports import Unavailable
from meterline.usage import Block, BlockState, Column, Coverage, UsageQuery, columns_of
from tests.unit.aggregator.world import PARTITIONS, Deadly, Killed, Meters, World, numbered

FEW = 3  # blocks become one, where it does not matter how many


class Blocks:
    """The blocks of a world."""

    def __init__(self, world: World, meters: Meters) -> None:
        self.world = world
        self.meters = meters
        self.ledger = SqlBlockLedger(world.database)
        self.rows = ClickHouseBlockRows(world.usage.connection)
        self.sent = 0

    def maker(
        self, fate: Callable[[], str] = lambda: "well", seed: int = 0, fan: int = BLOCK_FAN
    ) -> BlockMaker:
        return BlockMaker(
            self.world.log.number,
            PARTITIONS,
            Deadly(self.ledger, fate),
            Deadly(self.rows, fate),
            self.meters,  # type: ignore[arg-type]
            self.world.clock,
            random.Random(self.world.log.number * 100 + seed),  # one store for all tests
            fan,
        )

    async def seal(self, events: int = 20, *, fill: bool = True, only: int | None = None) -> None:
        """Some more events, in slices that are sealed: of one partition only, where it is named."""
        made = numbered(self.sent, self.sent + events)
        mine = (it for it in made if only in (None, _partition(it[0])))
        await self.world.send(list(mine))
        self.sent += events
        worker = self.world.worker(self.meters)
        await self.world.run(worker, seal=True)
        if fill:
            await self.world.fill(worker)
        await worker.close_all()
        self.world.clock.at_ms += SLICE_SPAN_MS

    async def lose_late_rows(self) -> None:
        """As a build that kept none would have left it."""
        log = self.world.log.number
        await self.world.usage.connection.execute(
            f"ALTER TABLE late_tallies DELETE WHERE log = {log} SETTINGS mutations_sync = 2"
        )

        async def act(connection: Connection) -> None:
            await connection.execute(update(seals).where(seals.c.log == log).values(late=None))

        await self.world.database.write(act)

    async def there(self) -> list[Block]:
        return await self.ledger.blocks(self.world.log.number)

    async def columns(self) -> tuple[Column, ...]:
        return columns_of(await self.there())

    async def check(self, *meters: Meter) -> None:
        """Answers through blocks, as they are now, are right."""
        log = self.world.log.number
        for of in meters:
            self.world.usage.read_blocks(BlockSnapshot(self.ledger, log))
            through = await self.world.usage.usage(UsageQuery(of, group_by=("subject",)))
            self.world.usage.read_blocks(None)
            plain = await self.world.usage.usage(UsageQuery(of, group_by=("subject",)))
            assert through == plain
            assert sum(row.value for row in plain) // UNIT == self.world.expected(of)
        await self.world.check()


def _partition(name: str) -> int:
    return partition_of(identity_key("default", "s", name), PARTITIONS)


@pytest.fixture
async def blocks(world: World) -> Blocks:
    made = Blocks(world, Meters(0))
    await world.progress.register_log("another", PARTITIONS)
    return made


async def test_what_is_sealed_gets_blocks_and_they_are_merged(
    blocks: Blocks, fresh_numbers: Iterator[int]
) -> None:
    meter = blocks.meters.add(Aggregation.SUM, next(fresh_numbers))
    maker = blocks.maker()
    assert not await maker.step(), "nothing is sealed"
    for _ in range(BLOCK_FAN):
        await blocks.seal()
        assert await maker.step()
        await blocks.check(meter)
    assert len(await blocks.columns()) == BLOCK_FAN
    assert await maker.step()
    assert len(await blocks.columns()) == 1
    assert not await maker.step()
    await blocks.check(meter)
    await maker.sweep()
    assert len(await blocks.rows.counts()) >= BLOCK_FAN + 1, "readers may still hold them"
    blocks.world.clock.at_ms += BLOCK_KEPT_MS + 1
    await maker.sweep()
    (left,) = await blocks.there()
    assert left.state is BlockState.READABLE
    await blocks.check(meter)


async def test_a_new_revision_gets_blocks_once_it_is_filled_in(
    blocks: Blocks, fresh_numbers: Iterator[int]
) -> None:
    first = blocks.meters.add(Aggregation.SUM, next(fresh_numbers))
    maker = blocks.maker()
    for _ in range(2):
        await blocks.seal()
        assert await maker.step()
    second = blocks.meters.add(Aggregation.UNIQUE_COUNT, next(fresh_numbers))
    assert not await maker.step(), "it is not counted there yet"
    await blocks.seal()
    while await maker.step():
        pass
    columns = await blocks.columns()
    assert {column.upto for column in columns} == {second.revision}
    assert [len(column.blocks) for column in columns] == [2, 2, 1]
    await blocks.check(first)
    rows = await blocks.world.usage.usage(UsageQuery(second))
    assert rows
    assert rows[0].value


async def test_nothing_is_merged_that_is_not_all_there(
    blocks: Blocks, fresh_numbers: Iterator[int]
) -> None:
    """Of a store that is lost for a while, empty blocks would weigh what their sources weigh."""
    blocks.meters.add(Aggregation.SUM, next(fresh_numbers))
    maker = blocks.maker(fan=FEW)
    for _ in range(FEW):
        await blocks.seal(3)
        assert await maker.step()
    before = await blocks.columns()
    for column in before:
        await blocks.rows.drop([column.blocks[0].number])
    assert not await maker.step()
    assert await blocks.columns() == before


async def test_a_new_revision_gets_no_block_of_slices_that_are_not_there(
    blocks: Blocks, fresh_numbers: Iterator[int]
) -> None:
    blocks.meters.add(Aggregation.SUM, next(fresh_numbers))
    maker = blocks.maker()
    await blocks.seal()
    assert await maker.step()
    second = blocks.meters.add(Aggregation.COUNT, next(fresh_numbers))
    await blocks.seal()
    lost = " SETTINGS mutations_sync = 2"
    for table in ("accounts", "tallies"):
        where = f"log = {blocks.world.log.number}"
        await blocks.world.usage.connection.execute(
            f"ALTER TABLE {table} DELETE WHERE {where}{lost}"
        )
    assert not await maker.step()
    assert all(column.upto < second.revision for column in await blocks.columns())


async def test_a_block_that_lost_rows_is_made_again(
    blocks: Blocks, fresh_numbers: Iterator[int]
) -> None:
    meter = blocks.meters.add(Aggregation.SUM, next(fresh_numbers))
    maker = blocks.maker()
    for _ in range(2):
        await blocks.seal()
        assert await maker.step()
    first, second = [column.blocks[0].number for column in await blocks.columns()]
    await blocks.world.usage.connection.execute(f"ALTER TABLE days DROP PARTITION {second}")
    await maker.sweep()
    assert [column.blocks[0].number for column in await blocks.columns()] == [first]
    while await maker.step():
        pass
    assert len(await blocks.columns()) == 2
    await blocks.check(meter)


async def test_what_was_begun_and_left_is_swept_away(
    blocks: Blocks, fresh_numbers: Iterator[int]
) -> None:
    meter = blocks.meters.add(Aggregation.SUM, next(fresh_numbers))
    await blocks.seal()
    for fates in (["well"] * 4 + ["die after"], ["well"] * 7 + ["die before"]):
        left = iter(fates)
        with suppress(Killed):
            await blocks.maker(lambda left=left: next(left, "well"), seed=len(fates)).step()  # type: ignore[misc]
    begun = {block.number for block in await blocks.there()}
    assert len(begun) == 2
    blocks.world.clock.at_ms += BLOCK_MAKING_MS + 1
    await blocks.maker().sweep()
    assert await blocks.there() == []
    assert not begun & (await blocks.rows.counts()).keys()
    assert await blocks.maker().step()
    await blocks.check(meter)


@pytest.mark.parametrize("seed", [1])
async def test_deaths_doubles_and_failures_change_no_answer(
    blocks: Blocks, fresh_numbers: Iterator[int], seed: int
) -> None:
    rng = random.Random(seed)
    meters = [blocks.meters.add(Aggregation.SUM, next(fresh_numbers))]

    def fate() -> str:
        bad = ("die before", "die after", "fail before", "fail after")
        return rng.choice(bad) if rng.random() < 0.08 else "well"

    makers = [blocks.maker(fate, seed=n) for n in range(2)]
    for _ in range(18):
        match rng.randrange(5):
            case 0 | 1:
                await blocks.seal(rng.randrange(1, 9))
            case 2:
                with suppress(Killed, Unavailable):
                    await rng.choice(makers).sweep()
                blocks.world.clock.at_ms += rng.choice((0, BLOCK_KEPT_MS, BLOCK_MAKING_MS))
            case _:
                with suppress(Killed, Unavailable):
                    await rng.choice(makers).step()
        if len(meters) < 3 and rng.random() < 0.1:
            kind = rng.choice((Aggregation.COUNT, Aggregation.SUM))
            meters.append(blocks.meters.add(kind, next(fresh_numbers)))
            await blocks.seal(1)
        if blocks.sent:
            await blocks.check(*meters)
    maker = blocks.maker()
    await blocks.seal(1)
    while await maker.step():
        pass
    assert {column.upto for column in await blocks.columns()} == {blocks.meters.version}
    await blocks.check(*meters)


async def test_blocks_are_merged_also_where_there_is_always_something_new(
    blocks: Blocks, fresh_numbers: Iterator[int]
) -> None:
    blocks.meters.add(Aggregation.SUM, next(fresh_numbers))
    maker = blocks.maker(fan=2)
    for _ in range(6):
        await blocks.seal(2)
        assert await maker.step()
    assert len(await blocks.columns()) < 6


async def test_a_catalogue_that_lost_a_meter_does_not_keep_columns_apart(
    blocks: Blocks, fresh_numbers: Iterator[int]
) -> None:
    """Each change takes a version, but not each leaves a revision."""
    blocks.meters.add(Aggregation.SUM, next(fresh_numbers))
    maker = blocks.maker(fan=3)
    for _ in range(3):
        await blocks.seal(2)
        while await maker.step():
            pass
        blocks.meters.version = next(fresh_numbers)
    assert len(await blocks.columns()) == 1


async def test_a_meter_that_was_soon_deleted_does_not_keep_columns_apart(
    blocks: Blocks, fresh_numbers: Iterator[int]
) -> None:
    kept = blocks.meters.add(Aggregation.SUM, next(fresh_numbers))
    maker = blocks.maker(fan=2)
    await blocks.seal(2)
    assert await maker.step()
    blocks.meters.add(Aggregation.COUNT, next(fresh_numbers))
    await blocks.seal(2, fill=False)
    assert await maker.step(), "it has the newer meter, and the first block has it not"
    assert len({column.upto for column in await blocks.columns()}) == 2
    blocks.meters.meters.pop()
    newest, blocks.meters.version = blocks.meters.version, 0
    assert not await maker.step(), "a catalogue that lags does not know what must be counted"
    blocks.meters.version = newest
    while await maker.step():
        pass
    assert len(await blocks.columns()) == 1
    await blocks.check(kept)


async def test_what_was_made_in_vain_is_swept_away_soon(
    blocks: Blocks, fresh_numbers: Iterator[int]
) -> None:
    """It is tried again and again: what each try leaves must not pile up for hours."""
    blocks.meters.add(Aggregation.SUM, next(fresh_numbers))
    await blocks.seal()
    await blocks.world.usage.connection.execute(
        f"ALTER TABLE accounts DELETE WHERE log = {blocks.world.log.number}"
        " SETTINGS mutations_sync = 2"
    )
    maker = blocks.maker()
    for _ in range(2):
        assert not await maker.step()
    left = iter(["well"] * 7 + ["fail before"])
    with pytest.raises(Unavailable):
        await blocks.maker(lambda: next(left, "well"), seed=1).step()
    begun = {block.number for block in await blocks.there()}
    assert len(begun) == 3
    await maker.sweep()
    assert await blocks.there() == []
    assert not begun & (await blocks.rows.counts()).keys()


class StandingStill(BlockSnapshot):
    """Its asker knows which blocks to read, stands still, and reads them when they are dropped."""

    def __init__(self, blocks: Blocks, known: Coverage) -> None:
        super().__init__(blocks.ledger, blocks.world.log.number)
        self._blocks = blocks
        self._known = known

    async def coverage(self, revisions: Collection[int]) -> Coverage:
        """As it was known."""
        del revisions
        for _ in range(2):
            await self._blocks.maker(seed=1).sweep()
            self._blocks.world.clock.at_ms += BLOCK_KEPT_MS + 1
        return self._known


async def test_what_was_read_of_blocks_that_were_dropped_is_not_passed_on(
    blocks: Blocks, fresh_numbers: Iterator[int]
) -> None:
    total = blocks.meters.add(Aggregation.SUM, next(fresh_numbers))
    maker = blocks.maker(fan=FEW)
    for _ in range(FEW):
        await blocks.seal(3)
        assert await maker.step()
    usage, log = blocks.world.usage, blocks.world.log.number
    known = await BlockSnapshot(blocks.ledger, log).coverage({total.revision})
    assert await maker.step(), "all become one"
    usage.read_blocks(StandingStill(blocks, known))
    with pytest.raises(Unavailable, match="replaced, or minutes dropped, while they were read"):
        await usage.usage(UsageQuery(total))
    usage.read_blocks(None)
    await blocks.check(total)
