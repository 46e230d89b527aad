"""What is not counted yet is in an archive, whatever of the log expires meanwhile."""

from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from aggregator.catch_up import CountedMeanwhile, LogTruncated
from meterline.event import Record, RecordKind
from meterline.limits import ARCHIVE_LOG_TRIES
from meterline.ports import Unavailable, Unsuitable
from meterline.runtime.archive.files import Archive, NewArchive
from meterline.runtime.archive.manifest import Stretch, without_gaps
from meterline.runtime.archive.uncounted import ArchivedRecord, NothingLost, write_log
from tests.unit.runtime.archive.test_manifest import MANIFEST

NOW_MS = 9_000


@dataclass(slots=True)
class OnePartition:
    """A log of one partition, whose first records expire when it is read."""

    begins: int
    ends: int
    expires: int = 0  # before this offset, at the next reading
    busy: int = 0  # questions in a row that are not answered in time
    asked: int = 0
    id: str = "log"
    number: int = 1
    partitions: int = 1
    routes: int = 1

    async def append(self, *_: object, **__: object) -> None:
        raise AssertionError("a backup appends nothing")

    def _ask(self) -> None:
        self.asked += 1
        if self.busy:
            self.busy -= 1
            raise Unavailable("the log was not written in time")

    async def read(self, partition: int, offset: int, records_max: int) -> list[Record]:
        self._ask()
        self.begins = max(self.begins, self.expires)
        offsets = range(max(offset, self.begins), self.ends)[:records_max]
        return [Record(partition, it, 10 * it, RecordKind.PACK, b"[1]", self.id) for it in offsets]

    async def begin(self, *_: object, **__: object) -> int:
        self._ask()
        return self.begins

    async def end(self, *_: object, **__: object) -> int:
        self._ask()
        return self.ends

    async def trim(self, *_: object, **__: object) -> None:
        raise AssertionError("a backup drops nothing")

    async def close(self) -> None:
        raise AssertionError("a backup closes nothing")

    def lay_out(self, *_: object) -> None:
        raise AssertionError("a backup lays nothing out")

    def home(self, *_: object) -> int:
        raise AssertionError("a backup asks for no home")


async def empty(*_: int) -> None:
    """What is gone had no events."""


async def events(*_: int) -> None:
    raise LogTruncated("events are lost")


async def written(
    log: OnePartition, folder: Path, counted: int, check: NothingLost
) -> tuple[Stretch, list[tuple[int, int, bytes]]]:
    """The stretch of the archive, and what a restore puts back."""
    archive = NewArchive(folder / "archive")
    found = await write_log(archive, log, {0: counted}, check, NOW_MS)
    archive.finish(msgspec.structs.replace(MANIFEST, files=archive.files, log=found))
    lines = Archive(archive.folder).lines("log/0.ndjson.gz")
    read = [msgspec.json.decode(line, type=ArchivedRecord) for line in lines]
    kinds = [RecordKind(it.kind) for it in read]
    records = [
        Record(0, it.offset, it.append_ms, kind, it.value, "new")
        for it, kind in zip(read, kinds, strict=True)
    ]
    (stretch,) = found.partitions
    whole = without_gaps(iter(records), stretch.first, stretch.end)
    return stretch, [(one.offset, one.append_ms, one.value) for one in whole]


@pytest.mark.parametrize(("begins", "first"), [(0, 1), (1, 1), (2, 2)])
async def test_the_last_counted_record_is_there_if_the_log_has_it(
    tmp_path: Path, begins: int, first: int
) -> None:
    stretch, records = await written(OnePartition(begins, 4), tmp_path, 2, events)
    assert stretch == Stretch(first, 4, 2)
    assert records == [(at, 10 * at, b"[1]") for at in range(first, 4)]


async def test_the_last_counted_record_may_expire(tmp_path: Path) -> None:
    stretch, records = await written(OnePartition(0, 4, expires=2), tmp_path, 2, events)
    assert (stretch, len(records)) == (Stretch(2, 4, 2), 2)


async def test_empty_packs_that_expired_are_put_back(tmp_path: Path) -> None:
    stretch, records = await written(OnePartition(4, 5), tmp_path, 2, empty)
    assert stretch == Stretch(2, 5, 2)
    assert records == [(2, 40, b"[]"), (3, 40, b"[]"), (4, 40, b"[1]")]


async def test_an_idle_partition_may_have_no_record_at_all(tmp_path: Path) -> None:
    stretch, records = await written(OnePartition(4, 4), tmp_path, 2, empty)
    assert stretch == Stretch(2, 4, 2)
    assert records == [(2, NOW_MS, b"[]"), (3, NOW_MS, b"[]")], "so it ends where it ended"


@pytest.mark.parametrize("ends", [0, 4])
async def test_all_may_be_counted_and_gone(tmp_path: Path, ends: int) -> None:
    stretch, records = await written(OnePartition(ends, ends), tmp_path, ends, events)
    assert (stretch, records) == (Stretch(ends, ends, ends), [])


async def test_events_that_expired_before_they_were_counted_end_a_backup(tmp_path: Path) -> None:
    with pytest.raises(Unsuitable, match=r"partition 0: the log begins at offset 3.*from 2 on"):
        await written(OnePartition(3, 4), tmp_path, 2, events)


@pytest.mark.parametrize(("begins", "expires"), [(0, 3), (0, 9), (3, 4)])
async def test_records_that_expire_while_they_are_read_end_a_backup(
    tmp_path: Path, begins: int, expires: int
) -> None:
    with pytest.raises(Unsuitable, match=rf"begins at offset {expires}.*Begin it anew"):
        await written(OnePartition(begins, 6, expires), tmp_path, 2, empty)


async def counted(*_: int) -> None:
    """What is gone is counted by now."""
    raise CountedMeanwhile("another worker has counted records")


@pytest.mark.parametrize(("begins", "expires"), [(3, 0), (0, 3)])
async def test_what_is_counted_and_dropped_meanwhile_is_no_loss(
    tmp_path: Path, begins: int, expires: int
) -> None:
    with pytest.raises(CountedMeanwhile):
        await written(OnePartition(begins, 6, expires), tmp_path, 2, counted)


async def test_a_log_that_is_busy_for_a_while_is_asked_again(tmp_path: Path) -> None:
    log = OnePartition(0, 4, busy=1)
    stretch, records = await written(log, tmp_path, 2, events)
    assert (stretch, len(records)) == (Stretch(1, 4, 2), 3)


async def test_a_log_that_stays_busy_ends_a_backup(tmp_path: Path) -> None:
    log = OnePartition(0, 4, busy=99)
    with pytest.raises(Unavailable, match="in time"):
        await written(log, tmp_path, 2, events)
    assert log.asked == ARCHIVE_LOG_TRIES


async def test_a_log_that_lost_its_end_ends_a_backup(tmp_path: Path) -> None:
    with pytest.raises(LogTruncated, match=r"ends at offset 4, but everything below 5 was"):
        await written(OnePartition(0, 4), tmp_path, 5, empty)
