"""Transactions on a SQLite file. Each runs whole in a thread: it costs one change of threads.

A transaction function is a coroutine function, because PostgreSQL's driver waits on the event loop.
On SQLite nothing that it awaits ever waits, so a thread runs it from its start to its end without a
loop. Writers take turns here: SQLite has one writer, and waiting on the loop keeps threads free.
"""

import asyncio
import random
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

import sqlalchemy
from sqlalchemy import Dialect, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor

from meterline.backends.control_store.connection import Act, Kind

READERS: Final = 4  # transactions that read at once, beside the one that writes
TURN_WAIT_S: Final = 10  # for the transactions before; then the store is unavailable
BUSY_TIMEOUT_S: Final = 5  # SQLite's wait for the writer of another process, such as a backup
LOCKED: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_WAL_TRIES_MAX: Final = 250  # five seconds or so: as long as a writer is waited for
_WAL_DELAY_S: Final = 0.04  # at most, between two tries
_T = TypeVar("_T")


class _Abandoned(Exception):
    """Nobody waits for the transaction any more: it is undone. No caller sees this."""


class _InThread:
    """A `Connection` whose methods have finished when they return."""

    def __init__(self) -> None:
        self.abandoned = False
        self._connection: sqlalchemy.Connection

    def begin(self, connection: sqlalchemy.Connection, *, writes: bool) -> None:
        # IMMEDIATE: one that reads, then writes, would fail at once if another one wrote between
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
        self._connection = connection

    @property
    def dialect(self) -> Dialect:
        return self._connection.dialect

    async def execute(self, statement: Any, parameters: Any = None, /) -> Any:
        return self._usable().execute(statement, parameters)

    async def exec_driver_sql(self, statement: str, parameters: Any, /) -> Any:
        return self._usable().exec_driver_sql(statement, parameters)

    async def run_sync(self, function: Callable[[sqlalchemy.Connection], _T], /) -> _T:
        return function(self._usable())

    def _usable(self) -> sqlalchemy.Connection:
        self.check_awaited()
        return self._connection

    def check_awaited(self) -> None:
        """Raise where the caller was cancelled."""
        if self.abandoned:
            raise _Abandoned


class SqliteTransactions:
    """See `connection.Transactions`. Makes the folder of the file, which the URL must have."""

    def __init__(self, url: URL) -> None:
        assert url.database is not None, "a URL without a file"
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
        self._engine = create_engine(
            url.set(drivername="sqlite+pysqlite"),
            hide_parameters=True,  # no value of a row is in a log line
            pool_size=READERS + 1,
            max_overflow=0,
            # Python's own BEGIN comes too late for a transaction that reads first: ours is above.
            connect_args={"isolation_level": None, "timeout": BUSY_TIMEOUT_S},
        )
        event.listen(self._engine, "connect", _prepare)
        self._threads = ThreadPoolExecutor(READERS + 1, thread_name_prefix="control-store")
        self._reading = asyncio.Semaphore(READERS)
        self._writing = asyncio.Semaphore(1)

    async def run(self, act: Act[_T], kind: Kind) -> _T:
        """See `Transactions`. Raises `TimeoutError` if no turn comes in `TURN_WAIT_S`."""
        writes = kind is Kind.WRITES
        turn = self._writing if writes else self._reading
        async with asyncio.timeout(TURN_WAIT_S):
            await turn.acquire()
        try:
            return await self._in_thread(act, writes=writes)
        finally:
            turn.release()

    async def _in_thread(self, act: Act[_T], *, writes: bool) -> _T:
        connection, loop = _InThread(), asyncio.get_running_loop()
        work = loop.run_in_executor(self._threads, self._run, act, connection, writes)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            connection.abandoned = True
            work.add_done_callback(_seen)
            await asyncio.wait([work])  # whoever comes next finds the file free
            raise

    def _run(self, act: Act[_T], given: _InThread, writes: bool) -> _T:  # noqa: FBT001 - positional for the thread
        with self._engine.connect() as connection, connection.begin():
            given.begin(connection, writes=writes)
            result = _result_of(act, given)
            given.check_awaited()
            return result

    async def compact(self) -> None:
        """See `Transactions`. Deleted rows are overwritten at once; the journal keeps them until it
        is cut off. While somebody reads, it is not: the next time will do.
        """
        await self._writing.acquire()
        try:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._threads, self._cut_journal)
        finally:
            self._writing.release()

    def _cut_journal(self) -> None:
        with self._engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    async def close(self) -> None:
        """See `Transactions`."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads, self._engine.dispose)
        self._threads.shutdown(wait=False)


def _seen(work: asyncio.Future[Any]) -> None:
    """Its error is nobody's, and not worth a line in the log: who waited for it has gone."""
    if not work.cancelled():
        work.exception()


def _result_of(act: Act[_T], given: _InThread) -> _T:
    """What a coroutine returns that never waits."""
    steps = act(given).__await__()
    try:
        next(steps)
    except StopIteration as end:
        result: _T = end.value
        return result
    steps.close()
    message = f"{act} awaits something else than its connection: a transaction cannot wait"
    raise RuntimeError(message)


def _prepare(connection: DBAPIConnection, _record: object) -> None:
    cursor = connection.cursor()
    try:
        _to_wal(cursor)
        # a seal must not come back from before a power loss
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        # what is erased is overwritten, not only left out
        cursor.execute("PRAGMA secure_delete=ON")
    finally:
        cursor.close()


def _to_wal(cursor: DBAPICursor) -> None:
    """Only a new file has another journal. To change it takes the file alone, and SQLite does not
    wait for that by itself, whatever the timeout.
    """
    for tries in range(1, _WAL_TRIES_MAX + 1):
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in LOCKED or tries == _WAL_TRIES_MAX:
                raise
        else:
            return
        time.sleep(random.uniform(0, _WAL_DELAY_S))  # noqa: S311 - jitter
