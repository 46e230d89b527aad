"""What only the SQLite log does: trimming, times, locks, faults of the disk."""

import asyncio
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from meterline.backends.clock import SystemClock
from meterline.backends.sqlite_log import DATABASE_NAME, SqliteLog, open_sqlite_log
from meterline.ports import Unavailable, Unsuitable


@dataclass(slots=True)
class HandClock:
    """A clock that stands until it is moved, also back."""

    at_ms: int = 1_000_000

    def now_ms(self) -> int:
        return self.at_ms


async def run(program: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """A Python program in a process of its own, given the folder."""
    command = [sys.executable, "-c", program, str(folder)]
    return await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, check=False
    )


async def values(log: SqliteLog, partition: int = 0) -> list[tuple[int, bytes]]:
    return [(r.offset, r.value) for r in await log.read(partition, 0, 1000)]


async def test_trimming_keeps_to_both_bounds_and_offsets_go_on(tmp_path: Path) -> None:
    clock = HandClock()
    log = open_sqlite_log(tmp_path, 2, clock)
    for number in range(6):
        await log.append(0, b"%d" % number)
        clock.at_ms += 10
    await log.append(1, b"other")

    await log.trim(0, before=4, older_than_ms=1_000_030)
    assert [offset for offset, _ in await values(log)] == [3, 4, 5]
    await log.trim(0, before=4, older_than_ms=9_000_000)
    assert await log.begin(0) == 4
    await log.trim(0, before=100, older_than_ms=9_000_000)
    assert await values(log) == []
    assert await log.begin(0) == await log.end(0) == 6
    assert await values(log, 1) == [(0, b"other")]
    await log.append(0, b"next")
    assert await values(log) == [(6, b"next")]
    await log.close()

    again = open_sqlite_log(tmp_path, 2, clock)
    await again.trim(0, before=100, older_than_ms=9_000_000)
    await again.close()
    third = open_sqlite_log(tmp_path, 2, clock)
    await third.append(0, b"after")
    assert await values(third) == [(7, b"after")]
    await third.close()


async def test_reading_from_before_the_oldest_gives_the_oldest(tmp_path: Path) -> None:
    log = open_sqlite_log(tmp_path, 1, HandClock())
    for number in range(5):
        await log.append(0, b"%d" % number)
    await log.trim(0, before=3, older_than_ms=9_000_000)
    assert await values(log) == [(3, b"3"), (4, b"4")]
    await log.close()


async def test_append_times_never_go_back(tmp_path: Path) -> None:
    clock = HandClock()
    log = open_sqlite_log(tmp_path, 2, clock)
    await log.append(0, b"a")
    clock.at_ms -= 500_000
    await log.append(1, b"b")
    await log.close()
    log = open_sqlite_log(tmp_path, 2, clock)
    await log.append(0, b"c")
    clock.at_ms += 600_000
    await log.append(0, b"d")
    times = [r.append_ms for r in await log.read(0, 0, 9)]
    assert times == [1_000_000, 1_000_000, 1_100_000]
    assert [r.append_ms for r in await log.read(1, 0, 9)] == [1_000_000]
    await log.close()


async def test_a_second_opening_is_refused_here_and_elsewhere(tmp_path: Path) -> None:
    log = open_sqlite_log(tmp_path, 1, SystemClock())
    with pytest.raises(Unsuitable, match="another process uses the log"):
        open_sqlite_log(tmp_path, 1, SystemClock())
    program = (
        "import sys; from pathlib import Path\n"
        "from meterline.backends.clock import SystemClock\n"
        "from meterline.backends.sqlite_log import open_sqlite_log\n"
        "open_sqlite_log(Path(sys.argv[1]), 1, SystemClock())\n"
    )
    other = await run(program, tmp_path)
    assert other.returncode == 1
    assert "another process uses the log" in other.stderr
    await log.close()
    await open_sqlite_log(tmp_path, 1, SystemClock()).close()


async def test_acknowledged_records_outlive_a_kill(tmp_path: Path) -> None:
    program = (
        "import asyncio, os, sys; from pathlib import Path\n"
        "from meterline.backends.clock import SystemClock\n"
        "from meterline.backends.sqlite_log import open_sqlite_log\n"
        "async def run():\n"
        "    log = open_sqlite_log(Path(sys.argv[1]), 1, SystemClock())\n"
        "    for number in range(50):\n"
        "        await log.append(0, b'%d' % number)\n"
        "    os._exit(9)\n"
        "asyncio.run(run())\n"
    )
    killed = await run(program, tmp_path)
    assert killed.returncode == 9
    log = open_sqlite_log(tmp_path, 1, SystemClock())
    assert [value for _, value in await values(log)] == [b"%d" % n for n in range(50)]
    assert await log.end(0) == 50
    await log.close()


async def test_a_broken_database_is_told(tmp_path: Path) -> None:
    (tmp_path / DATABASE_NAME).write_bytes(b"this is no database" * 1000)
    with pytest.raises(Unsuitable, match="is damaged: restore"):
        open_sqlite_log(tmp_path, 1, SystemClock())


async def test_a_failed_commit_is_told_to_all_and_the_log_goes_on(tmp_path: Path) -> None:
    log = open_sqlite_log(tmp_path, 2, SystemClock())
    await log.append(0, b"a")
    breaker = sqlite3.connect(tmp_path / DATABASE_NAME, isolation_level=None)
    breaker.execute(
        "CREATE TRIGGER full BEFORE INSERT ON records_1 "
        "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
    )
    outcomes = await asyncio.gather(
        log.append(1, b"b"), log.append(1, b"c"), return_exceptions=True
    )
    assert all(isinstance(outcome, Unavailable) for outcome in outcomes)
    assert "disk is full" in str(outcomes[0])
    breaker.execute("DROP TRIGGER full")
    breaker.close()
    await log.append(1, b"d")
    await log.append(0, b"e")
    assert [value for _, value in await values(log)] == [b"a", b"e"]
    assert [value for _, value in await values(log, 1)] == [b"d"]
    await log.close()


async def test_a_writer_that_ended_is_told_to_each_that_comes(tmp_path: Path) -> None:
    log = open_sqlite_log(tmp_path, 1, SystemClock(), deadline_ms=2_000)
    await log.append(0, b"a")
    breaker = sqlite3.connect(tmp_path / DATABASE_NAME, isolation_level=None)
    breaker.execute(
        "CREATE TRIGGER full BEFORE INSERT ON records_0 "
        "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
    )
    breaker.execute("DELETE FROM log")  # and it cannot find out where it was
    breaker.close()
    first = asyncio.create_task(log.append(0, b"b"))
    with pytest.raises(Unavailable, match="in time"):
        await first
    for ask in (log.append(0, b"c"), log.end(0), log.begin(0)):
        with pytest.raises(Unavailable, match=r"not written any more.*Start the process again"):
            await ask
    assert [value for _, value in await values(log)] == [b"a"]
    await log.close()


async def test_a_lock_that_does_not_end_is_unavailable_in_time(tmp_path: Path) -> None:
    log = open_sqlite_log(tmp_path, 1, SystemClock())
    await log.append(0, b"a")
    await log.close()
    log = open_sqlite_log(tmp_path, 1, SystemClock(), deadline_ms=200)
    holder = sqlite3.connect(tmp_path / DATABASE_NAME, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="in time"):
        await log.append(0, b"b")
    with pytest.raises(Unavailable, match="in time"):
        await log.append(0, b"given up before it was taken")
    holder.execute("ROLLBACK")
    holder.close()
    async with asyncio.timeout(60):
        while True:
            try:
                await log.append(0, b"c")
                break
            except Unavailable:
                continue
    found = [value for _, value in await values(log)]
    assert found[0] == b"a"
    assert found[-1] == b"c"
    assert b"given up before it was taken" not in found
    await log.close()


async def test_a_closed_log_says_so(tmp_path: Path) -> None:
    log = open_sqlite_log(tmp_path, 1, SystemClock())
    pending = asyncio.create_task(log.append(0, b"a"))
    await asyncio.sleep(0)
    await log.close()
    await pending  # what was under way is finished first
    with pytest.raises(Unavailable, match="closed"):
        await log.append(0, b"b")


async def test_an_append_is_news_once(tmp_path: Path) -> None:
    log = open_sqlite_log(tmp_path, 2, HandClock())
    waiting = asyncio.create_task(log.news(3_600))
    await asyncio.sleep(0)
    assert not waiting.done()
    await log.append(1, b"a")
    await waiting
    await log.append(0, b"b")
    await log.news(3_600)  # of before it was asked for
    again = asyncio.create_task(log.news(3_600))
    await log.end(0)
    assert not again.done(), "a question is no news"
    again.cancel()
    await log.news(0)  # the wait is over
    await log.close()


@pytest.mark.parametrize("partitions", [0, -1, 100_000])
async def test_impossible_numbers_of_partitions(tmp_path: Path, partitions: int) -> None:
    with pytest.raises(Unsuitable, match="1 to 1024"):
        open_sqlite_log(tmp_path, partitions, SystemClock())


async def test_a_question_writes_until_the_disk_takes_a_write_again(tmp_path: Path) -> None:
    log = open_sqlite_log(tmp_path, 1, HandClock())
    other = sqlite3.connect(tmp_path / DATABASE_NAME, isolation_level=None)
    full = "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
    other.execute(f"CREATE TRIGGER full BEFORE UPDATE ON log {full}")
    assert await log.end(0) == 0, "as long as no write was refused, a question asks only"
    with pytest.raises(Unavailable, match="disk is full"):
        await log.append(0, b"x")
    with pytest.raises(Unavailable, match="disk is full"):
        await log.end(0)
    other.execute("DROP TRIGGER full")
    other.close()
    assert await log.end(0) == 0
    await log.append(0, b"x")
    assert await values(log) == [(0, b"x")]
    await log.close()
