"""SQLite for SQLAlchemy's asyncio, with one trip to the connection's thread for each statement.

The dialect's own cursor goes there four times: to be made, to execute, to fetch, to be closed. Each
is a change of threads, and these, not SQLite, are what a small transaction takes its time with. So
a transaction begins with its first statement, and is rolled back only where it began and did not
end: the pool asks for that with each connection that comes back.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import aiosqlite
from sqlalchemy.connectors.asyncio import AsyncIODBAPIConnection, AsyncIODBAPICursor
from sqlalchemy.dialects.sqlite.aiosqlite import (
    AsyncAdapt_aiosqlite_connection,
    AsyncAdapt_aiosqlite_cursor,
    AsyncAdapt_aiosqlite_dbapi,
)


class _Statement:
    """What SQLAlchemy takes for a cursor: its rows are here before they are asked for."""

    def __init__(self, connection: aiosqlite.Connection, owner: "_Connection") -> None:
        self._connection = connection
        self._owner = owner
        # private, but what all of aiosqlite and of the dialect goes through
        self._there: Callable[..., Awaitable[None]] = connection._execute  # noqa: SLF001
        self._rows: list[Any] = []
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None
        self.arraysize = 1

    async def execute(self, sql: str, parameters: Sequence[Any] = ()) -> "_Statement":
        """Execute a statement, and fetch all of its rows."""
        await self._there(self._done, self._owner.beginning(), sql, parameters)
        return self

    async def executemany(self, sql: str, parameters: Sequence[Sequence[Any]]) -> "_Statement":
        """Execute a statement that has no rows, with each of the parameters."""
        await self._there(self._done_many, self._owner.beginning(), sql, parameters)
        return self

    async def fetchall(self) -> list[Any]:
        """The rows."""
        return self._rows

    def close(self) -> None:
        """Nothing is open."""

    def _done(self, begin: str | None, sql: str, parameters: Sequence[Any]) -> None:
        self._keep(self._begun(begin).execute(sql, parameters))

    def _done_many(self, begin: str | None, sql: str, parameters: Sequence[Sequence[Any]]) -> None:
        self._keep(self._begun(begin).executemany(sql, parameters))

    def _begun(self, begin: str | None) -> sqlite3.Connection:
        connection: sqlite3.Connection = self._connection._conn  # noqa: SLF001 - in its thread
        if begin is not None:
            try:
                connection.execute(begin)
            except sqlite3.Error:
                self._owner.begin_with(begin)  # whoever goes on does not go on without one
                raise
        return connection

    def _keep(self, cursor: sqlite3.Cursor) -> None:
        self.description = cursor.description
        self._rows = cursor.fetchall() if cursor.description else []
        self.rowcount, self.lastrowid = cursor.rowcount, cursor.lastrowid
        cursor.close()


class _Cursor(AsyncAdapt_aiosqlite_cursor):
    __slots__ = ()

    _awaitable_cursor_close = False

    def _make_new_cursor(self, connection: AsyncIODBAPIConnection) -> AsyncIODBAPICursor:
        owner = cast("_Connection", self._adapt_connection)
        made = _Statement(cast("aiosqlite.Connection", connection), owner)
        return cast("AsyncIODBAPICursor", made)

    def _aenter_cursor(self, cursor: AsyncIODBAPICursor) -> AsyncIODBAPICursor:
        return cursor


class _Connection(AsyncAdapt_aiosqlite_connection):
    __slots__ = ("_begin", "_may_be_open")

    _cursor_cls = _Cursor

    def __init__(self, module: "OneTripSqlite", connection: Any) -> None:
        super().__init__(module, connection)
        self._begin: str | None = None
        self._may_be_open = False

    def begin_with(self, words: str) -> None:
        """The next statement begins a transaction with these words."""
        self._begin = words

    def beginning(self) -> str | None:
        """What a statement has to begin with."""
        words, self._begin = self._begin, None
        # also where it never comes back: one that is cancelled may begin later, in its thread
        self._may_be_open |= words is not None
        return words

    def commit(self) -> None:
        """End a transaction, if one began."""
        self._begin = None
        if self._may_be_open:
            super().commit()
            self._may_be_open = False

    def rollback(self) -> None:
        """Undo a transaction, if one began and did not end."""
        self._begin = None
        if self._may_be_open:
            super().rollback()
            self._may_be_open = False


def begin_with_next(connection: Any, words: str) -> None:
    """Have the next statement on a connection of this module begin a transaction."""
    cast("_Connection", connection).begin_with(words)


class OneTripSqlite(AsyncAdapt_aiosqlite_dbapi):
    """The `module` of an engine: aiosqlite as the dialect has it, but for its trips."""

    def __init__(self) -> None:
        super().__init__(aiosqlite, sqlite3)

    def connect(self, *args: Any, **options: Any) -> AsyncAdapt_aiosqlite_connection:
        """A connection, with a thread of its own."""
        made = super().connect(*args, **options)
        return _Connection(self, made.driver_connection)
