"""The control store's database: SQLite (one file, WAL) or PostgreSQL, behind `read` and `write`.

Errors of the world (no connection, disk full, server stopping) become `ports.Unavailable`. A
transaction that the database itself broke off to let another one finish (serialization, deadlock,
locked) is run again, a bounded number of times. Anything else is our fault and passes through,
without the values of the statement: whoever catches it logs it.
"""

import asyncio
import random
import re
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import asyncpg
from sqlalchemy import Table, text, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from meterline.backends.control_store.connection import Act, Connection, Kind, Transactions
from meterline.backends.control_store.sqlite import LOCKED, SqliteTransactions
from meterline.limits import CONNECT_TIMEOUT_S, CONTROL_STORE_TIMEOUT_S
from meterline.ports import SILENT, AccessRefused, Recorder, Unavailable, metrics
from meterline.window import Backoff

# Of one process, each opened when it is first needed. A transaction is a few milliseconds.
WRITE_CONNECTIONS: Final = 4  # and for what is read as of one moment
READ_CONNECTIONS: Final = 4
POOL_WAIT_S: Final = 10  # for a free connection, before the answer is "unavailable"
TRIES_MAX: Final = 8  # of a transaction that the database broke off
RETRY_DELAY_S: Final = 0.04  # at most, after the first try; with full jitter

_EXPECTED: Final = (
    "A control URL is sqlite:///path/to/control.db or postgresql://user:password@host:port/database"
)
_ONE_MOMENT: Final = text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
_T = TypeVar("_T")
_DRIVER_ERRORS: Final = (asyncpg.PostgresError, asyncpg.InterfaceError)  # raised while connecting
_BROKEN_OFF: Final = frozenset({"40001", "40P01", "55P03"})  # serialization, deadlock, lock
# PostgreSQL's classes: connection, login, no database, rollback, resources, object state, operator,
# system.
_WORLD_CLASSES: Final = frozenset({"08", "28", "3D", "40", "53", "55", "57", "58"})
_REFUSED_CLASSES: Final = frozenset({"28", "3D"})
_READ_ONLY: Final = "25006"  # a server that became a standby
_NO_RIGHT: Final = "42501"  # of this user to that table
_ARGUMENT: Final = re.compile(r"(query argument \$\d+):.*")
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_WORLD_CODES: Final = (
    LOCKED
    | _DAMAGED
    | {
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    }
)


class Database:
    """Transactions on a control store. Several stores share one; `close` ends it for all."""

    def __init__(self, transactions: Transactions, recorder: Recorder = SILENT) -> None:
        self._recorder = recorder
        self._transactions = transactions

    async def read(self, ask: Act[_T]) -> _T:
        """Run `ask`, which only reads; it may be run more than once. SQLite reads all of it as of
        one moment, PostgreSQL each statement as of its own.
        """
        return await self._again(ask, Kind.READS)

    async def read_moment(self, ask: Act[_T]) -> _T:
        """Run `ask`, which only reads, all of it as of one moment; it may be run more than once."""
        return await self._again(ask, Kind.READS_MOMENT)

    async def write(self, act: Act[_T]) -> _T:
        """Run `act` in a transaction; it is committed and durable on return. It may run twice.

        An error that `act` raises undoes everything it did. After `Unavailable` it is not known
        whether the transaction was committed.
        """
        return await self._again(act, Kind.WRITES)

    async def compact(self) -> None:
        """What was deleted leaves SQLite's files; PostgreSQL does so by itself, in its own time."""
        try:
            await self._transactions.compact()
        except (DBAPIError, OSError, *_DRIVER_ERRORS) as error:
            raise Unavailable(f"control store: {_message(error)}") from error

    async def close(self) -> None:
        """Let go of all connections."""
        await self._transactions.close()

    async def _again(self, act: Act[_T], kind: Kind) -> _T:
        backoff = Backoff(RETRY_DELAY_S)
        for tries in range(1, TRIES_MAX + 1):
            try:
                return await self._transactions.run(act, kind)
            except (DBAPIError, PoolTimeoutError, OSError, *_DRIVER_ERRORS) as error:
                not_asked_first = tries == 1 and kind is Kind.READS and _is_gone(error)
                if not (_is_broken_off(error) or not_asked_first) or tries == TRIES_MAX:
                    self._recorder.count(metrics.STORE_ERRORS, 1, "control")
                    state = _state_of(error)
                    if state[:2] in _REFUSED_CLASSES or state == _NO_RIGHT:
                        raise AccessRefused(_message(error)) from error
                    if _is_of_the_world(error):
                        raise Unavailable(f"control store: {_message(error)}") from error
                    raise _without_values(error).with_traceback(error.__traceback__) from None
            await asyncio.sleep(backoff.next_s(random.random()))  # noqa: S311 - jitter
        raise AssertionError("the last try returns or raises")


class _Postgresql:
    """See `connection.Transactions`.

    Whoever reads has a connection without transactions, which nobody asks first whether it is still
    there: a statement takes one exchange with the server. With both it takes six. No isolation is
    lost, because in a transaction each statement would see what is committed when it begins, too
    (READ COMMITTED, PostgreSQL 13.2.1).
    """

    def __init__(self, writing: AsyncEngine, reading: AsyncEngine) -> None:
        self._in_transactions = writing
        self._reading = reading

    async def run(self, act: Act[_T], kind: Kind) -> _T:
        """See `Transactions`."""
        engine = self._reading if kind is Kind.READS else self._in_transactions
        async with engine.begin() as connection:
            if kind is Kind.READS_MOMENT:
                await connection.execute(_ONE_MOMENT)
            return await act(connection)

    async def compact(self) -> None:
        """See `Transactions`."""

    async def close(self) -> None:
        """See `Transactions`."""
        await self._in_transactions.dispose()
        await self._reading.dispose()


def open_database(
    url: str, recorder: Recorder = SILENT, access: Mapping[str, Any] | None = None
) -> Database:
    """The database of a control URL, `sqlite:///path` or `postgresql://user@host:port/name`.

    `access` holds asyncpg's own arguments (`ssl`, `password`, `timeout`, ...), for PostgreSQL.
    Connects when first used. Raises `ValueError` that says what is wrong with the URL, without its
    password.
    """
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise ValueError(_EXPECTED) from error
    kind = parsed.get_backend_name()
    if kind == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            message = f"the control store needs a file. {_EXPECTED}"
            raise ValueError(message)
        return Database(SqliteTransactions(parsed), recorder)
    if kind in {"postgresql", "postgres"}:
        return Database(_postgresql(parsed, access or {}), recorder)
    message = f"{kind}:// is no control store. {_EXPECTED}"
    raise ValueError(message)


def _postgresql(url: URL, access: Mapping[str, Any]) -> _Postgresql:
    writing = _postgresql_engine(
        url,
        access,
        pool_size=WRITE_CONNECTIONS,
        pool_pre_ping=True,  # a restarted server costs no failed step
    )
    reading = _postgresql_engine(
        url, access, pool_size=READ_CONNECTIONS, isolation_level="AUTOCOMMIT"
    )
    return _Postgresql(writing, reading)


def _postgresql_engine(url: URL, access: Mapping[str, Any], **options: Any) -> AsyncEngine:
    query = dict(url.query)
    if (
        "sslmode" in query
    ):  # libpq's word, which everybody writes; asyncpg says ssl, with the same values
        query["ssl"] = query.pop("sslmode")
    return create_async_engine(
        url.set(drivername="postgresql+asyncpg", query=query),
        hide_parameters=True,  # no value of a row is in a log line
        max_overflow=0,
        pool_timeout=POOL_WAIT_S,
        connect_args={
            "timeout": CONNECT_TIMEOUT_S,
            "command_timeout": CONTROL_STORE_TIMEOUT_S,
            **access,
        },
        **options,
    )


def insert(connection: Connection, table: Table) -> "postgresql.Insert | sqlite.Insert":
    """An INSERT that knows ON CONFLICT, which both databases spell alike."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)
    return postgresql.insert(table)


async def next_version(connection: Connection, table: Table) -> int:
    """Take the next version of a table with one row: it stays locked until the transaction ends, so
    changes happen one after the other.
    """
    following = table.c.version + 1
    statement = update(table).values(version=following).returning(table.c.version)
    return int((await connection.execute(statement)).scalar_one())


async def put(
    connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]], by: str | None = None
) -> None:
    """Insert rows of one shape and different primary keys; a row whose key is there already is
    replaced. With `by`, the row with the greater value of that column stays.
    """
    statement = insert(connection, table).values(list(rows))
    keys = list(table.primary_key.columns)
    others = {name: statement.excluded[name] for name in rows[0] if table.c[name] not in keys}
    greater = None if by is None else statement.excluded[by] > table.c[by]
    await connection.execute(
        statement.on_conflict_do_update(index_elements=keys, set_=others, where=greater)
    )


def _is_broken_off(error: Exception) -> bool:
    # SQLite's BUSY is none: it comes after the whole of BUSY_TIMEOUT_S, to which repeating it would
    # add eight times the same.
    if isinstance(error, DBAPIError):
        locked = _sqlite_code(error) == sqlite3.SQLITE_LOCKED
        return locked or _state_of(error) in _BROKEN_OFF
    return False


def _is_gone(error: Exception) -> bool:
    """Whether a connection had ended before; the others of its pool are made anew."""
    return isinstance(error, DBAPIError) and error.connection_invalidated


def _is_of_the_world(error: Exception) -> bool:
    if isinstance(error, DBAPIError):
        state = _state_of(error)
        return (
            error.connection_invalidated
            or state[:2] in _WORLD_CLASSES
            or state == _READ_ONLY
            or _sqlite_code(error) in _WORLD_CODES
            or (not state and "Interface" in type(error.orig).__name__)
        )
    if isinstance(error, asyncpg.PostgresError):
        return str(error.sqlstate or "08")[:2] in _WORLD_CLASSES
    return True


def _state_of(error: Exception) -> str:
    """PostgreSQL's code of an error, of the driver or wrapped; "" of all others."""
    found = error.orig if isinstance(error, DBAPIError) else error
    return str(getattr(found, "sqlstate", None) or "")


def _sqlite_code(error: DBAPIError) -> int | None:
    code = getattr(error.orig, "sqlite_errorcode", None)
    return None if code is None else int(code) & 0xFF  # without the extension


def _without_values(error: Exception) -> Exception:
    """The same error, fit for a log line. PostgreSQL tells in its details the row that it refuses,
    which may have the name of a subject, or a secret in the URL of an endpoint.
    """
    if not isinstance(error, DBAPIError):
        return error
    cause = Exception(_ARGUMENT.sub(r"\1", _message(error)))  # asyncpg tells the value, too
    return type(error)(error.statement, None, cause, hide_parameters=True)


def _message(error: Exception) -> str:
    """What the driver said, without SQL, values and addresses of manuals."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    message = str(error.orig if isinstance(error, DBAPIError) else error).strip()
    first = (message.splitlines() or [""])[0] or type(error).__name__
    if isinstance(error, DBAPIError) and _sqlite_code(error) in _DAMAGED:
        return f"{first}: the file control.db is damaged. Stop, and restore its newest backup"
    return first
