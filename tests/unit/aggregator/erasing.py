"""A world in which a subject is erased, and somebody looks at every step."""

import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec
from sqlalchemy import update

from aggregator.blocks import BlockMaker
from aggregator.erasure import ErasedStores, Eraser
from meterline.backends.clickhouse.blocks.erasure import ClickHouseErasedRows
from meterline.backends.clickhouse.blocks.store import ClickHouseBlockRows
from meterline.backends.clickhouse.usage.snapshot import BlockSnapshot
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import insert
from meterline.backends.control_store.progress.blocks import SqlBlockLedger
from meterline.backends.control_store.progress.erasures import SqlErasureStore
from meterline.backends.control_store.tables.meters import logs, meter_revisions
from meterline.backends.control_store.tables.meters import meters as meters_table
from meterline.event import encode_pack, identity_key, partition_of
from meterline.limits import (
    SLICE_SPAN_MS,
)
from meterline.meter import Aggregation, Meter
from meterline.number import UNIT
from meterline.ports import Unavailable
from meterline.usage import (
    Erasure,
    Masks,
    UsageQuery,
)
from tests.unit.aggregator.world import PARTITIONS, Killed, Meters, World

AGGREGATIONS = (Aggregation.SUM, Aggregation.UNIQUE_COUNT)
RETENTION_MS = 3_600_000
TEXT_COLUMNS = (
    "SELECT table, name FROM system.columns"
    " WHERE database = currentDatabase() AND type LIKE '%String%'"
)


# What changes no store, of the ports that are watched.
READS: Final = frozenset(
    (
        *("blocks", "events_within", "lacking", "late_kept_from", "numbers", "sealed_after"),
        *("counts", "due", "held"),
        *("blocks_with", "refusals_of", "rows_by_slice"),
        *("redriven", "revision_notices", "sealed_ends", "unfilled", "unfinished"),
    )
)


class Looking:
    """Somebody who looks after each call, unless nothing can have changed since the last look."""

    def __init__(self, look: Callable[[], Awaitable[None]]) -> None:
        self._look = look
        self._changing = 0
        self.changed = True

    @contextmanager
    def during(self, name: str) -> Iterator[None]:
        """A call is under way; also one that fails may have changed something."""
        changes = name not in READS
        self._changing += changes
        self.changed |= changes
        try:
            yield
        finally:
            self._changing -= changes

    async def __call__(self) -> None:
        """A call has ended."""
        if self.changed or self._changing:
            self.changed = False
            await self._look()


class Watched:
    """A port of which each call may die or fail, and before and after which somebody looks."""

    def __init__(self, port: Any, fate: Callable[[], str], looking: Looking) -> None:
        self._port, self._fate, self._looking = port, fate, looking

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._port, name)
        if not callable(real):
            return real

        async def call(*args: Any, **named: Any) -> Any:
            fate = self._fate()
            _suffer(fate, "before")
            with self._looking.during(name):
                answer = await real(*args, **named)
            await self._looking()
            _suffer(fate, "after")
            return answer

        return call


def _suffer(fate: str, when: str) -> None:
    if fate == f"die {when}":
        raise Killed
    if fate == f"fail {when}":
        raise Unavailable("away")


def eraser_of(
    world: World,
    ledger: SqlErasureStore,
    rows: ClickHouseErasedRows,
    fate: Callable[[], str],
    looking: Looking,
) -> Eraser:
    """One whose every call may die or fail, and before and after which somebody looks."""
    connection = world.usage.connection

    def renewed(erasure: Erasure) -> Any:
        return Watched(ClickHouseBlockRows(connection, erasure=erasure), fate, looking)

    stores = ErasedStores(
        Watched(ledger, fate, looking),
        Watched(rows, fate, looking),
        Watched(SqlBlockLedger(world.database), fate, looking),
        renewed,
        world.log,
        world.log.compact,
        RETENTION_MS,
        world.progress.layout,
    )
    return Eraser(stores, world.clock, random.Random(world.log.number))


class Erasing:
    """A world in which a subject is erased."""

    def __init__(self, world: World, meters: Meters) -> None:
        self.world, self.meters = world, meters
        self.number = world.log.number
        self.namespace = f"n{self.number}"
        self.name = f"alice-{self.number}-who"
        self.secret = f"secret-{self.number}-x"
        self.ledger = SqlErasureStore(world.database)
        self.masks = Masks(self.ledger)
        self.rows = ClickHouseErasedRows(world.usage.connection)
        self.sent: dict[str, tuple[str, int]] = {}
        self.every: list[tuple[str, int]] = []
        self.looks = 0
        self.refused = 0
        self.looking = Looking(self.look)
        self.read()

    def read(self) -> None:
        """Answers are read through blocks and masks, both as they are now."""
        self.looking.changed = True
        snapshot = BlockSnapshot(SqlBlockLedger(self.world.database), self.number, self.masks)
        self.world.usage.read_blocks(snapshot)

    def meter(self, aggregation: Aggregation, revision: int) -> Meter:
        value = None if aggregation is Aggregation.COUNT else "$.v"
        meter = Meter(
            f"m{revision}", revision, self.namespace, f"m{revision}", "", "", aggregation, "t",
            value, (("who", "$.who"),), 0, 0,
        )  # fmt: skip
        self.meters.meters.append(meter)
        self.meters.version = revision
        return meter

    async def register(self) -> None:
        async def act(connection: Connection) -> None:
            row = {"number": self.number, "id": self.world.log.id, "partitions": PARTITIONS}
            await connection.execute(insert(connection, logs).values(row))

        await self.world.database.write(act)
        await self.register_later(*self.meters.meters)

    async def register_later(self, *named: Meter) -> None:
        """The control store knows these meters."""

        async def act(connection: Connection) -> None:
            for it in named:
                meter = {
                    "id": it.id, "namespace": self.namespace, "key": it.key, "name": "",
                    "description": "", "labels": "{}", "from_settings": False,
                    "created_version": it.revision, "created_at_ms": 0, "updated_at_ms": 0,
                }  # fmt: skip
                await connection.execute(insert(connection, meters_table).values(meter))
                revision = {
                    "revision": it.revision, "meter_id": it.id, "aggregation": it.aggregation.value,
                    "event_type": "t", "dimensions": "{}",
                }  # fmt: skip
                await connection.execute(insert(connection, meter_revisions).values(revision))

        await self.world.database.write(act)

    async def delete(self, meter: Meter) -> None:
        """It is deleted, as the control store and newer catalogues have it."""

        async def act(connection: Connection) -> None:
            mine = meters_table.c.id == meter.id
            await connection.execute(update(meters_table).where(mine).values(deleted_at_ms=1))

        await self.world.database.write(act)
        self.meters.meters.remove(meter)

    def fates(self, chance: random.Random, share: float) -> Callable[[], str]:
        def fate() -> str:
            if chance.random() >= share:
                return "well"
            return chance.choice(["die before", "die after", "fail before", "fail after"])

        return fate

    def eraser(self, fate: Callable[[], str] = lambda: "well") -> Eraser:
        return eraser_of(self.world, self.ledger, self.rows, fate, self.looking)

    def maker(self, fate: Callable[[], str] = lambda: "well") -> BlockMaker:
        rows = ClickHouseBlockRows(self.world.usage.connection, self.masks)
        return BlockMaker(
            self.number, PARTITIONS,
            Watched(SqlBlockLedger(self.world.database), fate, self.looking),
            Watched(rows, fate, self.looking), self.meters,  # type: ignore[arg-type]
            self.world.clock, random.Random(self.number), 3,
        )  # fmt: skip

    async def send(self, count: int) -> None:
        """Events of four subjects, some of them twice; those of one name it in their payload."""
        packs: dict[int, list[bytes]] = {}
        first = len(self.every)
        for at in [*range(first, first + count), first]:
            subject = self.name if at % 4 == 1 else f"s{at % 4}"
            value, note = at * 7 % 100, self.secret if subject == self.name else ""
            self.sent[str(at)] = (subject, value)
            if at != first or len(self.every) <= at:
                self.every.append((subject, at))
            document = {
                "specversion": "1.0", "id": f"{subject}-{at}", "source": f"app/{subject}",
                "type": "t", "subject": subject,
                "time": f"2026-01-01T{at % 24:02d}:{at % 60:02d}:00Z",
                "data": {"v": value, "who": subject, "note": note},
                "namespace": self.namespace, "recordedtime": "2026-01-01T00:00:00Z",
            }  # fmt: skip
            if at % 5 == 4:
                document["data"] = {"who": subject, "v": f"{subject} {note} is no number"}
                self.sent.pop(str(at))
            key = identity_key(self.namespace, f"app/{subject}", f"{subject}-{at}")
            packs.setdefault(partition_of(key, PARTITIONS), []).append(
                msgspec.json.encode(document)
            )
        for number, texts in packs.items():
            await self.world.log.append(number, encode_pack(texts))

    async def count(self) -> None:
        """Everything in the log is counted, as far as slices have ended."""
        worker = self.world.worker(self.meters)
        await self.world.run(worker)
        await worker.close_all()

    async def shrink_log(self) -> None:
        """The log drops what it need not keep."""
        for partition in range(PARTITIONS):
            seal = await self.world.progress.last_seal(self.number, partition)
            end = 0 if seal is None else seal.end
            before = self.world.clock.now_ms() - RETENTION_MS
            await self.world.log.trim(partition, max(0, end - 1), before)

    async def pass_time(self, ms: int = SLICE_SPAN_MS) -> None:
        self.world.clock.at_ms += ms
        self.read()

    async def look(self, *, thorough: bool = False) -> None:
        """Every total is what it was; or there is none for the moment."""
        self.looks += 1
        for meter in self.meters.meters:
            # Of distinct values only all together add up: a name and its pseudonym may share some.
            unique = meter.aggregation is Aggregation.UNIQUE_COUNT
            for group_by in ((), ("subject",)) if thorough and not unique else ((),):
                query = UsageQuery(meter, group_by=group_by)
                try:
                    rows = await self.world.usage.usage(query)
                except Unavailable:
                    self.refused += 1
                    self.read()
                    rows = await self.world.usage.usage(query)
                self.judge(meter, group_by, [(row.subject, row.value // UNIT) for row in rows])

    def judge(
        self, meter: Meter, group_by: tuple[str, ...], rows: list[tuple[str | None, int]]
    ) -> None:
        total = sum(value for _, value in rows)
        if meter.aggregation is Aggregation.SUM:
            assert total == sum(value for _, value in self.sent.values())
        assert self.seen.setdefault((meter.revision, group_by), total) == total

    seen: dict[tuple[int, tuple[str, ...]], int]

    async def found(self) -> list[str]:
        """Where the store has the name or the secret of the subject."""
        found = []
        asked = self.world.usage.connection.query
        for table, column in await asked(TEXT_COLUMNS, {}):
            where = f"position(toString({column}), {{name:String}}) > 0"
            where += f" OR position(toString({column}), {{secret:String}}) > 0"
            sql = f"SELECT count() FROM {table} WHERE {where}"
            ((rows,),) = await asked(sql, {"name": self.name, "secret": self.secret})
            if rows:
                found.append(f"{table}.{column}: {rows}")
        return found

    async def erasure(self, id_: str) -> Erasure:
        there = await self.ledger.erasure(self.namespace, id_)
        assert there is not None
        return there
