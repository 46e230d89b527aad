"""The steps that give a log more partitions, over a log in memory that can grow."""

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from aggregator.erasure import ErasedStores, Eraser
from ingest.growth import begin_growth, set_marks
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.progress.erasures import SqlErasureStore
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.event import Layout, Record, RecordKind, decode_mark
from meterline.limits import GROWTH_OFFSETS
from meterline.ports import AccessRefused, Unavailable, Unsuitable
from tests.unit.ingest.test_publisher import HandClock, MemoryLog


@dataclass(slots=True)
class GrowingMemoryLog(MemoryLog):
    """It keeps what it is told, in order."""

    deeds: list[object] = field(default_factory=list)
    away: bool = False
    there: int = 4  # partitions of its topic
    refuses: bool = False
    layout: Layout = field(default_factory=lambda: Layout(4))

    async def append(
        self, partition: int, value: bytes, kind: RecordKind = RecordKind.PACK
    ) -> None:
        assert kind is RecordKind.MARK
        self.deeds.append((partition, decode_mark(value)))

    async def end(self, partition: int) -> int:
        return self.layout.first(partition) + 10 * partition

    async def read(self, *_: int) -> list[Record]:
        return []

    def lay_out(self, layout: Layout) -> None:
        self.layout = layout
        self.partitions = layout.partitions

    async def ask_to_grow(self, partitions: int) -> int:
        if self.refuses:
            raise AccessRefused(f"no right to have {partitions}")
        return self.there

    async def grow(self, partitions: int) -> None:
        if self.away:
            raise Unavailable("the log is away")
        self.there = max(partitions, self.there)
        self.deeds.append(partitions)


@pytest.fixture
async def progress(control_database: Database) -> SqlProgressStore:
    store = SqlProgressStore(control_database)
    assert await store.register_log("memory", 4) == 1
    return store


async def test_partitions_are_registered_before_the_log_has_them(
    progress: SqlProgressStore,
) -> None:
    log = GrowingMemoryLog(away=True)
    with pytest.raises(Unavailable):
        await begin_growth(log, progress, 12, 5)
    assert (await progress.layout(1)).partitions == 12
    log.away = False
    layout = await begin_growth(log, progress, 12, 6)
    assert log.deeds == [12]
    assert log.partitions == 12
    assert layout == await progress.layout(1)
    assert layout.first(4) == 30 + GROWTH_OFFSETS, "above the end of every partition"


async def test_each_partition_of_before_gets_a_mark(progress: SqlProgressStore) -> None:
    log = GrowingMemoryLog()
    await set_marks(log, await begin_growth(log, progress, 8, 5))
    # brokers are asked again: one may have come back
    assert log.deeds == [8, 8, (0, 8), (1, 8), (2, 8), (3, 8)]


async def test_another_number_waits_until_the_growth_has_ended(
    progress: SqlProgressStore,
) -> None:
    log = GrowingMemoryLog()
    await begin_growth(log, progress, 8, 5)
    with pytest.raises(Unsuitable, match="about to have 8 partitions"):
        await begin_growth(log, progress, 16, 6)
    for number in range(4):
        await progress.pass_mark(1, number, 8, 7)
    assert (await begin_growth(log, progress, 16, 8)).partitions == 16


async def test_a_second_growth_begins_above_all_that_came_with_the_first(
    progress: SqlProgressStore,
) -> None:
    first = await begin_growth(GrowingMemoryLog(), progress, 8, 5)
    for number in range(4):
        await progress.pass_mark(1, number, 8, 7)
    # the command is another process each time: it knows of no growth before it asks
    second = await begin_growth(GrowingMemoryLog(there=8), progress, 16, 6)
    greatest = first.first(7) + 70
    assert second.first(8) == greatest + GROWTH_OFFSETS


async def test_a_log_that_may_not_get_partitions_is_registered_without(
    progress: SqlProgressStore,
) -> None:
    for log, error in (
        (GrowingMemoryLog(refuses=True), AccessRefused),
        (GrowingMemoryLog(there=24), Unsuitable),
        (GrowingMemoryLog(there=8), Unsuitable),
    ):
        with pytest.raises(error):
            await begin_growth(log, progress, 12, 5)
        assert log.deeds == []
    assert await progress.layout(1) == Layout(4)


async def test_an_erasure_has_borders_in_partitions_that_came_since(
    progress: SqlProgressStore, control_database: Database
) -> None:
    ledger = SqlErasureStore(control_database)
    log = GrowingMemoryLog()  # of a process that has not looked since
    layout = await begin_growth(GrowingMemoryLog(), progress, 8, 5)
    asked = await ledger.ask("n", "alice", 9)
    unused: Any = None
    stores = ErasedStores(ledger, unused, unused, unused, log, log.close, 0, progress.layout)
    await Eraser(stores, HandClock(), random.Random(0)).turn()
    found = await ledger.erasure("n", asked.id)
    assert found is not None
    assert found.ends == {number: layout.first(number) + 10 * number for number in range(8)}


async def test_a_number_that_a_log_cannot_have_changes_nothing(
    progress: SqlProgressStore,
) -> None:
    log = GrowingMemoryLog()
    for wanted in (3, 6):
        with pytest.raises(Unsuitable, match="the log has 4 partitions"):
            await begin_growth(log, progress, wanted, 5)
    assert await progress.layout(1) == Layout(4)
    assert log.deeds == []
