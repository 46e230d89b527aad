"""An archive is written while other processes go on: what they drop meanwhile is noticed."""

import asyncio
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from aggregator.catch_up import CountedMeanwhile
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database, open_database
from meterline.backends.control_store.progress.partitions import growth
from meterline.backends.control_store.tables.blocks import blocks
from meterline.backends.control_store.tables.erasures import erasures
from meterline.backends.control_store.tables.meters import logs, usage_store
from meterline.backends.control_store.tables.retention import retention_notices
from meterline.backends.sqlite_log import SqliteLog, open_sqlite_log
from meterline.event import Growth, Layout
from meterline.limits import ARCHIVE_ERASING_MS, ARCHIVE_TRIES
from meterline.ports import Unavailable
from meterline.runtime.archive.files import Archive
from meterline.runtime.archive.manifest import Manifest
from meterline.runtime.archive.writing import Source, write_archive

Act = Callable[[Connection], Awaitable[Any]]


@dataclass(slots=True)
class SteppingClock:
    """A clock that goes on by a step whenever it is asked."""

    step_ms: int = 1
    at_ms: int = 1_000_000

    def now_ms(self) -> int:
        self.at_ms += self.step_ms
        return self.at_ms


@dataclass(slots=True)
class Rows:
    """A usage store with one row in each table. Something happens while a table is read."""

    database: Database
    happens: dict[str, list[Act]] = field(default_factory=dict)
    asked: list[Sequence[int]] = field(default_factory=list)  # blocks

    async def tables(self) -> dict[str, list[str]]:
        return {"usage_by_hour": ["block"], "tallies": ["log"]}

    async def rows(self, table: str, *bounds: Any) -> AsyncGenerator[None, None]:
        *_, blocks, take = bounds
        self.asked.append(blocks)
        if acts := self.happens.get(table):
            await self.database.write(acts.pop(0))
        take(b"row\n")
        yield


@dataclass(slots=True)
class Gone:
    """What is asked of records that the log has no more; some are counted meanwhile."""

    counted_meanwhile: int = 0  # times
    asked: list[tuple[int, int, int]] = field(default_factory=list)

    async def __call__(self, partition: int, counted: int, begin: int) -> None:
        self.asked.append((partition, counted, begin))
        assert self.counted_meanwhile, f"partition {partition} begins at {begin}, not at {counted}"
        if len(self.asked) <= self.counted_meanwhile:
            raise CountedMeanwhile("another worker has counted records")


@dataclass(slots=True)
class Installation:
    """Stores of which archives are made."""

    database: Database
    log: SqliteLog
    usage: Rows
    folder: Path
    clock: SteppingClock = field(default_factory=SteppingClock)
    gone: Gone = field(default_factory=Gone)
    told: list[str] = field(default_factory=list)
    first_line: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, line: str) -> None:
        self.told.append(line)
        self.first_line.set()

    async def backup(self) -> Manifest:
        source = Source(self.log, self.database, self.usage, self.gone, self.clock)
        return await write_archive(self.folder, source, self.tell)

    async def put(self, table: Any, **values: object) -> None:
        async def act(connection: Connection) -> None:
            await connection.execute(table.insert(), [values])

        await self.database.write(act)


@pytest.fixture
async def there(tmp_path: Path, migrated: Path) -> AsyncIterator[Installation]:
    shutil.copy(migrated, tmp_path / "control.db")
    database = open_database(f"sqlite:///{tmp_path / 'control.db'}")
    log = open_sqlite_log(tmp_path, 4, SteppingClock())
    log.number = 1
    made = Installation(database, log, Rows(database), tmp_path / "archive")
    await made.put(usage_store, one=1, id="usage")
    yield made
    await log.close()
    await database.close()


def notice(period: str, begun_at_ms: int | None) -> dict[str, object]:
    common = {"before_ms": 0, "latest_ms": 0, "catalogue": 1, "given_at_ms": 1}
    return {"table_name": "tallies", "period": period, "begun_at_ms": begun_at_ms, **common}


def begin_drop(at_ms: int) -> Act:
    async def act(connection: Connection) -> None:
        where = retention_notices.c.period == "202601"
        await connection.execute(retention_notices.update().where(where).values(begun_at_ms=at_ms))

    return act


def block(number: int, state: str) -> dict[str, object]:
    common = {"log": 1, "stretches": "[]", "revision_after": 0, "revision_upto": 1}
    times = {"begin_ms": 0, "end_ms": 0, "changed_at_ms": 1}
    return {"number": number, "state": state, "row_counts": "{}", **common, **times}


def change_blocks(state: str) -> Act:
    async def act(connection: Connection) -> None:
        await connection.execute(blocks.update().values(state=state))

    return act


def erasure(state: str) -> dict[str, object]:
    names = {"id": "E", "namespace": "default", "subject": "s", "pseudonym": "p", "state": state}
    return {**names, "asked_at_ms": 1, "log": 0, "firsts": "{}", "ends": "{}"}


@pytest.mark.parametrize("table", ["usage_by_hour", "tallies"])
async def test_minutes_that_are_dropped_meanwhile_begin_a_backup_anew(
    there: Installation, table: str
) -> None:
    await there.put(retention_notices, **notice("202512", 5))
    await there.put(retention_notices, **notice("202601", None))
    there.usage.happens[table] = [begin_drop(7)]
    manifest = await there.backup()
    assert [it for it in there.told if "anew" in it] == [
        "usage by minute was dropped meanwhile: the backup begins anew"
    ]
    lines = list(Archive(there.folder).lines("control/retention_notices.ndjson.gz", heads=1))
    assert b"202601" in lines[2]
    assert lines[2].endswith(b",7]\n"), "it says that they may be gone"
    assert manifest.file("control/retention_notices.ndjson.gz").rows == 2


async def test_minutes_whose_drop_had_begun_are_no_hindrance(there: Installation) -> None:
    await there.put(retention_notices, **notice("202512", 5))
    await there.backup()
    assert not [it for it in there.told if "anew" in it]


async def test_blocks_that_were_replaced_are_left_out(there: Installation) -> None:
    for number, state in ((1, "replaced"), (2, "readable"), (3, "making"), (4, "gone")):
        await there.put(blocks, **block(number, state))
    await there.backup()
    assert there.usage.asked == [[2], [2]]


async def test_blocks_may_be_replaced_while_they_are_read(there: Installation) -> None:
    await there.put(blocks, **block(2, "readable"))
    there.usage.happens["usage_by_hour"] = [change_blocks("replaced")]
    await there.backup()
    assert there.usage.asked == [[2], [2]]


async def test_blocks_that_are_dropped_meanwhile_begin_a_backup_anew(there: Installation) -> None:
    await there.put(blocks, **block(2, "readable"))
    there.usage.happens["usage_by_hour"] = [change_blocks("gone")]
    await there.backup()
    assert there.usage.asked == [[2], [], []]


async def test_records_that_are_counted_and_dropped_meanwhile_begin_a_backup_anew(
    there: Installation,
) -> None:
    await there.log.put_back(2, 7, [])
    there.gone.counted_meanwhile = 1
    await there.backup()
    assert there.gone.asked == [(2, 0, 7)] * 2
    assert [it for it in there.told if "anew" in it] == [
        "records were counted, and dropped from the log, meanwhile: the backup begins anew"
    ]


def drop_another(number: int) -> Act:
    async def act(connection: Connection) -> None:
        await connection.execute(retention_notices.insert(), [notice(f"20250{number}", 3)])

    return act


async def test_a_backup_that_is_always_overtaken_fails(there: Installation) -> None:
    there.usage.happens["tallies"] = [drop_another(number) for number in range(ARCHIVE_TRIES)]
    with pytest.raises(Unavailable, match=rf"dropped meanwhile, {ARCHIVE_TRIES} times\. Empty"):
        await there.backup()
    assert not (there.folder / "manifest.json").exists()


async def test_a_backup_waits_for_an_erasure(there: Installation) -> None:
    await there.put(erasures, **erasure("copying"))

    async def done(connection: Connection) -> None:
        await connection.execute(erasures.update().values(state="done"))

    backup = asyncio.ensure_future(there.backup())
    await there.first_line.wait()
    await there.database.write(done)
    await backup
    assert there.told[0] == "a subject is being erased: the backup begins after it"
    assert there.usage.asked


async def test_a_backup_does_not_wait_for_ever(there: Installation) -> None:
    await there.put(erasures, **erasure("asked"))
    there.clock.step_ms = ARCHIVE_ERASING_MS
    with pytest.raises(Unavailable, match=r"erased for 30 minutes: try again when no erasure"):
        await there.backup()


GROWN = Layout(4, (Growth(2, 4, 100),))


async def begin_growth(connection: Connection) -> None:
    await growth.begin(connection, 1, GROWN, 5)


async def end_growth(connection: Connection) -> None:
    for partition in range(2):
        await growth.pass_mark(connection, 1, partition, 4, 0)


async def test_a_log_that_grows_meanwhile_begins_a_backup_anew(there: Installation) -> None:
    """Its marks may be in what was read, and what they divide is not."""
    there.log.lay_out(Layout(2))
    await there.put(logs, number=1, id="log", partitions=2)
    there.usage.happens["tallies"] = [begin_growth]
    with pytest.raises(Unavailable, match="the log is getting more partitions: try again when"):
        await there.backup()
    assert there.told[-1] == (
        "the log began to get more partitions meanwhile: the backup begins anew"
    )
    assert not (there.folder / "manifest.json").exists()


async def test_a_log_that_has_grown_since_it_was_opened_is_whole_in_a_backup(
    there: Installation,
) -> None:
    for heir in (2, 3):
        await there.log.put_back(heir, 100, [])
    there.log.lay_out(Layout(2))
    await there.put(logs, number=1, id="log", partitions=2)
    await there.database.write(begin_growth)
    await there.database.write(end_growth)
    manifest = await there.backup()
    assert there.log.partitions == 4
    assert [it.counted for it in manifest.log.partitions] == [0, 0, 100, 100]
