"""Dropping what is old beside counting: killed anywhere, done by two, with late workers."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.retention import Retention
from meterline.limits import RETENTION_NOTICE_MS
from meterline.ports import StoreLost, Unavailable
from meterline.usage import (
    EVENTS,
    REJECTS,
    SEEN,
    Borders,
    Holdings,
    Kept,
    Notice,
    Period,
    Reach,
    RetentionTerms,
    Seal,
    Sealed,
    SealedEnd,
    SealedRows,
    SealSum,
    UsageIntegrity,
    kept_of,
    next_sum,
    summed,
)

WEEK_MS = 7 * 86_400_000
MONDAY_MS = 3 * 86_400_000  # periods begin on Mondays, and 1970 began on a Thursday
TERMS = RetentionTerms(3 * WEEK_MS, 2 * WEEK_MS, 4 * WEEK_MS)
TABLES = ("events", "rejects", "seen")
LOG = 1


class Killed(BaseException):
    """The process dies here."""


@dataclass(frozen=True)
class Slice:
    """A slice of the first partition with so many rows in each table."""

    first: int
    append_ms: int
    rows: Mapping[str, int]

    @property
    def week(self) -> str:
        return f"{(self.append_ms + MONDAY_MS) // WEEK_MS:08}"

    @property
    def seal(self) -> Seal:
        """As the control store has it."""
        events, rejects = (self.rows.get(table, 0) for table in (EVENTS, REJECTS))
        return Seal(LOG, 0, self.first, self.first + 10, events, 1, self.append_ms, None, rejects)


@dataclass
class Stores:
    """Both stores, in memory; `fate` is drawn before each call and after it."""

    fate: Callable[[], str] = lambda: "well"
    store_id: str | None = None
    slices: list[Slice] = field(default_factory=list)  # sealed
    sums: list[SealSum] = field(default_factory=list)  # of the first of them
    notices_: list[Notice] = field(default_factory=list)
    ids: tuple[str, ...] = ()
    rows: dict[tuple[str, str], dict[int, int]] = field(default_factory=dict)
    accounts: set[int] = field(default_factory=set)

    # --- counting ---

    def write(self, one: Slice) -> None:
        for table, count in one.rows.items():
            if count:
                self.rows.setdefault((table, one.week), {})[one.first] = count
        self.accounts.add(one.first)

    # --- the control store ---

    async def sealed(self, log: int, after: Mapping[int, int]) -> Sealed:
        await self._met()
        kept = kept_of(self.notices_)
        behind = [it for it in self.seals if log == LOG and it.slice > after.get(0, -1)]
        if not behind:
            return Sealed(self.store_id, [], kept=kept)
        rows = [
            sum(getattr(it, name) for it in behind if _is_kept(it, table, kept))
            for table, name in ((EVENTS, "events"), (REJECTS, "rejects"), (SEEN, "events"))
        ]
        count = sum(it.slices if isinstance(it, SealSum) else 1 for it in behind)
        counts = (rows[0], rows[1], 0, 0, 0, rows[2])
        return Sealed(self.store_id, [SealedRows(0, behind[-1].slice, count, *counts)], kept=kept)

    @property
    def seals(self) -> list[Seal | SealSum]:
        """Sums, and seals behind them."""
        end = self.sums[-1].end if self.sums else 0
        return [*self.sums, *(it.seal for it in self.slices if it.first >= end)]

    async def sum_seals(self, log: int, before_ms: int, limit: int) -> int:
        """Blocks are everywhere."""
        await self._met()
        kept, count = kept_of(self.notices_), 0
        assert log == LOG
        before_ms = min(before_ms, kept[EVENTS].from_ms if EVENTS in kept else 0)
        for _ in range(limit):
            single = [it for it in self.seals if isinstance(it, Seal)]
            if not (taken := next_sum(single, Borders((1 << 60,), before_ms))):
                break
            self.sums.append(summed(taken))
            count += len(taken)
        await self._met()
        return count

    async def counted(self) -> bool:
        return bool(self.slices)

    async def bind(self, store_id: str, lost: str | None = None) -> str:
        assert lost is None
        self.store_id = self.store_id or store_id
        return self.store_id

    async def sealed_ends(self, log: int) -> dict[int, SealedEnd]:
        await self._met()
        assert log == LOG
        last = self.slices[-1:]
        return dict.fromkeys([0], SealedEnd(last[0].first + 10, last[0].append_ms)) if last else {}

    async def give_notice(
        self, period: Period, reach: Reach, log: int, now_ms: int
    ) -> Notice | str:
        await self._met()
        assert log == LOG
        named = (period.table, period.name)
        there = [one for one in self.notices_ if (one.table, one.period) == named]
        if not there:
            there = [Notice(*named, period.to_ms, reach.latest_ms, 1, now_ms)]
            self.notices_ += there
        await self._met()
        return there[0]

    async def begin_drop(self, period: Period, _reach: Reach, log: int, _now_ms: int) -> bool:
        await self._met()
        assert log == LOG
        return (period.table, period.name) in {(it.table, it.period) for it in self.notices_}

    async def notices(self) -> list[Notice]:
        return self.notices_

    # --- the usage store ---

    async def holdings(
        self, log: int, slices: Mapping[int, int], after: Mapping[str, str]
    ) -> Holdings:
        await self._met()
        found = {"accounts": len(self.accounts)}
        for (table, name), rows in self.rows.items():
            if name > after.get(table, ""):
                found[table] = found.get(table, 0) + sum(rows.values())
        there = {(0, first) for number, first in slices.items() if first in self.accounts}
        return Holdings(self.ids, found, there if log == LOG else ())

    async def adopt(self, store_id: str) -> None:
        self.ids = (store_id,)

    async def name(self, store_id: str) -> None:
        self.ids = self.ids or (store_id,)

    async def periods(self) -> list[Period]:
        await self._met()
        return [
            Period(table, name, int(name) * WEEK_MS - MONDAY_MS, _end_of(name))
            for table, name in self.rows
        ]

    async def reach(self, period: Period, log: int) -> Reach:
        await self._met()
        assert log == LOG
        rows = self.rows.get((period.table, period.name), {})
        return Reach({0: max(rows) + 10} if rows else {}, 0)

    async def drop(self, period: Period) -> None:
        await self._met()
        self.rows.pop((period.table, period.name), None)
        await self._met()

    async def _met(self) -> None:
        fate = self.fate()
        if fate == "die":
            raise Killed
        if fate == "fail":
            raise Unavailable("away")
        while fate == "wait":
            await asyncio.sleep(0)
            fate = self.fate()


def _end_of(name: str) -> int:
    return (int(name) + 1) * WEEK_MS - MONDAY_MS


def _is_kept(one: Seal | SealSum, table: str, kept: Mapping[str, Kept]) -> bool:
    from_ms = kept[table].from_ms if table in kept else 0
    return (one.begin_ms if isinstance(one, SealSum) else one.append_ms) >= from_ms


async def integrity_of(stores: Stores) -> UsageIntegrity:
    made = UsageIntegrity(stores, stores, LOG, 1)
    await made.begin("one", None)
    return made


def retention(stores: Stores) -> Retention:
    return Retention(stores, stores, TERMS, LOG)


async def lived(rng: random.Random) -> tuple[Stores, int]:
    """Weeks of counting, with two that drop beside it; nothing is lost that is kept."""
    calm = ["well"] * 6 + ["wait"] * 3
    stores = Stores()
    integrity = await integrity_of(stores)
    now_ms, offset, late = 30 * WEEK_MS, 0, list[Slice]()
    for _ in range(rng.randrange(5, 40)):
        now_ms += rng.choice((0, WEEK_MS // 14, WEEK_MS // 3, 2 * WEEK_MS))
        counts = {table: rng.randrange(4) for table in TABLES}
        counts["seen"] = counts["events"]
        one = Slice(offset, now_ms, counts)
        offset += 10
        stores.write(one)
        if rng.random() < 0.8:  # else nobody seals for a while
            stores.slices += [*late, one]
            late = []
        else:
            late.append(one)
        if rng.random() < 0.2 and stores.slices:  # a worker that stood still writes again
            stores.write(rng.choice(stores.slices))
        before = deepcopy(stores.rows)
        stores.fate = lambda: rng.choice([*calm, "die", "fail"])
        two: list[Coroutine[Any, Any, object]] = [retention(stores).step(now_ms) for _ in range(2)]
        two += [retention(stores).sum_turn(now_ms)]
        checks = [integrity.check() for _ in range(2)]
        ended = await asyncio.gather(*map(asyncio.ensure_future, map(_survived, [*two, *checks])))
        stores.fate = lambda: "well"
        assert not [error for error in ended if isinstance(error, StoreLost)]
        await integrity.check()
        _check_dropped(stores, before, now_ms, {one.first for one in late})
    return stores, now_ms


async def _survived(step: object) -> BaseException | None:
    try:
        await step  # type: ignore[misc]
    except (Killed, Unavailable, StoreLost) as error:
        return error
    return None


def _check_dropped(
    stores: Stores, before: dict[tuple[str, str], dict[int, int]], now_ms: int, late: set[int]
) -> None:
    for table, name in before.keys() - stores.rows.keys():
        age_ms = TERMS.of(table)
        assert age_ms is not None
        assert _end_of(name) <= now_ms - age_ms, "it was too young"
        assert not before[table, name].keys() & late, "it was not sealed"
        told = [one for one in stores.notices_ if (one.table, one.period) == (table, name)]
        assert told, "nobody was told"
        assert now_ms - told[0].given_at_ms >= RETENTION_NOTICE_MS


@given(st.randoms(use_true_random=False))
def test_nothing_is_dropped_early_and_no_store_seems_lost(rng: random.Random) -> None:
    stores, now_ms = asyncio.run(lived(rng))
    asyncio.run(_drops_in_the_end(stores, now_ms))


async def _drops_in_the_end(stores: Stores, now_ms: int) -> None:
    """Once all is sealed and a day has passed, what is old is gone."""
    one = Slice(10_000, now_ms + 9 * WEEK_MS, dict.fromkeys(TABLES, 1))
    stores.write(one)
    stores.slices.append(one)
    for at_ms in (one.append_ms, one.append_ms + RETENTION_NOTICE_MS):
        await retention(stores).step(at_ms)
        await retention(stores).sum_turn(at_ms)
    events = kept_of(stores.notices_).get(EVENTS)
    if events is not None:
        single = [it for it in stores.seals if isinstance(it, Seal)]
        before_ms = min(events.from_ms, one.append_ms - 4 * WEEK_MS)
        assert single == [it.seal for it in stores.slices if it.append_ms >= before_ms]
    assert {name for _, name in stores.rows} == {one.week}
    assert await retention(stores).step(one.append_ms + WEEK_MS) == [], "again it does nothing"
    await (await integrity_of(stores)).check()


@given(st.randoms(use_true_random=False))
def test_whatever_is_missing_of_what_is_kept_is_found(rng: random.Random) -> None:
    asyncio.run(_found(rng))


async def _found(rng: random.Random) -> None:
    stores, _ = await lived(rng)
    integrity = await integrity_of(stores)
    kept = kept_of(stores.notices_)
    sealed = {one.first for one in stores.slices}
    for rows in stores.rows.values():
        for first in rows.keys() - sealed:
            rows[first] = 0  # what nobody sealed could make up for it
    there = [
        (place, first)
        for place, rows in stores.rows.items()
        if place[0] not in kept or place[1] > kept[place[0]].after
        for first in rows.keys() & sealed
    ]
    if not there:
        return
    place, first = rng.choice(there)
    stores.rows[place][first] -= 1
    with pytest.raises(StoreLost, match=f"table {place[0]} has"):
        await integrity.check()
    # What was dropped comes back with an older copy of the store, and makes up for nothing.
    stores.rows[place[0], "00000001"] = {1: 1_000}
    if place[0] in kept:
        with pytest.raises(StoreLost, match=f"table {place[0]} has"):
            await integrity.check()


async def test_a_row_that_is_not_sealed_keeps_its_period_and_all_that_follow() -> None:
    stores = Stores()
    old = Slice(0, WEEK_MS, dict.fromkeys(TABLES, 1))
    later = Slice(10, 2 * WEEK_MS, dict.fromkeys(TABLES, 1))
    new = Slice(20, 50 * WEEK_MS, dict.fromkeys(TABLES, 1))
    for one in (old, later, new):
        stores.write(one)
    stores.slices = [Slice(-10, 50 * WEEK_MS, {})]
    for day in range(3):
        assert await retention(stores).step(50 * WEEK_MS + day * RETENTION_NOTICE_MS) == []
    assert stores.notices_ == []
    stores.slices = [old, later, new]
    dropped = []
    for day in range(3):
        dropped += await retention(stores).step(50 * WEEK_MS + day * RETENTION_NOTICE_MS)
    assert {one.name for one in dropped if one.table == EVENTS} == {"00000001", "00000002"}


async def test_retention_that_cannot_go_on_does_not_stop_counting() -> None:
    stores = Stores(lambda: "fail")
    await retention(stores).turn(50 * WEEK_MS)
    await retention(stores).sum_turn(50 * WEEK_MS)
    assert await Retention(stores, stores, RetentionTerms(), LOG).step(0) == [], "nothing is asked"
