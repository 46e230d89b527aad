"""What a transaction function is given: the connection of its transaction, on either database.

PostgreSQL gives it SQLAlchemy's `AsyncConnection`. SQLite gives it the same methods in a thread
(`sqlite`). A transaction function awaits nothing but these methods.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, Protocol, TypeVar, TypeVarTuple, overload

import sqlalchemy
from sqlalchemy import CursorResult, Dialect, Executable
from sqlalchemy.sql.selectable import TypedReturnsRows

_T = TypeVar("_T")
_Columns = TypeVarTuple("_Columns")
_Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


class Connection(Protocol):
    """The connection of one transaction. Rows are read before the transaction ends."""

    @property
    def dialect(self) -> Dialect:
        """The database: its `name` is `sqlite` or `postgresql`."""
        ...

    @overload
    async def execute(
        self, statement: TypedReturnsRows[*_Columns], parameters: _Parameters = None, /
    ) -> CursorResult[*_Columns]: ...

    @overload
    async def execute(
        self, statement: Executable, parameters: _Parameters = None, /
    ) -> CursorResult[*tuple[Any, ...]]: ...

    async def exec_driver_sql(
        self, statement: str, parameters: Sequence[tuple[object, ...]], /
    ) -> CursorResult[Any]:
        """Execute SQL text, once with each of the parameters."""
        ...

    async def run_sync(self, function: Callable[[sqlalchemy.Connection], _T], /) -> _T:
        """Call a function that knows no asyncio, such as one of alembic's."""
        ...


Act = Callable[[Connection], Awaitable[_T]]
"""A transaction function. It may run more than once."""


class Kind(Enum):
    """What a transaction function does: it reads, it reads all as of one moment, or it writes."""

    READS = auto()
    READS_MOMENT = auto()
    WRITES = auto()


class Transactions(Protocol):
    """Transactions on one of the databases, each tried once."""

    async def run(self, act: Act[_T], kind: Kind) -> _T:
        """Run `act`. An error or a cancellation undoes what it wrote."""
        ...

    async def compact(self) -> None:
        """What was deleted leaves the files, where that is not the database's own business."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
