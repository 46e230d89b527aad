"""The file of the embedded log: what is trimmed is given back to the disk."""

import asyncio
import os
import sqlite3
from pathlib import Path

from meterline.backends.clock import SystemClock
from meterline.backends.sqlite_log import DATABASE_NAME, SqliteLog, open_sqlite_log

PARTITIONS = 2
RECORDS, BYTES = 300, 100_000
VALUE = os.urandom(BYTES)
KEPT = 20


async def filled(folder: Path) -> SqliteLog:
    log = open_sqlite_log(folder, PARTITIONS, SystemClock())
    for _ in range(RECORDS // 20):
        await asyncio.gather(*(log.append(n, VALUE) for n in range(PARTITIONS) for _ in range(20)))
    return log


async def trimmed(log: SqliteLog) -> None:
    for number in range(PARTITIONS):
        await log.trim(number, RECORDS - KEPT, SystemClock().now_ms() + 60_000)


def size(folder: Path) -> int:
    """Of a log that is closed."""
    return (folder / DATABASE_NAME).stat().st_size


async def check_kept(folder: Path) -> None:
    log = open_sqlite_log(folder, PARTITIONS, SystemClock())
    for number in range(PARTITIONS):
        assert (await log.begin(number), await log.end(number)) == (RECORDS - KEPT, RECORDS)
        offset = RECORDS - KEPT
        while records := await log.read(number, offset, 16):
            assert {record.value for record in records} == {VALUE}
            offset = records[-1].offset + 1
        assert offset == RECORDS
    await log.close()


async def test_room_is_given_back_once_much_is_free(tmp_path: Path) -> None:
    log = await filled(tmp_path)
    await trimmed(log)
    await log.close()
    kept = PARTITIONS * KEPT * BYTES
    assert kept < size(tmp_path) < PARTITIONS * RECORDS * BYTES // 2
    await check_kept(tmp_path)


async def test_a_file_of_an_older_build_gives_room_back_too(tmp_path: Path) -> None:
    log = await filled(tmp_path)
    await log.close()
    with sqlite3.connect(tmp_path / DATABASE_NAME) as older:
        older.execute("PRAGMA auto_vacuum = NONE")
        older.execute("VACUUM")
        assert older.execute("PRAGMA auto_vacuum").fetchone() == (0,)
    older.close()
    full = size(tmp_path)
    log = open_sqlite_log(tmp_path, PARTITIONS, SystemClock())
    await trimmed(log)
    await log.close()
    assert size(tmp_path) < full // 2
    await check_kept(tmp_path)
