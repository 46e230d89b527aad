"""The comparison of control store and usage store, over both databases and both engines."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from meterline.backends.clickhouse.holdings import ClickHouseHoldings
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.backends.control_store.progress.seal_ledger import SqlSealLedger
from meterline.ports import StoreLost, Unsuitable
from meterline.usage import (
    AccountRow,
    Flush,
    Holdings,
    Seal,
    Sealed,
    SealedRows,
    SliceId,
    UsageIntegrity,
)
from meterline.usage.integrity.comparison import missing


def seal(log: int, partition: int, slice_: int, events: int = 7, tallies: int = 2) -> Seal:
    return Seal(log, partition, slice_, slice_ + 10, events, 1, 5, b"d", 1, tallies, 3, 4)


async def test_seals_are_added_up_behind_a_slice(control_database: Database) -> None:
    progress, ledger = SqlProgressStore(control_database), SqlSealLedger(control_database)
    assert await ledger.sealed(1, {}) == Sealed(None, [])
    assert not await ledger.counted()
    await progress.flushed(1, 0, {0: 0})
    assert not await ledger.counted(), "nothing was in it"
    for partition, slice_ in [(0, 0), (0, 10), (1, 0)]:
        await progress.seal(seal(1, partition, slice_))
    await progress.seal(seal(2, 0, 0))
    assert await ledger.counted()
    whole = sorted((await ledger.sealed(1, {})).rows)
    assert whole == [
        SealedRows(0, 10, 2, 14, 2, 4, 6, 8, 14),
        SealedRows(1, 0, 1, 7, 1, 2, 3, 4, 7),
    ]
    behind = (await ledger.sealed(1, {0: 0, 1: 0})).rows
    assert behind == [SealedRows(0, 10, 1, 7, 1, 2, 3, 4, 7)]


async def test_the_first_id_is_kept_and_another_takes_its_place_only_by_name(
    control_database: Database,
) -> None:
    progress, ledger = SqlProgressStore(control_database), SqlSealLedger(control_database)
    assert await ledger.bind("a") == "a"
    assert await ledger.bind("b") == "a"
    await progress.seal(seal(1, 0, 0))
    assert await ledger.bind("c", lost="b") == "a", "that one is not bound"
    assert await ledger.counted()
    assert await ledger.bind("c", lost="a") == "c"
    assert not await ledger.counted(), "it is counted again"
    assert await progress.last_seal(1, 0) is None
    assert await ledger.sealed(1, {}) == Sealed("c", [])


async def test_a_store_says_what_it_holds(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    fresh_log = next(fresh_numbers)
    holdings = ClickHouseHoldings(usage_store.connection)
    await usage_store.connection.execute("OPTIMIZE TABLE accounts FINAL")  # merges take copies away
    before = await holdings.holdings(fresh_log, {}, {})
    await usage_store.write(Flush(accounts=[AccountRow(fresh_log, 2, 30, 1, 4, 1, 1, 1, 1)]))
    await holdings.adopt("one")
    await holdings.adopt("two")
    await holdings.name("three")  # it has one
    after = await holdings.holdings(fresh_log, {2: 30, 3: 0}, {})
    assert after.ids == ("two",)
    assert after.accounts == {(2, 30)}
    assert after.rows["accounts"] > before.rows.get("accounts", 0)
    assert (await usage_store.account(SliceId(fresh_log, 2, 30))) is not None


@pytest.mark.parametrize(
    ("rows", "accounts", "words"),
    [
        ({"tallies": 5}, {(0, 10)}, ""),
        ({"tallies": 4}, {(0, 10)}, "table tallies has 4 rows and should have at least 5"),
        ({}, {(0, 10)}, "table tallies has 0 rows"),
        ({"tallies": 9}, set(), "the account of partition 0, slice 10 is missing"),
        ({"tallies": 9}, {(0, 0)}, "the account of partition 0, slice 10 is missing"),
    ],
)
def test_what_is_missing_is_named(
    rows: dict[str, int], accounts: set[tuple[int, int]], words: str
) -> None:
    said = missing({"tallies": 5}, {0: 10}, Holdings(("a",), rows, accounts))
    assert said.startswith(words)
    assert bool(said) == bool(words)


class Stores:
    """Both sides, as a test wants them."""

    def __init__(self) -> None:
        self.known: str | None = None
        self.rows: list[SealedRows] = []
        self.ends = False
        self.there = Holdings((), {}, set())

    async def sealed(self, log: int, after: dict[int, int]) -> Sealed:
        assert log == 1
        return Sealed(self.known, [one for one in self.rows if one.last > after[one.partition]])

    async def counted(self) -> bool:
        return self.ends or bool(self.rows)

    async def bind(self, store_id: str, lost: str | None = None) -> str:
        if lost is not None and self.known == lost:
            self.known, self.rows, self.ends = store_id, [], False
        self.known = self.known or store_id
        return self.known

    async def holdings(self, log: int, slices: dict[int, int], after: dict[str, str]) -> Holdings:
        assert not after
        assert log == 1
        assert slices.keys() <= {0, 1}
        return self.there

    async def adopt(self, store_id: str) -> None:
        self.there = Holdings((store_id,), self.there.rows, self.there.accounts)

    async def name(self, store_id: str) -> None:
        if not self.there.ids:
            await self.adopt(store_id)


async def begun(stores: Stores, lost: str | None = None) -> UsageIntegrity:
    made = UsageIntegrity(stores, stores, 1, 2)  # type: ignore[arg-type]
    await made.begin("fresh", lost)
    return made


class Slow(Stores):
    """The usage store says what it holds of the slices asked for, the first time late."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may = asyncio.Event(), asyncio.Event()

    async def holdings(self, log: int, slices: dict[int, int], after: dict[str, str]) -> Holdings:
        there = await super().holdings(log, slices, after)
        found = there.accounts & set(slices.items())  # type: ignore[operator]
        if not self.asked.is_set():
            self.asked.set()
            await self.may.wait()
        return replace(there, accounts=found)


async def test_what_is_sealed_during_a_comparison_is_not_missed_by_it() -> None:
    stores = Slow()
    stores.may.set()
    integrity = await begun(stores)
    stores.asked.clear()
    stores.may.clear()
    stores.rows = [SealedRows(0, 10, 1, 1, 0, 0, 0, 0, 1)]
    rows = {"accounts": 9, "events": 9, "seen": 9}
    stores.there = Holdings(("fresh",), rows, {(0, 10), (0, 20)})
    first = asyncio.create_task(integrity.check())
    await stores.asked.wait()
    stores.rows = [SealedRows(0, 20, 1, 1, 0, 0, 0, 0, 1)]
    await integrity.check()
    stores.may.set()
    await first


FULL = {"accounts": 1, "events": 7, "seen": 7, "tallies": 2}


async def test_new_stores_come_to_know_each_other_and_nothing_is_lost_in_empty_ones() -> None:
    stores = Stores()
    integrity = await begun(stores)
    assert (stores.known, stores.there.ids, integrity.store_id) == ("fresh", ("fresh",), "fresh")
    await integrity.check()
    await begun(stores)
    assert stores.known == "fresh"
    stores.there = Holdings((), {}, set())  # a first start that ended before it was written
    await begun(stores)
    assert stores.there.ids == ("fresh",)


async def test_two_processes_may_start_for_the_first_time_at_once() -> None:
    class Slow(Stores):
        """Another process gives both stores their id while this one reads."""

        async def sealed(self, log: int, after: dict[int, int]) -> Sealed:
            found = await super().sealed(log, after)
            if self.known is None:
                self.known, self.there = "first", Holdings(("first",), {}, set())
            return found

    integrity = await begun(Slow())
    assert integrity.store_id == "first"
    await integrity.check()


async def test_whoever_starts_beside_one_that_counts_already_takes_its_store_for_no_empty_one() -> (
    None
):
    class Counting(Stores):
        """Another process gives the usage store its id, and counts, while this one reads."""

        async def counted(self) -> bool:
            self.there = Holdings(("first",), {}, set())
            return True

    stores = Counting()
    stores.known = "first"
    integrity = await begun(stores)
    assert integrity.store_id == "first"


async def test_a_store_is_refused_that_is_empty_older_or_of_another() -> None:
    stores = Stores()
    integrity = await begun(stores)
    stores.ends = True
    stores.there = Holdings((), {}, set())
    with pytest.raises(Unsuitable, match=r"new and empty.*usage_lost to fresh"):
        await begun(stores)
    with pytest.raises(StoreLost, match="the id of no store"):
        await integrity.check()
    stores.rows = [SealedRows(1, 30, 1, 7, 0, 2, 0, 0, 7)]
    stores.there = Holdings(("fresh",), FULL, {(1, 30)})
    await integrity.check()
    await begun(stores)
    for there in (
        Holdings(("fresh",), {**FULL, "tallies": 0}, {(1, 30)}),
        Holdings(("fresh",), FULL, set()),
    ):
        stores.there = there
        with pytest.raises(StoreLost):
            await integrity.check()
        with pytest.raises(Unsuitable, match="lost what was counted"):
            await begun(stores)
    stores.there = Holdings(("other",), FULL, {(1, 30)})
    with pytest.raises(Unsuitable, match="belongs to another installation"):
        await begun(stores, lost="fresh")
    stores.known = None
    with pytest.raises(Unsuitable, match="the control store is new"):
        await begun(stores)


async def test_a_store_that_has_rows_is_not_counted_into_anew() -> None:
    """An older copy: what is counted again need not replace its rows, so they would count twice."""
    stores = Stores()
    await begun(stores)
    stores.rows = [SealedRows(1, 30, 1, 7, 0, 2, 0, 0, 7)]
    older = Holdings(("fresh",), {"installation": 1, "events": 6, "seen": 6}, set())
    for there in (older, replace(older, ids=())):
        stores.there = there
        with pytest.raises(Unsuitable, match=r"still has rows: 6 in the table seen.*empty usage"):
            await begun(stores, lost="fresh")
        assert (stores.known, stores.there, len(stores.rows)) == ("fresh", there, 1)
    stores.there = replace(older, rows={"installation": 1, "events": 0})
    await begun(stores, lost="fresh")
    assert stores.rows == []


async def test_the_oldest_rows_of_all_keep_a_store_from_being_counted_into_anew(
    usage_store: ClickHouseUsageStore, control_database: Database, fresh_numbers: Iterator[int]
) -> None:
    log = next(fresh_numbers)
    progress, ledger = SqlProgressStore(control_database), SqlSealLedger(control_database)
    integrity = UsageIntegrity(ledger, ClickHouseHoldings(usage_store.connection), log, 1)
    await ledger.bind("lost")
    await ClickHouseHoldings(usage_store.connection).adopt("lost")
    await usage_store.write(Flush(accounts=[AccountRow(log, 0, 0, 1, 4, 1, 1, 1, 1)]))
    await progress.seal(seal(log, 0, 40))
    with pytest.raises(Unsuitable, match="still has rows"):
        await integrity.begin("fresh", "lost")
    assert await ledger.counted(), "nothing was forgotten"


async def test_seals_that_tell_of_less_are_all_read_again() -> None:
    """A revision is not kept: seals that were read before tell of its rows."""

    class Lessened(Stores):
        unsealed = 0

        async def sealed(self, log: int, after: dict[int, int]) -> Sealed:
            found = await super().sealed(log, after)
            return Sealed(found.store_id, found.rows, unsealed=self.unsealed)

    stores = Lessened()
    integrity = await begun(stores)
    stores.rows = [SealedRows(1, 30, 1, 7, 0, 2, 0, 0, 7)]
    stores.there = Holdings(("fresh",), FULL, {(1, 30)})
    await integrity.check()
    stores.rows = [SealedRows(1, 30, 1, 7, 0, 1, 0, 0, 7)]
    stores.there = Holdings(("fresh",), {**FULL, "tallies": 1}, {(1, 30)})
    with pytest.raises(StoreLost):
        await integrity.check()
    stores.unsealed = 1
    await integrity.check()
    stores.there = Holdings(("fresh",), {**FULL, "tallies": 0}, {(1, 30)})
    with pytest.raises(StoreLost):
        await integrity.check()


async def test_a_loss_is_accepted_by_the_id_of_what_is_lost_once() -> None:
    stores = Stores()
    running = await begun(stores)
    stores.rows = [SealedRows(1, 30, 1, 7, 0, 2, 0, 0, 7)]
    stores.there = Holdings((), {}, set())
    with pytest.raises(Unsuitable):
        await begun(stores, lost="another")
    stores.known = "old"
    await begun(stores, lost="old")
    assert (stores.known, stores.there.ids, stores.rows) == ("fresh", ("fresh",), [])
    stores.known = "newer"
    with pytest.raises(StoreLost, match="start the process again"):
        await running.check()
