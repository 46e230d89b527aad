"""A world in which rows of revisions are dropped, and somebody looks at every step."""

import random
from collections.abc import Callable
from typing import Final

from sqlalchemy import func, select, update

from aggregator.blocks import BlockMaker
from aggregator.dropped_revisions import PORTIONS, DroppedRevisions, RevisionStores
from aggregator.step import Aggregator
from meterline.backends.clickhouse.blocks.dropped_revisions import TABLES, ClickHouseRevisionRows
from meterline.backends.clickhouse.blocks.store import ClickHouseBlockRows
from meterline.backends.clickhouse.usage.snapshot import BlockSnapshot
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import insert
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.meters.revisions import SqlRevisionStore
from meterline.backends.control_store.progress.blocks import SqlBlockLedger
from meterline.backends.control_store.progress.dropped_revisions import SqlRevisionLedger
from meterline.backends.control_store.progress.erasures import SqlErasureStore
from meterline.backends.control_store.progress.retention import SqlRetention
from meterline.backends.control_store.tables.meters import (
    catalogue_version,
    logs,
    seal_sums,
    seals,
)
from meterline.event import encode_pack
from meterline.limits import RETENTION_NOTICE_MS, SLICE_SPAN_MS
from meterline.meter import Aggregation, Meter, MeterChange, MeterDraft
from meterline.number import UNIT
from meterline.usage import Masks, RevisionNotice, Unsealed, UsageQuery
from meterline.window import DAY_MS
from tests.unit.aggregator.erasing import Looking, Watched
from tests.unit.aggregator.world import PARTITIONS, World, numbered

KEPT_MS: Final = 400 * DAY_MS
DAY_FROM_MS: Final = 1_767_225_600_000  # 2026-01-01, of which all events are
NUMBERS: Final = 40  # of revisions that a world may make
_SUMS: Final = ("tallies", "members", "rejected")


class Dropping:
    """A world with a meter that changed: one of its revisions is superseded, one discarded."""

    def __init__(self, world: World, base: int) -> None:
        self.world, self.base = world, base
        self.number = world.log.number
        self.catalogue = SqlCatalogueStore(world.database)
        self.revisions = SqlRevisionStore(world.database)
        self.ledger = SqlRevisionLedger(world.database)
        self.rows = ClickHouseRevisionRows(world.usage.connection)
        self.unsealed = Unsealed(self.ledger)
        self.erasures = SqlErasureStore(world.database)
        self.chance = random.Random(base)  # of numbers of blocks
        self.sent = 0
        self.looks = 0
        self.watched = False
        self.looking = Looking(self.watch)
        self.portions = PORTIONS
        self.masks: Masks | None = None  # where somebody is erased
        self.read()

    def read(self) -> None:
        """Answers are read through blocks as they are now."""
        self.looking.changed = True
        self.world.usage.read_blocks(
            BlockSnapshot(SqlBlockLedger(self.world.database), self.number, self.masks)
        )

    async def begin(self) -> None:
        """Two meters; their revisions have numbers from `base` on."""

        async def act(connection: Connection) -> None:
            await connection.execute(update(catalogue_version).values(version=self.base))
            row = {"number": self.number, "id": self.world.log.id, "partitions": PARTITIONS}
            await connection.execute(insert(connection, logs).values(row))

        await self.world.database.write(act)
        for key, aggregation in (("sum", Aggregation.SUM), ("who", Aggregation.UNIQUE_COUNT)):
            draft = MeterDraft(key, key, aggregation, "t", "$.v")
            await self.catalogue.create_meter("default", draft, 0)

    async def change(self, key: str, path: str) -> int:
        """Another definition takes over for all times; the revision that is superseded."""
        before = await self.meter(key)
        await self.close_slices()
        change = MeterChange(value_property=path)
        await self.catalogue.update_meter("default", key, change, self.now_ms)
        await self.count()
        (number,) = await self.catalogue.filling()
        assert await self.catalogue.switch_filled(number, self.now_ms) is not None
        return before.revision

    async def discarded(self, key: str) -> int:
        """A revision that was filled in and given up."""
        change = MeterChange(value_property="$.not_there")
        made = await self.revisions.propose("default", key, change, self.now_ms)
        await self.count()
        await self.send(6)
        await self.close_slices()
        await self.revisions.discard("default", key, made.number, self.now_ms)
        return made.number

    async def meter(self, key: str) -> Meter:
        found = await self.catalogue.meter("default", key)
        assert found is not None
        return found

    @property
    def now_ms(self) -> int:
        return self.world.clock.now_ms()

    async def send(self, count: int) -> None:
        """Events, and the end of the slice that they are in."""
        await self.world.send(numbered(self.sent, self.sent + count))
        self.sent += count
        await self.count()
        self.world.clock.at_ms += SLICE_SPAN_MS
        self.read()

    async def close_slices(self) -> None:
        """What is counted is sealed, by the meters of now."""
        for partition in range(PARTITIONS):
            await self.world.log.append(partition, encode_pack([]))
        await self.count()

    async def count(self) -> None:
        """Everything in the log is counted, as far as slices have ended, and filled in."""
        worker = self.worker()
        await self.world.run(worker)
        await self.world.fill(worker)
        await worker.close_all()

    def worker(self) -> Aggregator:
        return self.world.worker(self.catalogue)  # type: ignore[arg-type]

    async def grow_old(self, ms: int = KEPT_MS) -> None:
        """Time passes, and events come again."""
        self.world.clock.at_ms += ms
        for _ in range(2):
            await self.send(4)

    def dropper(self, fate: Callable[[], str] = lambda: "well") -> DroppedRevisions:
        looked = self.looking
        database = self.world.database
        stores = RevisionStores(
            Watched(self.ledger, fate, looked),
            Watched(SqlRetention(database), fate, looked),
            Watched(self.erasures, fate, looked),
            Watched(self.rows, fate, looked),
            Watched(SqlBlockLedger(database), fate, looked),
            Watched(self.block_rows(), fate, looked),
        )
        return DroppedRevisions(
            stores, self.number, KEPT_MS, self.world.clock, self.chance, portions=self.portions
        )

    def block_rows(self) -> ClickHouseBlockRows:
        return ClickHouseBlockRows(self.world.usage.connection, unsealed=self.unsealed)

    def maker(self, fate: Callable[[], str] = lambda: "well") -> BlockMaker:
        return BlockMaker(
            self.number, PARTITIONS,
            Watched(SqlBlockLedger(self.world.database), fate, self.looking),
            Watched(self.block_rows(), fate, self.looking), self.catalogue,
            self.world.clock, self.chance, 3,
        )  # fmt: skip

    async def blocks(self) -> None:
        """Everything that is sealed has its block."""
        maker = self.maker()
        while await maker.step():
            pass
        self.read()

    async def drop(self) -> None:
        """All that is due, with the days in between."""
        for _ in range(3):
            while await self.dropper().step():
                pass
            await self.sweep()
            self.world.clock.at_ms += RETENTION_NOTICE_MS
            self.read()

    async def sweep(self) -> None:
        """Blocks that nobody reads any more are gone."""
        await self.maker().sweep()

    # --- what holds at every step ---

    async def watch(self) -> None:
        """A look, where somebody looks at every step."""
        if self.watched:
            await self.look()

    async def look(self) -> None:
        """Every total is that of all events, and no seal tells of a row that is not there."""
        self.looks += 1
        values = [value for _, value in numbered(0, self.sent)]
        for key, expected in (("sum", sum(values)), ("who", len(set(values)))):
            query = UsageQuery(await self.meter(key), DAY_FROM_MS, DAY_FROM_MS + DAY_MS)
            rows = await self.world.usage.usage(query)
            assert sum(row.value for row in rows) // UNIT == expected, key
        need = await self.sealed()
        there = await self.stored()
        assert all(there[table] >= need[table] for table in _SUMS), (need, there)

    async def sealed(self) -> dict[str, int]:
        """The rows that seals and their sums tell of."""

        async def act(connection: Connection) -> dict[str, int]:
            found = dict.fromkeys(_SUMS, 0)
            for table in (seals, seal_sums):
                sums = [func.coalesce(func.sum(table.c[name]), 0) for name in _SUMS]
                row = (await connection.execute(select(*sums))).one()
                for name, count in zip(_SUMS, row, strict=True):
                    found[name] += int(count)
            return found

        return await self.world.database.read(act)

    async def stored(self, revision: int | None = None) -> dict[str, int]:
        """The rows of slices, by table."""
        where = f"log = {self.number}" + (f" AND revision = {revision}" if revision else "")
        parts = [f"SELECT '{table}', count() FROM {table} FINAL WHERE {where}" for table in TABLES]
        found = await self.world.usage.connection.query(" UNION ALL ".join(parts), {})
        return {str(table): int(count) for table, count in found}

    async def left_of(self, revisions: list[int]) -> int:
        """All rows of some revisions, in slices and blocks."""
        rows = sum([sum((await self.stored(number)).values()) for number in revisions])
        return rows + len(await self.rows.blocks_with(revisions))

    async def notice(self, revision: int) -> RevisionNotice | None:
        there = await self.ledger.revision_notices()
        return next((one for one in there if one.revision == revision), None)
