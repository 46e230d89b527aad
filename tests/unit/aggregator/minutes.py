"""A world whose usage by minute is dropped, over real embedded stores."""

import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from aggregator.retention import Retention
from meterline.backends.clickhouse.blocks.erasure import ClickHouseErasedRows
from meterline.backends.clickhouse.holdings import ClickHouseHoldings, ClickHousePeriods
from meterline.backends.control_store.progress.erasures import SqlErasureStore
from meterline.backends.control_store.progress.retention import SqlRetention
from meterline.backends.control_store.progress.seal_ledger import SqlSealLedger
from meterline.event import Event, decode_event, encode_pack, identity_key, partition_of
from meterline.limits import RETENTION_NOTICE_MS, SLICE_SPAN_MS
from meterline.problem import Problem
from meterline.usage import (
    CheckedPeriods,
    Erasure,
    Masks,
    Period,
    RetentionTerms,
    UsageIntegrity,
    UsageQuery,
    UsageRow,
)
from meterline.window import DAY_MS, HOUR_MS, MINUTE_MS, WindowSize, rfc3339
from tests.contract.usage.refolded import refolded_usage
from tests.unit.aggregator.dropping import Dropping
from tests.unit.aggregator.erasing import Looking, Watched, eraser_of
from tests.unit.aggregator.world import PARTITIONS

TERMS = RetentionTerms(minutes_ms=90 * DAY_MS)
ZONES = ("UTC", "Europe/Berlin", "Asia/Kathmandu", "America/Denver")
YEARS = iter(range(2040, 2069, 2))  # no other test of this store has usage there


async def nothing() -> None:
    """Nobody looks."""


class Months(ClickHousePeriods):
    """Only those of one year: the usage store is shared."""

    begin_ms = 0

    async def periods(self) -> list[Period]:
        end_ms = self.begin_ms + 365 * DAY_MS
        return [one for one in await super().periods() if self.begin_ms <= one.from_ms < end_ms]


class Minutes:
    """A world whose usage of January is old in May."""

    def __init__(self, dropping: Dropping, seed: int) -> None:
        self.it = dropping
        self.world = dropping.world
        self.rng = random.Random(seed)
        year = next(YEARS)
        self.january_ms = int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * 1_000
        self.february_ms = self.january_ms + 31 * DAY_MS
        self.world.clock.at_ms = self.january_ms + 10 * DAY_MS
        self.events: list[Event] = []
        self.refusals = self.answers = 0
        self.integrity = UsageIntegrity(
            SqlSealLedger(self.world.database),
            ClickHouseHoldings(self.world.usage.connection),
            self.world.log.number,
            PARTITIONS,
        )

    async def begin(self) -> None:
        self.integrity.store_id = "a"
        await SqlSealLedger(self.world.database).bind("a")
        await ClickHouseHoldings(self.world.usage.connection).adopt("a")
        for _ in range(3):
            await self.send((0, MINUTE_MS, HOUR_MS, 3 * DAY_MS))
            self.world.clock.at_ms += 5 * DAY_MS
        self.world.clock.at_ms = self.january_ms + 130 * DAY_MS
        await self.send((0, HOUR_MS, 20 * DAY_MS))
        await self.send((0, MINUTE_MS))
        await self.it.blocks()

    async def send(
        self, behinds_ms: tuple[int, ...], count: int = 16, *, seal: bool = True
    ) -> None:
        """Events so long behind their append time, and the end of their slice."""
        now_ms, packs = self.it.now_ms, dict[int, list[bytes]]()
        for _ in range(count):
            name = str(len(self.events))
            at_ms = now_ms - int(self.rng.choice(behinds_ms) * (1 + self.rng.random()))
            text = msgspec.json.encode({
                "specversion": "1.0", "id": name, "source": "s", "type": "t",
                "subject": f"s{self.rng.randrange(3)}", "time": rfc3339(at_ms),
                "data": {"v": self.rng.randrange(50)}, "namespace": "default",
                "recordedtime": rfc3339(now_ms),
            })  # fmt: skip
            self.events.append(decode_event(text))
            partition = partition_of(identity_key("default", "s", name), PARTITIONS)
            packs.setdefault(partition, []).append(text)
        for partition, texts in packs.items():
            await self.world.log.append(partition, encode_pack(texts))
        await self.it.count()
        if seal:
            self.world.clock.at_ms += SLICE_SPAN_MS
            await self.it.close_slices()
            self.world.clock.at_ms += SLICE_SPAN_MS
        self.it.read()

    def retention(self, fate: Callable[[], str] = lambda: "well") -> Retention:
        periods = Months(self.world.usage.connection)
        periods.begin_ms = self.january_ms
        log, checked = self.world.log.number, CheckedPeriods(periods, self.integrity)
        ledger: Any = Watched(SqlRetention(self.world.database), fate, Looking(nothing))
        store: Any = Watched(checked, fate, Looking(nothing))
        return Retention(store, ledger, TERMS, log)

    async def dropped(self) -> None:
        """Notice, a day, and the drop."""
        await self.step()
        self.world.clock.at_ms += RETENTION_NOTICE_MS
        await self.step()
        assert await self.stored() == 0

    async def erased(self, subject: str, look: Callable[[], Awaitable[None]]) -> Erasure:
        """Until its rows are those of a pseudonym; somebody looks behind each call."""
        world, ledger = self.world, SqlErasureStore(self.world.database)
        self.it.masks = Masks(ledger)
        asked = await ledger.ask("default", subject, self.it.now_ms)
        rows = ClickHouseErasedRows(world.usage.connection)
        eraser = eraser_of(world, ledger, rows, lambda: "well", Looking(look))
        for _ in range(3):
            await eraser.turn()
            world.clock.at_ms += SLICE_SPAN_MS
            await self.it.count()
        self.events = [
            msgspec.structs.replace(it, subject=asked.pseudonym) if it.subject == subject else it
            for it in self.events
        ]
        self.it.read()
        return next(it for it in await ledger.unfinished() if it.id == asked.id)

    async def step(self) -> list[Period]:
        dropped = await self.retention().step(self.it.now_ms)
        self.it.read()
        return dropped

    async def stored(self) -> int:
        """Rows by minute of January."""
        sql = "SELECT count() FROM tallies WHERE log = {log:UInt16}"
        within = " AND window >= {first:UInt32} AND window < {end:UInt32}"
        first, end = self.january_ms // MINUTE_MS, self.february_ms // MINUTE_MS
        bounds = {"log": self.world.log.number, "first": first, "end": end}
        found = await self.world.usage.connection.query(sql + within, bounds)
        return int(found[0][0])

    def expected(self, query: UsageQuery) -> list[UsageRow]:
        """By a fold of the raw events."""
        return refolded_usage(query, self.events)

    async def query(self) -> UsageQuery:
        rng = self.rng
        around = rng.choice((self.january_ms, self.february_ms, self.it.now_ms))
        step = rng.choice((MINUTE_MS, HOUR_MS, HOUR_MS, DAY_MS))
        from_ms = (around - rng.randrange(-40 * DAY_MS, 40 * DAY_MS)) // step * step
        to_ms = from_ms + rng.choice((step, 30 * step, 100 * DAY_MS))
        bounded = rng.random() < 0.8
        return UsageQuery(
            await self.it.meter(rng.choice(("sum", "who"))),
            from_ms if bounded else None,
            to_ms if bounded else None,
            rng.choice((*WindowSize, None)) if bounded else rng.choice([*WindowSize]),
            ZoneInfo(rng.choice(ZONES)),
            ("subject",) if rng.random() < 0.5 else (),
        )

    async def ask(self, count: int = 16) -> None:
        """Answers are right, and only what needs minutes is refused."""
        await self.integrity.check()
        for _ in range(count):
            query = await self.query()
            rules, rows = list[str](), list[UsageRow]()
            try:
                rows = await self.world.usage.usage(query)
            except Problem as problem:
                rules = [fault.rule for fault in problem.faults]
            if rules:
                assert rules == ["not_kept"]
                assert self._needs_minutes(query), query
                self.refusals += 1
                continue
            assert rows == self.expected(query), query
            self.answers += 1

    def _needs_minutes(self, query: UsageQuery) -> bool:
        from_ms = 0 if query.from_ms is None else query.from_ms
        if from_ms >= self.february_ms:
            return False
        cut = any(it and it % HOUR_MS for it in (query.from_ms, query.to_ms))
        zoned = query.window is not None and query.zone.key == "Asia/Kathmandu"
        return cut or zoned or query.window is WindowSize.MINUTE

    async def total(self) -> None:
        """Of all time, without bounds: what is there counts once."""
        for key in ("sum", "who"):
            query = UsageQuery(await self.it.meter(key))
            (row,) = await self.world.usage.usage(query)
            (expected,) = self.expected(query)
            assert (row.value, row.count) == (expected.value, expected.count)
            assert row.from_ms // HOUR_MS == expected.from_ms // HOUR_MS
