"""Contract of `RevisionRows`, over chDB and a ClickHouse server; and blocks without revisions that
are not kept.
"""

from collections.abc import Iterator

import pytest

from meterline.backends.clickhouse.blocks.dropped_revisions import TABLES, ClickHouseRevisionRows
from meterline.backends.clickhouse.blocks.store import ClickHouseBlockRows
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.limits import REVISIONS_DROPPED_MAX
from meterline.usage import Block, SliceId, SliceRows, Unsealed, differences
from tests.contract.usage.test_block_rows import SLICES, World

_START = SliceId(0, 0, 0)


class Fixed(Unsealed):
    """Says what it is told."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers

    async def revisions(self) -> tuple[int, ...]:
        return self.numbers


@pytest.fixture
def rows(usage_store: ClickHouseUsageStore) -> ClickHouseRevisionRows:
    return ClickHouseRevisionRows(usage_store.connection)


@pytest.fixture
def world(fresh_numbers: Iterator[int]) -> World:
    return World(fresh_numbers)


async def _counts(store: ClickHouseUsageStore, log: int) -> dict[tuple[str, int], int]:
    parts = [
        f"SELECT '{table}', revision, count() FROM {table} FINAL WHERE log = {log}"
        " GROUP BY revision"
        for table in TABLES
    ]
    found = await store.connection.query(" UNION ALL ".join(parts), {})
    return {(table, revision): count for table, revision, count in found}


async def test_rows_are_counted_slice_by_slice(
    usage_store: ClickHouseUsageStore, rows: ClickHouseRevisionRows, world: World
) -> None:
    await world.write(usage_store)
    await world.write(usage_store)  # whoever does it twice changes nothing
    made = {
        (partition, at * 10): world.slice(at, partition, world.meters).take()
        for at in range(SLICES)
        for partition in range(2)
    }
    for meter in world.meters:
        expected = [
            SliceRows(
                world.log, partition, slice_,
                *(
                    sum(row.revision == meter.revision for row in of_table)
                    for of_table in (flush.tallies, flush.members, flush.rejected)
                ),
            )
            for (partition, slice_), flush in sorted(made.items())
        ]  # fmt: skip
        found = await rows.rows_by_slice(meter.revision, _START, 100)
        assert found == expected
        assert sum(one.tallies for one in found)
        some = await rows.rows_by_slice(meter.revision, _START, 3)
        assert some == expected[:3]
        behind = SliceId(*some[-1][:3])
        assert await rows.rows_by_slice(meter.revision, behind, 100) == expected[3:]
    assert await rows.rows_by_slice(next(world.numbers), _START, 100) == []


async def test_rows_of_a_revision_go_and_all_others_stay(
    usage_store: ClickHouseUsageStore, rows: ClickHouseRevisionRows, world: World
) -> None:
    await world.write(usage_store)
    gone, kept = (meter.revision for meter in world.meters)
    before = await _counts(usage_store, world.log)
    assert {table for table, revision in before if revision == kept} >= {"tallies", "members"}
    assert await rows.delete_rows([gone])
    after = await _counts(usage_store, world.log)
    assert after == {key: count for key, count in before.items() if key[1] == kept}
    assert not await rows.delete_rows([gone]), "nothing is left"
    await world.write(usage_store)
    assert await rows.delete_rows([gone]), "and what comes back goes again"
    assert await _counts(usage_store, world.log) == after


async def test_blocks_are_made_without_what_is_not_kept(
    usage_store: ClickHouseUsageStore, rows: ClickHouseRevisionRows, world: World
) -> None:
    """Of slices and of blocks, whether its rows are still there or not; and counted back."""
    await world.write(usage_store)
    gone, kept = (meter.revision for meter in world.meters)
    whole = ClickHouseBlockRows(usage_store.connection)
    without = ClickHouseBlockRows(usage_store.connection, unsealed=Fixed(gone))
    old = [world.block(0, 2), world.block(2, SLICES)]
    for block in old:
        await whole.make(block, ())
    assert await rows.blocks_with([gone]) == {block.number for block in old}
    merged, made, again = (world.block(0, SLICES) for _ in range(3))
    sources = tuple(block.number for block in old)
    await _counted_back(without, merged, sources)
    await _counted_back(without, made, ())
    due = await without.due(made, ())
    assert await rows.delete_rows([gone])
    assert await without.due(made, ()) == due, "it is made of the same rows"
    await _counted_back(without, again, ())
    assert await rows.blocks_with([gone]) == {block.number for block in old}
    assert set(await rows.blocks_with([kept])) >= {merged.number, made.number}
    assert await without.held(merged.number) == await without.held(made.number)
    assert await without.held(merged.number) == await without.held(again.number)
    assert await without.recount(again) == {
        table: one.digest for table, one in (await without.held(again.number)).items()
    }


async def test_a_block_that_has_its_rows_still_is_not_wrong(
    usage_store: ClickHouseUsageStore, world: World
) -> None:
    """Its rows are all counted, for they are there; what they say of others is compared."""
    await world.write(usage_store)
    gone = world.meters[0].revision
    block = world.block(0, SLICES)
    whole = ClickHouseBlockRows(usage_store.connection)
    await whole.make(block, ())
    without = ClickHouseBlockRows(usage_store.connection, unsealed=Fixed(gone))
    held = await without.held(block.number)
    rows = {table: one.rows for table, one in (await whole.held(block.number)).items()}
    assert {table: one.rows for table, one in held.items()} == rows
    assert await without.recount(block) == {table: one.digest for table, one in held.items()}


async def _counted_back(rows: ClickHouseBlockRows, block: Block, sources: tuple[int, ...]) -> None:
    await rows.make(block, sources)
    due, held = await rows.due(block, sources), await rows.held(block.number)
    assert differences(due, held) == []
    assert held["member_hours"].rows


async def test_all_revisions_that_may_be_dropped_fit_into_a_statement(
    usage_store: ClickHouseUsageStore, world: World
) -> None:
    """Revisions may be dropped for years: blocks are made, merged and counted back as before."""
    await world.write(usage_store)
    many = Fixed(*range(4_000_000_000, 4_000_000_000 + REVISIONS_DROPPED_MAX))
    without = ClickHouseBlockRows(usage_store.connection, unsealed=many)
    made, merged = world.block(0, SLICES), world.block(0, SLICES)
    await _counted_back(without, made, ())
    await _counted_back(without, merged, (made.number,))
    plain = ClickHouseBlockRows(usage_store.connection)
    assert await without.held(merged.number) == await plain.held(made.number)
    assert await without.recount(merged) == await plain.recount(made)
