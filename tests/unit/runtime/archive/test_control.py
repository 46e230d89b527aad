"""The control store of an archive is there as a whole, under its new names, or not at all."""

import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import select, text

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database, open_database
from meterline.backends.control_store.migrations.migrated import newest, number_of
from meterline.backends.control_store.tables import whole
from meterline.backends.control_store.tables.meters import logs, usage_store
from meterline.runtime.archive.control import Become, SealedInArchive, put_control, tables_of
from meterline.runtime.archive.files import Archive, NewArchive
from meterline.runtime.archive.writing import TableHead
from tests.unit.runtime.archive.test_manifest import MANIFEST

BECOME = Become("new log", "[4,0]", "new usage")


def archived(
    folder: Path,
    tables: Mapping[str, tuple[whole.Columns, Sequence[Sequence[Any]]]],
    migration: int,
) -> Archive:
    made = NewArchive(folder)
    for name, (columns, rows) in tables.items():
        with made.file(f"control/{name}.ndjson.gz") as lines:
            lines.write(msgspec.json.encode(TableHead(name, columns)) + b"\n", 0)
            for row in rows:
                lines.write(msgspec.json.encode(row) + b"\n")
    made.finish(msgspec.structs.replace(MANIFEST, files=made.files, migration=migration))
    return Archive(folder)


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Of a build before the newest one: its log has no `firsts`."""
    tables = {
        "logs": ([(name, "plain") for name in ("number", "id", "partitions")], [[1, "old", 2]]),
        "usage_store": ([("one", "plain"), ("id", "plain")], [[1, "old usage"]]),
    }
    return archived(tmp_path / "archive", tables, 26)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    made = open_database(f"sqlite:///{tmp_path / 'new.db'}")
    yield made
    await made.close()


async def names(connection: Connection) -> list[Any]:
    rows = await connection.execute(select(logs.c.number, logs.c.id, logs.c.firsts))
    stores = await connection.execute(select(usage_store.c.id))
    return [*map(tuple, rows), *map(tuple, stores)]


async def test_an_older_archive_is_brought_on_and_renamed(
    archive: Archive, database: Database
) -> None:
    assert tables_of(archive.manifest) == ["logs", "usage_store"]
    assert await put_control(archive, database, BECOME, pause=True) == 0
    assert await number_of(database) == newest()
    assert await database.read(names) == [(1, "new log", "[4,0]"), ("new usage",)]


async def test_what_is_broken_off_before_the_names_leaves_nothing(
    tmp_path: Path, migrated: Path, archive: Archive
) -> None:
    shutil.copy(migrated, tmp_path / "control.db")
    database = open_database(f"sqlite:///{tmp_path / 'control.db'}")

    async def forbid(connection: Connection) -> None:
        stop = "CREATE TRIGGER stop BEFORE UPDATE ON logs BEGIN SELECT RAISE(ABORT, 'stop'); END"
        await connection.execute(text(stop))

    await database.write(forbid)
    with pytest.raises(Exception, match="stop"):
        await put_control(archive, database, BECOME, pause=True)
    assert not await database.read(whole.is_used), "a store that looks whole would be counted into"
    await database.close()


async def test_an_empty_database_stays_empty_where_rows_are_damaged(
    tmp_path: Path, database: Database
) -> None:
    tables = {"logs": ([("number", "plain"), ("id", "plain")], [[1, "old", 2]])}
    damaged = archived(tmp_path / "archive", tables, newest())
    with pytest.raises(ValueError, match="longer"):
        await put_control(damaged, database, BECOME, pause=False)
    assert await number_of(database) == 0


async def test_the_secrets_of_the_newest_reports_are_tried(tmp_path: Path) -> None:
    columns = [("id", "plain"), ("signing_secret_sealed", "bytes")]
    rows = [[f"{number:03d}", b"%d" % number] for number in range(5)]
    sealed = SealedInArchive(archived(tmp_path / "archive", {"reports": (columns, rows)}, 28))
    assert await sealed.sealed_secrets(2) == [b"4", b"3"]
    assert len(await sealed.sealed_secrets(100)) == 5
