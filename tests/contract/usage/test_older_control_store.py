"""A control store that was set back alone is refused, over both databases and both engines."""

from collections.abc import Iterator
from typing import ClassVar

import pytest

from meterline.backends.clickhouse.holdings import ClickHouseHoldings
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.backends.control_store.progress.seal_ledger import SqlSealLedger
from meterline.meter import Aggregation, MeterDraft
from meterline.ports import Unsuitable
from meterline.usage import (
    AccountRow,
    Flush,
    TallyRow,
    check_not_older,
    check_revisions_known,
)
from tests.contract.usage.test_integrity import seal

PARTITION, QUIET = 2, 3
COUNTED = range(0, 80, 10)  # the last one is the open slice


async def counted(store: ClickHouseUsageStore, log: int) -> ClickHouseHoldings:
    """A store into which slices of one partition were counted, and some of others."""
    rows = [AccountRow(log, PARTITION, slice_, 1, 4, 1, 1, 1, 1) for slice_ in COUNTED]
    quiet = [AccountRow(log, QUIET, 0, 1, 4, 1, 1, 1, 1)]
    others = [AccountRow(log + 1, QUIET, slice_, 1, 4, 1, 1, 1, 1) for slice_ in COUNTED]
    for _ in range(2):  # accounts of a slice are written anew with each flush
        await store.write(Flush(accounts=[*rows, *quiet, *others]))
    return ClickHouseHoldings(store.connection)


async def test_a_store_says_which_slices_are_its_last(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    log = next(fresh_numbers)
    next(fresh_numbers)
    holdings = await counted(usage_store, log)
    assert await holdings.newest(log, {}) == {PARTITION: [70, 60, 50, 40, 30], QUIET: [0]}
    assert await holdings.newest(log, {PARTITION: 30}) == {PARTITION: [70, 60, 50, 40], QUIET: [0]}
    assert await holdings.newest(log, {PARTITION: 30, QUIET: 0}) == {PARTITION: [70, 60, 50, 40]}


@pytest.mark.parametrize(
    ("sealed", "known"),
    [(0, "nothing of it"), (2, "it up to the slice at offset 10"), (3, "at offset 20")],
)
async def test_a_control_store_that_forgot_seals_is_refused(
    usage_store: ClickHouseUsageStore,
    control_database: Database,
    fresh_numbers: Iterator[int],
    sealed: int,
    known: str,
) -> None:
    log = next(fresh_numbers)
    next(fresh_numbers)
    holdings, ledger = await counted(usage_store, log), SqlSealLedger(control_database)
    await seal_first(control_database, log, sealed)
    known_before = {one.partition: one.last for one in (await ledger.sealed(log, {})).rows}
    with pytest.raises(Unsuitable) as caught:
        await check_not_older(ledger, holdings, log, "abc", known_before)
    words = str(caught.value)
    assert "the control store is older than the usage store: partition 2" in words
    assert "up to the slice at offset 70" in words
    assert known in words
    assert "set usage_lost to abc" in words


@pytest.mark.parametrize("known_before", [{}, {PARTITION: 0}, {PARTITION: 30}])
@pytest.mark.parametrize("sealed", [4, 5, 6])
async def test_a_control_store_that_knows_all_but_what_is_open_is_not(
    usage_store: ClickHouseUsageStore,
    control_database: Database,
    fresh_numbers: Iterator[int],
    sealed: int,
    known_before: dict[int, int],
) -> None:
    """Whatever it was known to know before: others may have sealed since."""
    log = next(fresh_numbers)
    next(fresh_numbers)
    holdings, ledger = await counted(usage_store, log), SqlSealLedger(control_database)
    await seal_first(control_database, log, sealed)
    await check_not_older(ledger, holdings, log, "abc", known_before)


async def test_a_control_store_that_forgot_a_revision_is_refused(
    usage_store: ClickHouseUsageStore, control_database: Database, fresh_numbers: Iterator[int]
) -> None:
    """However few slices it lacks: the next meter would take the number, and these rows."""
    catalogue = SqlCatalogueStore(control_database)
    holdings = ClickHouseHoldings(usage_store.connection)
    await usage_store.connection.execute("TRUNCATE TABLE tallies")  # of other tests
    await check_revisions_known(catalogue, holdings, "abc")
    meter = await catalogue.create_meter("default", MeterDraft("m", "m", Aggregation.COUNT, "t"), 5)
    log = next(fresh_numbers)
    known = TallyRow(meter.revision, "s", "[]", 0, log, 0, 0, 0, 1, 1, 0, 1, 1, 0, 0, bytes(16), 1)
    await usage_store.write(Flush(tallies=[known]))
    await check_revisions_known(catalogue, holdings, "abc")
    forgotten = await catalogue.catalogue_version() + 2
    await usage_store.write(Flush(tallies=[known._replace(revision=forgotten)]))
    with pytest.raises(Unsuitable) as caught:
        await check_revisions_known(catalogue, holdings, "abc")
    words = str(caught.value)
    assert f"older than the usage store: revision {forgotten} of a meter was counted" in words
    assert f"knows revisions up to {forgotten - 2}. It was restored" in words
    assert "set usage_lost to abc" in words
    await usage_store.connection.execute("TRUNCATE TABLE tallies")


async def test_a_meter_that_is_made_while_it_is_asked_is_not_forgotten() -> None:
    """Another process counts it before the usage store answers."""
    made = 6

    class Asked:
        versions: ClassVar = [made - 1, made]

        async def catalogue_version(self) -> int:
            return int(self.versions.pop(0))

        async def revision_above(self, revision: int) -> int | None:
            return made if revision < made else None

    asked = Asked()
    await check_revisions_known(asked, asked, "abc")
    assert asked.versions == []


async def seal_first(database: Database, log: int, sealed: int) -> None:
    """Seal so many of the slices."""
    progress = SqlProgressStore(database)
    for slice_ in COUNTED[:sealed]:
        await progress.seal(seal(log, PARTITION, slice_))
