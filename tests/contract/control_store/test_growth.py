"""The steps that give a log more partitions, over a log in memory that can grow."""

from dataclasses import dataclass, field

import pytest

from ingest.growth import begin_growth, set_marks
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.event import Layout, RecordKind, decode_mark
from meterline.limits import GROWTH_OFFSETS
from meterline.ports import Unavailable, Unsuitable
from tests.unit.ingest.test_publisher import MemoryLog


@dataclass(slots=True)
class GrowingMemoryLog(MemoryLog):
    """It keeps what it is told, in order."""

    deeds: list[object] = field(default_factory=list)
    away: bool = False

    async def append(
        self, partition: int, value: bytes, kind: RecordKind = RecordKind.PACK
    ) -> None:
        assert kind is RecordKind.MARK
        self.deeds.append((partition, decode_mark(value)))

    async def end(self, partition: int) -> int:
        return 10 * partition

    def lay_out(self, layout: Layout) -> None:
        self.partitions = layout.partitions

    async def grow(self, partitions: int) -> None:
        if self.away:
            raise Unavailable("the log is away")
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
    assert log.deeds == [8, (0, 8), (1, 8), (2, 8), (3, 8)]


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


async def test_a_number_that_a_log_cannot_have_changes_nothing(
    progress: SqlProgressStore,
) -> None:
    log = GrowingMemoryLog()
    for wanted in (3, 6):
        with pytest.raises(Unsuitable, match="the log has 4 partitions"):
            await begin_growth(log, progress, wanted, 5)
    assert await progress.layout(1) == Layout(4)
    assert log.deeds == []
