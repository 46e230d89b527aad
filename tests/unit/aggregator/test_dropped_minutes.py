"""Usage by minute is dropped over real embedded stores: what is asked meanwhile and afterwards is
told as a fold of the raw events tells it, or refused. Never anything else.
"""

import random
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from aggregator.retention import Retention
from meterline.backends.clickhouse.holdings import ClickHouseHoldings, ClickHousePeriods
from meterline.backends.clickhouse.usage.snapshot import BlockSnapshot
from meterline.backends.control_store.progress.blocks import SqlBlockLedger
from meterline.backends.control_store.progress.retention import SqlRetention
from meterline.backends.control_store.progress.seal_ledger import SqlSealLedger
from meterline.event import Event, decode_event, encode_pack, identity_key, partition_of
from meterline.limits import BLOCK_KEPT_MS, BLOCK_MAKING_MS, RETENTION_NOTICE_MS, SLICE_SPAN_MS
from meterline.meter import Measure, MeterChange
from meterline.ports import Unavailable
from meterline.problem import Problem
from meterline.usage import (
    CheckedPeriods,
    EventFold,
    Period,
    RetentionTerms,
    UsageIntegrity,
    UsageQuery,
    UsageRow,
    minutes_of,
    rows_of,
    starts_of,
)
from meterline.window import DAY_MS, HOUR_MS, MINUTE_MS, WindowSize, rfc3339
from tests.unit.aggregator.dropping import NUMBERS, Dropping
from tests.unit.aggregator.erasing import Watched
from tests.unit.aggregator.world import PARTITIONS, Killed, World

TERMS = RetentionTerms(minutes_ms=90 * DAY_MS)
ZONES = ("UTC", "Europe/Berlin", "Asia/Kathmandu", "America/Denver")
YEARS = iter(range(2072, 2089, 2))  # no other test of this store has usage there


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
        ledger: Any = Watched(SqlRetention(self.world.database), fate, _nothing)
        store: Any = Watched(checked, fate, _nothing)
        return Retention(store, ledger, TERMS, log)

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
        lower, upper = query.from_ms or 0, query.to_ms or 1 << 50
        asked = [it for it in self.events if lower <= it.time_ms < upper]
        if not asked:
            return []
        times = [it.time_ms for it in asked]
        first_ms = min(times) // MINUTE_MS * MINUTE_MS
        end_ms = (max(times) // MINUTE_MS + 1) * MINUTE_MS
        starts = starts_of(query, first_ms, end_ms)
        fold = EventFold(query, Measure(query.meter), minutes_of(starts))
        for one in asked:
            fold.add(one)
        return rows_of(query, starts, (first_ms, end_ms), fold.found())

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

    async def ask(self, count: int = 40) -> None:
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


@pytest.fixture
async def minutes(world: World, fresh_numbers: Iterator[int]) -> AsyncIterator[Minutes]:
    base, *_ = [next(fresh_numbers) for _ in range(NUMBERS)]
    dropping = Dropping(world, base)
    await dropping.begin()
    made = Minutes(dropping, base)
    await made.begin()
    yield made
    world.usage.read_blocks(None)


async def _dropped(minutes: Minutes) -> None:
    """Notice, a day, and the drop."""
    await minutes.step()
    minutes.world.clock.at_ms += RETENTION_NOTICE_MS
    await minutes.step()
    assert await minutes.stored() == 0


async def test_hours_are_told_as_before_and_minutes_are_refused(minutes: Minutes) -> None:
    await minutes.ask()
    assert not minutes.refusals
    assert await minutes.step() == [], "a day after the notice"
    assert await minutes.stored()
    await minutes.ask()
    assert minutes.refusals, "from the notice on"
    minutes.world.clock.at_ms += RETENTION_NOTICE_MS
    assert {one.table for one in await minutes.step()} == {"tallies", "members"}
    assert await minutes.stored() == 0
    await minutes.ask()
    await minutes.total()
    assert minutes.answers > 2 * minutes.refusals > 0


async def test_killed_before_and_after_each_step_answers_stay_right(minutes: Minutes) -> None:
    for turn in ("notice", "drop"):
        calls = 0
        while True:
            calls += 1
            fates = iter(["well"] * (calls // 2) + [("die before", "die after")[calls % 2]])
            retention = minutes.retention(partial(next, fates, "well"))
            try:
                await retention.step(minutes.it.now_ms)
            except Killed:
                minutes.it.read()
                await minutes.ask(4)
                await minutes.total()
                continue
            break
        assert calls > 2 * len(("periods", "sealed_ends", "reach", "give_notice")), turn
        minutes.world.clock.at_ms += RETENTION_NOTICE_MS
    assert await minutes.stored() == 0
    await minutes.ask()
    await minutes.total()


async def _nothing() -> None:
    """Nobody looks."""


async def test_late_usage_of_dropped_months_counts_at_once_and_stays_exact(
    minutes: Minutes,
) -> None:
    await _dropped(minutes)
    late = (110 * DAY_MS, 62 * DAY_MS, 0)
    for seal in (False, True, True):
        await minutes.send(late, seal=seal)
        await minutes.ask(15)
        await minutes.total()
    await minutes.it.blocks()
    await minutes.ask(15)
    assert await minutes.stored(), "they lie where others were dropped"
    await minutes.step()
    assert await minutes.stored() == 0, "the notice stands"
    await minutes.ask()
    await minutes.total()


async def test_what_is_in_no_block_keeps_its_minutes(minutes: Minutes) -> None:
    await minutes.send((118 * DAY_MS,))
    await minutes.step()
    assert await SqlRetention(minutes.world.database).notices() == []
    await minutes.it.blocks()
    await minutes.step()
    assert await SqlRetention(minutes.world.database).notices()


async def test_blocks_that_cannot_be_made_again_are_not_withdrawn(minutes: Minutes) -> None:
    await _dropped(minutes)
    ledger, number = SqlBlockLedger(minutes.world.database), minutes.world.log.number
    first = next(it for it in await ledger.blocks(number) if not it.begin_ms)
    assert not await ledger.withdraw(number, [first.number], minutes.it.now_ms)
    await minutes.ask(20)
    connection = minutes.world.usage.connection
    await connection.execute(f"ALTER TABLE days DROP PARTITION {first.number}")
    await minutes.it.sweep()
    minutes.it.read()
    with pytest.raises(Unavailable):
        await minutes.integrity.check()
    assert first.number in {it.number for it in await ledger.blocks(number)}


async def test_what_is_lost_before_the_drop_is_made_again_and_nothing_is_dropped(
    minutes: Minutes,
) -> None:
    """Blocks lose rows between the notice and the drop: minutes are all that is left."""
    await minutes.step()
    ledger, number = SqlBlockLedger(minutes.world.database), minutes.world.log.number
    first = next(it for it in await ledger.blocks(number) if not it.begin_ms)
    connection = minutes.world.usage.connection
    await connection.execute(f"ALTER TABLE days DROP PARTITION {first.number}")
    minutes.world.clock.at_ms += RETENTION_NOTICE_MS
    with pytest.raises(Unavailable, match="has not the rows"):
        await minutes.step()
    assert await minutes.stored()
    await minutes.it.sweep()
    minutes.it.read()
    query = UsageQuery(await minutes.it.meter("sum"))
    with pytest.raises(Unavailable, match="cannot be read at the moment"):
        await minutes.world.usage.usage(query)
    assert await minutes.step() == [], "nothing goes while blocks do not have it"
    await minutes.it.blocks()
    await minutes.ask()
    await minutes.total()
    assert await minutes.step()
    assert await minutes.stored() == 0
    await minutes.ask()
    await minutes.total()


async def test_an_answer_that_saw_the_notice_come_is_not_given(minutes: Minutes) -> None:
    """It was planned before, and read by minute what may be gone."""
    meter = await minutes.it.meter("sum")
    snapshot = BlockSnapshot(SqlBlockLedger(minutes.world.database), minutes.world.log.number)
    planned = await snapshot.coverage({meter.revision})
    await snapshot.confirm(planned, {meter.revision})
    await minutes.step()
    with pytest.raises(Unavailable, match="ask again"):
        await snapshot.confirm(planned, {meter.revision})
    again = await snapshot.coverage({meter.revision})
    assert again.dropped
    await snapshot.confirm(again, {meter.revision})


async def test_a_changed_meter_takes_over_from_where_minutes_are_kept(minutes: Minutes) -> None:
    await _dropped(minutes)
    change = MeterChange(value_property="$['v']")
    await minutes.it.catalogue.update_meter("default", "sum", change, minutes.it.now_ms)
    await minutes.it.count()
    (number,) = await minutes.it.catalogue.filling()
    assert await minutes.it.catalogue.switch_filled(number, minutes.it.now_ms) is not None
    await minutes.it.blocks()
    changed = await minutes.it.meter("sum")
    assert changed.effective_from_ms is not None
    assert changed.effective_from_ms >= minutes.february_ms
    await minutes.ask()
    await minutes.total()


async def test_a_block_is_swept_and_merged_after_the_drop(minutes: Minutes) -> None:
    await _dropped(minutes)
    for _ in range(3):
        await minutes.send((0, 118 * DAY_MS))
        await minutes.it.blocks()
        minutes.world.clock.at_ms += BLOCK_KEPT_MS + BLOCK_MAKING_MS
        await minutes.it.sweep()
        await minutes.ask(15)
    await minutes.total()
