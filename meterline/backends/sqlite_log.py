"""The log on SQLite: the embedded set-up's (docs/architecture.md, "Ports and set-ups").

One thread writes: it takes whatever waits, and commits it in one transaction with one fsync. One
process owns the folder, held by a file lock. Each partition is a table of its own, so that records
are only ever added at the right edge of a tree. Offsets come from a stored counter: none is reused.
"""

import asyncio
import fcntl
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path
from typing import Final

import structlog
from ulid import ULID

from meterline.backends.log_tasks import Task, TaskQueue, tell
from meterline.backends.sqlite_room import convert, gave_all_back, gave_back
from meterline.event import Layout, Record, RecordKind
from meterline.limits import (
    APPEND_DEADLINE_MS,
    PARTITIONS_MAX,
    READ_BYTES_MAX,
)
from meterline.ports import Clock, Unavailable, Unsuitable

logger: Final = structlog.get_logger()
DATABASE_NAME: Final = "log.sqlite"
LOCK_NAME: Final = "lock"
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
BUSY_TIMEOUT_S: Final = 5.0  # a backup may hold the file for a moment
CHECKPOINT_PAGES: Final = 4_000
TRIM_RECORDS_MAX: Final = 10_000  # of one transaction: appends wait behind it


@dataclass(slots=True)
class _Counters:
    """Next offset by partition, and the last append time of the log, as of the last commit."""

    offsets: list[int] = field(default_factory=list)
    append_ms: int = 0


class SqliteLog:
    """`Log` in a folder of its own, made by `open_sqlite_log`; who registers it sets `number`."""

    def __init__(
        self,
        folder: Path,
        lock: TextIOWrapper,
        log_id: str,
        partitions: int,
        clock: Clock,
        deadline_ms: int,
    ) -> None:
        self.number = 0
        self._id = log_id
        self._layout = Layout(partitions)
        self._clock = clock
        self._deadline_s = deadline_ms / 1000
        self._lock = lock
        self._path = folder / DATABASE_NAME
        self._counters = _Counters()
        self._refused = False  # by the disk: until a write went well, even a question writes
        self._queue = TaskQueue()
        self._appended = asyncio.Event()
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="log-reader")
        self._read_connection = _connect(self._path)
        self._writer = threading.Thread(target=self._write_for_ever, name="log-writer", daemon=True)
        self._writer.start()

    @property
    def id(self) -> str:
        """A ULID, stored when the log was made."""
        return self._id

    @property
    def partitions(self) -> int:
        """As stored when the log was made."""
        return self._layout.partitions

    routes = partitions  # it does not grow

    def lay_out(self, layout: Layout) -> None:
        """See `Log.lay_out`; a log that grew elsewhere was brought here with all its partitions."""
        self._layout = layout

    def home(self, partition: int, offset: int) -> int:
        """See `Log.home`."""
        return self._layout.home(partition, offset)

    async def append(
        self, partition: int, value: bytes, kind: RecordKind = RecordKind.PACK
    ) -> None:
        """See `Log.append`. What is given up before the writer takes it is never written."""
        self._check(partition)

        def insert(connection: sqlite3.Connection) -> None:
            counters = self._counters
            offset = counters.offsets[partition]
            connection.execute(
                f"INSERT INTO records_{partition} VALUES (?, ?, ?, ?)",  # noqa: S608 - an int
                (offset, counters.append_ms, kind.value, value),
            )
            counters.offsets[partition] = offset + 1

        try:
            await self._submit(insert, len(value))
        finally:  # what was not written in time may be written all the same
            self._appended.set()

    async def news(self, timeout_s: float) -> None:
        """Wait for an append of this process since the last call, or so many seconds. For one task,
        of the loop that appends.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._appended.wait()
        self._appended.clear()

    async def read(self, partition: int, offset: int, records_max: int) -> list[Record]:
        """See `Log.read`; stops early at 16 MiB of values."""
        self._check(partition)

        def select() -> list[Record]:
            rows = self._read_connection.execute(
                "SELECT offset, append_ms, kind, value "  # noqa: S608 - an int
                f"FROM records_{partition} WHERE offset >= ? ORDER BY offset LIMIT ?",
                (offset, records_max),
            )
            records: list[Record] = []
            size = 0
            for found, append_ms, kind, value in rows:
                size += len(value)
                if records and size > READ_BYTES_MAX:
                    break
                record = Record(partition, found, append_ms, RecordKind(kind), value, self._id)
                records.append(record)
            rows.close()
            return records

        try:
            return await asyncio.get_running_loop().run_in_executor(self._reader, select)
        except sqlite3.Error as error:
            raise Unavailable(f"the log could not be read: {error}") from error

    async def begin(self, partition: int) -> int:
        """See `Log.begin`."""
        self._check(partition)

        def select(connection: sqlite3.Connection) -> int:
            sql = f"SELECT min(offset) FROM records_{partition}"  # noqa: S608 - an int
            (oldest,) = connection.execute(sql).fetchone()
            return self._counters.offsets[partition] if oldest is None else oldest

        return _as_int(await self._submit(select, 0))

    async def end(self, partition: int) -> int:
        """See `Log.end`: read in a write transaction, behind every append that came before. Raises
        `Unavailable` while the disk takes no write, once it refused one.
        """
        self._check(partition)
        return _as_int(await self._submit(lambda _: self._counters.offsets[partition], 0))

    async def trim(self, partition: int, before: int, older_than_ms: int) -> None:
        """See `Log.trim`. Offsets go on from where they were."""
        self._check(partition)

        def delete(connection: sqlite3.Connection) -> int:
            # append times never go down, so what is old enough is a prefix
            done = connection.execute(
                f"DELETE FROM records_{partition} WHERE offset IN ("  # noqa: S608 - an int
                f"SELECT offset FROM records_{partition} "
                "WHERE offset < ? AND append_ms < ? ORDER BY offset LIMIT ?)",
                (before, older_than_ms, TRIM_RECORDS_MAX),
            )
            return done.rowcount

        while _as_int(await self._submit(delete, 0)) == TRIM_RECORDS_MAX:
            pass
        while _as_int(await self._submit(gave_back, 0)):
            pass

    async def put_back(self, partition: int, offset: int, records: Sequence[Record]) -> None:
        """Of a log that is being restored: records from `offset` on, each as it was. Raises
        `Unavailable`.
        """
        self._check(partition)

        def insert(connection: sqlite3.Connection) -> None:
            rows = [(it.offset, it.append_ms, it.kind.value, it.value) for it in records]
            into = f"INSERT INTO records_{partition} VALUES (?, ?, ?, ?)"  # noqa: S608 - an int
            connection.executemany(into, rows)
            self._counters.offsets[partition] = offset + len(rows)

        await self._submit(insert, 0)

    async def compact(self) -> None:
        """What was trimmed leaves the files, all of it. Appends go on between the steps."""
        while _as_int(await self._submit(gave_all_back, 0)):
            pass
        await asyncio.get_running_loop().run_in_executor(self._reader, self._cut_journal)

    def _cut_journal(self) -> None:
        try:
            self._read_connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            raise Unavailable(f"the log could not be written: {error}") from error

    async def close(self) -> None:
        """See `Log.close`."""
        self._queue.close("the log is closed")
        await asyncio.to_thread(self._writer.join)
        self._reader.shutdown(wait=True)
        self._read_connection.close()
        self._lock.close()

    def _check(self, partition: int) -> None:
        if not 0 <= partition < self._layout.partitions:
            raise ValueError(f"partition {partition} of a log with {self._layout.partitions}")

    async def _submit(self, run: Callable[[sqlite3.Connection], object], size: int) -> object:
        loop = asyncio.get_running_loop()
        task = Task(run, size, loop, loop.create_future())
        self._queue.put(task)
        try:
            async with asyncio.timeout(self._deadline_s):
                return await task.done
        except TimeoutError as error:
            raise Unavailable("the log was not written in time") from error

    # --- the writer's thread ---

    def _write_for_ever(self) -> None:
        try:
            connection = _connect(self._path)
            self._load_counters(connection)
            while tasks := self._queue.take():
                self._commit(connection, tasks)
            connection.close()
        except BaseException as error:
            why = f"the log is not written any more: {error!r}. Start the process again"
            self._queue.end(why)
            logger.exception("log_ended", reason=why)

    def _commit(self, connection: sqlite3.Connection, tasks: Sequence[Task]) -> None:
        # a task whose caller gave up is not run: what was answered with 503 for lateness stays out
        live = [task for task in tasks if not task.done.cancelled()]
        try:
            connection.execute("BEGIN IMMEDIATE")
            self._counters.append_ms = max(self._counters.append_ms, self._clock.now_ms())
            before = list(self._counters.offsets)
            results = [task.run(connection) for task in live]
            if self._refused or self._counters.offsets != before:
                self._store_counters(connection, before)
            connection.execute("COMMIT")
            self._refused = False
        except sqlite3.Error as error:
            self._refused = True
            self._undo(connection)
            tell(live, [Unavailable(f"the log could not be written: {error}")] * len(live))
        except Exception as error:  # noqa: BLE001 - told to whoever waits; the thread must go on
            self._undo(connection)
            tell(live, [error] * len(live))
        else:
            tell(live, results)

    def _undo(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._load_counters(connection)
        except sqlite3.Error:
            # The counters in memory are ahead of those on disk: that only leaves a gap of offsets.
            return

    def _load_counters(self, connection: sqlite3.Connection) -> None:
        rows = connection.execute("SELECT next FROM partitions ORDER BY partition").fetchall()
        (append_ms,) = connection.execute("SELECT append_ms FROM log").fetchone()
        self._counters = _Counters([row[0] for row in rows], append_ms)

    def _store_counters(self, connection: sqlite3.Connection, before: Sequence[int]) -> None:
        offsets = self._counters.offsets
        pairs = enumerate(zip(before, offsets, strict=True))
        changed = [(new, partition) for partition, (old, new) in pairs if old != new]
        connection.executemany("UPDATE partitions SET next = ? WHERE partition = ?", changed)
        connection.execute("UPDATE log SET append_ms = ?", (self._counters.append_ms,))


def open_sqlite_log(
    folder: Path, partitions: int, clock: Clock, deadline_ms: int = APPEND_DEADLINE_MS
) -> SqliteLog:
    """Open the log in `folder`, made if it is not there.

    Raises `Unsuitable`: another process holds it, or it was made with another number of partitions.
    """
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise Unsuitable(f"a log has 1 to {PARTITIONS_MAX} partitions, not {partitions}")
    folder.mkdir(parents=True, exist_ok=True)
    lock = _locked(folder)
    try:
        connection = _connect(folder / DATABASE_NAME)
        try:
            convert(connection)
            log_id, found = _made(connection, partitions)
        finally:
            connection.close()
        if found != partitions:
            raise Unsuitable(
                f"the log in {folder} was made with {found} partitions, the settings say "
                f"{partitions}: set them to {found}, or use another folder"
            )
        return SqliteLog(folder, lock, log_id, partitions, clock, deadline_ms)
    except sqlite3.Error as error:
        lock.close()
        damaged = (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _DAMAGED
        what = "is damaged: restore its newest backup" if damaged else "cannot be opened"
        raise Unsuitable(f"the log in {folder} {what} ({error})") from error
    except Unsuitable:
        lock.close()
        raise


def _locked(folder: Path) -> TextIOWrapper:
    lock = (folder / LOCK_NAME).open("a", encoding="ascii")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise Unsuitable(
            f"another process uses the log in {folder}: stop it, or ask it through its server"
        ) from error
    return lock


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA page_size = 16384")
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # of a new file; see `convert`
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    return connection


def _made(connection: sqlite3.Connection, partitions: int) -> tuple[str, int]:
    """Id and partitions of the log in a database; an empty one becomes a log, in one go."""
    connection.execute("BEGIN IMMEDIATE")
    tables = connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'log'")
    if tables.fetchone() == (0,):
        connection.execute("CREATE TABLE log (id TEXT NOT NULL, append_ms INTEGER NOT NULL)")
        connection.execute("INSERT INTO log VALUES (?, 0)", (str(ULID()),))
        connection.execute(
            "CREATE TABLE partitions (partition INTEGER PRIMARY KEY, next INTEGER NOT NULL)"
        )
        for partition in range(partitions):
            connection.execute("INSERT INTO partitions VALUES (?, 0)", (partition,))
            connection.execute(
                f"CREATE TABLE records_{partition} (offset INTEGER PRIMARY KEY, "
                "append_ms INTEGER NOT NULL, kind TEXT NOT NULL, value BLOB NOT NULL)"
            )
    question = "SELECT id, (SELECT count(*) FROM partitions) FROM log"
    log_id, found = connection.execute(question).fetchone()
    connection.execute("COMMIT")
    return log_id, found


def _as_int(result: object) -> int:
    assert isinstance(result, int)
    return result
