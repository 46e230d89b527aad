"""The definitions of chDB's tables: an unchanged start writes none, a damaged one is made anew.

chDB opens one folder in a process, so each start is a process of its own.
"""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from meterline.backends.clickhouse.chdb.folder import mend
from meterline.backends.clickhouse.named_sql import TABLES
from meterline.backends.clickhouse.schema import definition, is_whole, missing
from meterline.ports import Unsuitable

pytestmark = pytest.mark.standard  # it starts processes with the embedded ClickHouse

START = """
import asyncio, os, signal, sys
from pathlib import Path
from meterline.backends.clickhouse.chdb.folder import mend
from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.holdings import ClickHousePeriods
from meterline.backends.clickhouse.named_sql import QUERIES, TABLES as OURS
from meterline.backends.clickhouse.schema import missing
from meterline.backends.clickhouse.store import ClickHouseUsageStore
TABLES = sys.argv[2].split(",")
async def main():
    print(",".join(mend(Path(sys.argv[1]))))
    connection = Connection("chdb:" + sys.argv[1])
    store = ClickHouseUsageStore(connection)
    if sys.argv[3] == "by month":
        for table in ("events", "rejects", "seen"):
            await connection.execute(OURS[table].replace("toMonday(", "toYYYYMM("))
        for text in OURS.values():
            if "_by_subject (" in text:
                await connection.execute(text.partition(", min_bytes_for_wide_part")[0])
    await store.create_tables()
    assert missing(await connection.query(QUERIES["schema"], {})) == []
    for table in TABLES if sys.argv[3] in ("write", "by month") else ():
        await connection.execute(f"INSERT INTO {table} SELECT * FROM generateRandom("
            f"(SELECT arrayStringConcat(groupArray(name || ' ' || type), ', ') FROM system.columns"
            f" WHERE table = '{table}' AND database = 'default')) LIMIT 3"
            if table != "installation" else "INSERT INTO installation VALUES ('a'), ('b'), ('c')")
    if sys.argv[3] == "drop":
        periods = ClickHousePeriods(connection)
        for period in await periods.periods():
            await periods.drop(period)
        os.kill(os.getpid(), signal.SIGKILL)
    for table in TABLES:
        rows = await connection.query(f"SELECT count() FROM {table}", {})
        print(table, rows[0][0])
    await store.close()
asyncio.run(main())
"""
NAMES = [name for name, text in TABLES.items() if "CREATE TABLE" in text]
ALL_THERE = [f"{name} 3" for name in NAMES]
DROPPED = ("events", "rejects", "seen", "tallies", "members")  # by periods


def start(folder: Path, step: str = "") -> tuple[list[str], list[str]]:
    """Start a store; the tables whose definitions were made anew, and how many rows each has."""
    command = [sys.executable, "-c", START, str(folder), ",".join(NAMES), step]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    mended, *rows = ended.stdout.splitlines()
    return sorted(filter(None, mended.split(","))), rows


def definitions(folder: Path) -> list[Path]:
    paths = sorted((folder / "store").glob("*/*/*.sql"))
    assert [path.stem for path in paths] == sorted(NAMES)
    return paths


def marks(folder: Path) -> list[tuple[str, int, int]]:
    """What tells that a file was written anew, though to the same words."""
    stats = [(path.name, path.stat()) for path in definitions(folder)]
    return [(name, stat.st_ino, stat.st_mtime_ns) for name, stat in stats]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "usage"
    assert start(folder, "write") == ([], ALL_THERE)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "usage", symlinks=True))


def test_an_unchanged_start_writes_no_definition(folder: Path) -> None:
    before = marks(folder)
    assert start(folder) == ([], ALL_THERE)
    assert marks(folder) == before


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


DAMAGES: tuple[Callable[[Path], None], ...] = (emptied, cut, zeroed, Path.unlink)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_definitions_are_made_anew(folder: Path, damage: Callable[[Path], None]) -> None:
    for path in definitions(folder):
        damage(path)
    assert start(folder) == (sorted(NAMES), ALL_THERE)
    before = marks(folder)
    assert start(folder) == ([], ALL_THERE), "the next start finds them whole"
    assert marks(folder) == before, "and ours are what chDB would have written"


def test_tables_of_an_older_build_keep_their_partitions_by_month(tmp_path: Path) -> None:
    folder = tmp_path / "usage"
    assert start(folder, "by month") == ([], ALL_THERE)
    before = {path.stem: path.read_bytes() for path in definitions(folder)}
    assert b"toYYYYMM" in before["events"]
    for path in definitions(folder):
        emptied(path)
    assert start(folder) == (sorted(NAMES), ALL_THERE)
    for path in definitions(folder):
        assert (b"toYYYYMM" in path.read_bytes()) == (b"toYYYYMM" in before[path.stem]), path.stem


def test_a_process_that_is_killed_when_periods_were_dropped_starts_again(folder: Path) -> None:
    for _ in range(3):
        command = [sys.executable, "-c", START, str(folder), ",".join(NAMES), "drop"]
        ended = subprocess.run(command, check=False, capture_output=True, text=True)
        assert ended.returncode == -signal.SIGKILL, ended.stderr
    mended, rows = start(folder)
    assert mended == []
    kept = [line for line in ALL_THERE if line.split()[0] not in DROPPED]
    assert set(kept) <= set(rows), "what was not dropped is there"


def test_a_format_file_that_is_empty_is_made_anew(folder: Path) -> None:
    for path in (folder / "store").glob("*/*/format_version.txt"):
        path.write_bytes(b"")
    assert start(folder) == ([], ALL_THERE)


def test_a_definition_without_any_rows_is_made_as_if_new(tmp_path: Path) -> None:
    folder = tmp_path / "usage"
    start(folder)
    emptied(next(path for path in definitions(folder) if path.stem == "rejects"))
    (folder / "data" / "default" / "rejects").unlink()
    assert start(folder) == (["rejects"], [f"{name} 0" for name in NAMES])


def test_rows_that_nothing_leads_to_are_not_forgotten(folder: Path) -> None:
    damaged = next(path for path in definitions(folder) if path.stem == "rejects")
    emptied(damaged)
    (folder / "data" / "default" / "rejects").unlink()
    with pytest.raises(Unsuitable, match="the table rejects of the usage store is damaged"):
        mend(folder)
    assert damaged.read_bytes() == b""


def test_a_disk_that_is_full_leaves_a_definition_as_it_was(folder: Path) -> None:
    damaged = next(path for path in definitions(folder) if path.stem == "rejects")
    cut(damaged)
    before = damaged.read_bytes()
    damaged.with_name("rejects.sql.new").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        mend(folder)
    assert damaged.read_bytes() == before
    assert start(folder) == (["rejects"], ALL_THERE)


def test_a_definition_cut_anywhere_is_known_as_damaged() -> None:
    content = definition("rejects", "6e04e3f1-7017-4a13-b505-13c9c7351cc2")
    assert content is not None
    assert is_whole(content)
    assert not any(is_whole(content[:end]) for end in range(len(content)))


def test_nothing_is_asked_of_a_store_that_has_all_and_only_what_is_missing_of_others() -> None:
    assert missing([]) == [TABLES[name] for name in NAMES]
    older = [*(("table", name, "") for name in NAMES), ("column", "rejects", "type")]
    of_rejects, of_events, *others = missing(older)
    along_log, side_by_side, one_part, by_column = (
        others[:4],
        others[4:8],
        others[8:12],
        others[12:],
    )
    assert of_rejects.startswith("ALTER TABLE rejects ADD COLUMN IF NOT EXISTS subject String")
    assert "EXISTS type " not in of_rejects
    assert of_events == TABLES["events_indexes"].replace("\n   ", "")
    tables = ("tallies", "members", "late_tallies", "late_members")
    for statement, table in zip(along_log, tables, strict=True):
        assert statement.startswith(f"ALTER TABLE {table} ADD INDEX IF NOT EXISTS along_log ")
    bases = ("hours", "days", "member_hours", "member_days")
    for statement, table in zip(side_by_side, bases, strict=True):
        assert statement.startswith(f"ALTER TABLE {table}_by_subject MODIFY SETTING min_bytes_")
    merged = "MODIFY SETTING min_age_to_force_merge_seconds"
    for statement, table in zip(one_part, bases, strict=True):
        assert statement.startswith(f"ALTER TABLE {table}_by_subject {merged}")
    many = ("events", "rejects", "tallies", "late_tallies")
    vertical = "MODIFY SETTING vertical_merge_algorithm_min_columns_to_activate = 1"
    assert by_column == [f"ALTER TABLE {table} {vertical}" for table in many]


def test_a_folder_that_is_not_there_needs_nothing(tmp_path: Path) -> None:
    assert mend(tmp_path / "usage") == []
