"""Files of a store that are damaged: a seen store is set aside, a part of a table is named."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from meterline.backends.control_store.engine import open_database
from meterline.backends.control_store.migrate import migrate
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.backends.control_store.progress.seal_ledger import SqlSealLedger
from meterline.backends.rocksdb import RocksSeenStore
from meterline.ports import SeenDamaged, Unavailable
from meterline.usage import SeenRow
from tests.simulation.raw import in_order

pytestmark = pytest.mark.standard  # it starts processes with the embedded ClickHouse

HORIZON_MS = 1_000_000
KEYS = [number.to_bytes(16, "big") for number in range(2_000)]
ROWS = [SeenRow(1, 0, at, 0, 0, 5, key, bytes(8)) for at, key in enumerate(KEYS)]
# chDB opens one folder in a process, so the damage is done in processes of their own.
MAKE_AND_READ = """
import asyncio, sys
from meterline.backends.clickhouse.connection import Connection
from meterline.ports import Unavailable
async def main():
    store = Connection("chdb:" + sys.argv[2])
    if sys.argv[1] == "make":
        await store.execute("CREATE TABLE events (a Int64, text String) ENGINE=MergeTree ORDER BY a"
                            " SETTINGS min_bytes_for_wide_part = 0")
        await store.insert("events", ("a", "text"), [(n, f"x{n * 7919}") for n in range(20_000)])
    else:
        try:
            await store.query("SELECT text FROM events", {})
        except Unavailable as error:
            print(error)
    await store.close()
asyncio.run(main())
"""


def run(step: str, folder: Path) -> str:
    command = [sys.executable, "-c", MAKE_AND_READ, step, str(folder)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_a_damaged_part_is_named_with_its_table(tmp_path: Path) -> None:
    run("make", tmp_path / "usage")
    (column,) = (tmp_path / "usage").rglob("text.bin")
    content = bytearray(column.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 64] = b"\xff" * 64
    column.write_bytes(content)
    said = run("read", tmp_path / "usage")
    assert "Checksum doesn't match" in said
    assert "(table events, part all_1_1_0)" in said


@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST-*"])
def test_a_seen_store_that_cannot_be_opened_is_set_aside(tmp_path: Path, name: str) -> None:
    first = RocksSeenStore(tmp_path, HORIZON_MS)
    first.apply(in_order(ROWS), 2_000)
    first.close()
    for path in tmp_path.rglob(name):
        path.write_bytes(b"rubbish")
    again = RocksSeenStore(tmp_path, HORIZON_MS)
    assert again.applied == 0
    assert again.get_many(KEYS[:1]) == [None]
    again.apply(in_order(ROWS), 2_000)
    again.close()
    assert len(list(tmp_path.glob("*.damaged-1"))) == 1


def test_damage_that_a_read_finds_is_told_and_a_discarded_store_begins_anew(tmp_path: Path) -> None:
    first = RocksSeenStore(tmp_path, HORIZON_MS)
    first.apply(in_order(ROWS), 2_000)
    first.close()
    files = list(tmp_path.rglob("*.sst"))
    assert files
    for path in files:
        content = bytearray(path.read_bytes())
        content[: len(content) // 2] = bytes(byte ^ 0x55 for byte in content[: len(content) // 2])
        path.write_bytes(content)
    again = RocksSeenStore(tmp_path, HORIZON_MS)
    if again.applied:  # else it was found when it was opened
        with pytest.raises(SeenDamaged):
            again.get_many(KEYS)
        again.discard()
        again = RocksSeenStore(tmp_path, HORIZON_MS)
    assert again.applied == 0
    again.close()
    assert len(list(tmp_path.glob("*.damaged-1"))) == 1


@pytest.mark.parametrize("in_journal", [True, False])
async def test_a_header_that_is_lost_is_read_from_the_journal_or_told(
    tmp_path: Path, *, in_journal: bool
) -> None:
    """As after a kill: SQLite's journal is there, with the first page in it or without."""
    whole, damaged = tmp_path / "whole.db", tmp_path / "damaged.db"
    database = open_database(f"sqlite:///{whole}")
    await migrate(database)
    if not in_journal:
        await database.close()  # it is written into the file
        database = open_database(f"sqlite:///{whole}")
    await SqlProgressStore(database).register_log("log", 1)
    for end in ("", "-wal"):
        shutil.copy(f"{whole}{end}", f"{damaged}{end}")
    await database.close()
    with damaged.open("r+b") as file:
        file.write(b"\xa5" * 100)
    database = open_database(f"sqlite:///{damaged}")
    if in_journal:
        await migrate(database)
        assert await SqlSealLedger(database).knows_log("log")
    else:
        with pytest.raises(Unavailable, match="is damaged"):
            await migrate(database)
    await database.close()
