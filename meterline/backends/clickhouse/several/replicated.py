"""ClickHouse servers that each have everything: replicas of one usage store (docs/decisions/0092).

What is written is on all of them when it is answered, so any may be asked. One is, until it does
not answer. Before another is asked, or one that rested, it is looked at that it lacks nothing.
"""

import asyncio
import re
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from collections.abc import (
    Set as AbstractSet,
)
from contextlib import aclosing, asynccontextmanager, contextmanager
from itertools import compress
from typing import Any, Final, TypeVar

from clickhouse_connect.driver.client import Client

from meterline.backends.clickhouse.clients.access import PLAIN, ServerAccess
from meterline.backends.clickhouse.clients.lanes import COUNTING, Lane
from meterline.backends.clickhouse.connection import QUERY_SETTINGS, Connection, Exceeded, Rows
from meterline.backends.clickhouse.named_sql import QUERIES
from meterline.backends.clickhouse.schema import TABLES_MADE, database_of, define, missing
from meterline.backends.clickhouse.several.replicated_tables import (
    settings_of,
    statements_to_make,
    unreplicated,
)
from meterline.limits import REPLICA_LOOK_S, REPLICA_LOOKS, REPLICA_REST_S
from meterline.ports import SILENT, Recorder, Unavailable, Unsuitable

# UNKNOWN_TABLE, UNKNOWN_DATABASE, NO_ZOOKEEPER, TABLE_IS_READ_ONLY, KEEPER_EXCEPTION: a replica
# that cannot do what another may.
_GONE: Final = re.compile(r"no connection, or no answer|Code: (60|81|225|242|999)\b")
# TOO_FEW_LIVE_REPLICAS, UNKNOWN_STATUS_OF_INSERT, UNFINISHED
_NOT_ON_ALL: Final = re.compile(r"Code: (285|319|341)\b")
_NO_KEEPER: Final = re.compile(r"Code: (139|225)\b")  # NO_ELEMENTS_IN_CONFIG, NO_ZOOKEEPER
_KNOWN: Final = "Code: 253."  # REPLICA_ALREADY_EXISTS
T = TypeVar("T")


class Turn:
    """Which replica is asked now. All lanes of a process ask the same."""

    def __init__(self) -> None:
        self.at = 0
        self._asked_s: float | None = None

    def is_trusted(self, now_s: float) -> bool:
        """Whether it is asked without another look. Who was not asked for a while may have been
        replaced meanwhile.
        """
        return self._asked_s is not None and now_s - self._asked_s < REPLICA_REST_S

    def take(self, at: int, now_s: float) -> None:
        """This one has everything, or has just answered."""
        self.at, self._asked_s = at, now_s

    def leave(self, at: int, replicas: int) -> None:
        """It did not answer: the next one is looked at. Who is late to say so changes nothing."""
        if at == self.at:
            self.at, self._asked_s = (at + 1) % replicas, None


class Replica(Connection):
    """One of the servers, of so many, by itself."""

    def __init__(
        self,
        url: str,
        replicas: int,
        lane: Lane = COUNTING,
        recorder: Recorder = SILENT,
        access: ServerAccess = PLAIN,
    ) -> None:
        super().__init__(url, lane, recorder, access)
        self._replicas = replicas

    def _made(self, lane: Lane) -> Connection:
        return Replica(self._url, self._replicas, lane, self._recorder, self._access)

    def _opened(self) -> Client:
        client = super()._opened()
        for name, value in settings_of(self._replicas).items():
            client.set_client_setting(name, value)
        return client

    def message_of(self, error: Exception) -> str:
        """See `Connection`."""
        message = super().message_of(error)
        if _NOT_ON_ALL.search(str(error)):
            return (
                "a replica is away or slow, and what is written must be on all of them:"
                f" {message}. It is tried again"
            )
        return message

    async def lacking(self) -> AbstractSet[str]:
        """Tables of which this one may not have everything that the replicas wrote before it was
        asked. Raises `Unavailable`.
        """
        unproved = set(TABLES_MADE)
        for look in range(REPLICA_LOOKS):
            if look:  # others write: each table need only have come to an end once
                await asyncio.sleep(REPLICA_LOOK_S)
            rows = await self.query(QUERIES["whole_replicas"], {"replicas": self._replicas})
            unproved -= {table for (table,) in rows}
            if not unproved:
                break
        return unproved


class ReplicatedConnection(Connection):
    """The same for several servers that each have everything."""

    def __init__(
        self,
        urls: Sequence[str],
        lane: Lane = COUNTING,
        recorder: Recorder = SILENT,
        access: ServerAccess = PLAIN,
        turn: Turn | None = None,
    ) -> None:
        super().__init__(urls[0], lane, recorder, access)
        self._urls = urls
        self._turn = Turn() if turn is None else turn
        self.replicas = tuple(Replica(url, len(urls), lane, recorder, access) for url in urls)

    def _made(self, lane: Lane) -> Connection:
        return ReplicatedConnection(self._urls, lane, self._recorder, self._access, self._turn)

    async def _whole_one(self) -> int:
        """A replica that lacks nothing. Raises `Unavailable` where none is found."""
        now_s = asyncio.get_running_loop().time()
        if self._turn.is_trusted(now_s):
            return self._turn.at
        problem = Unavailable("usage store: no replica answers")
        begin = self._turn.at
        for step in range(len(self.replicas)):
            at = (begin + step) % len(self.replicas)
            try:
                lacking = await self.replicas[at].lacking()
            except Unavailable as error:
                problem = error
                continue
            if not lacking:
                self._turn.take(at, asyncio.get_running_loop().time())
                return at
            problem = Unavailable(
                f"usage store: replica {at + 1} of usage_url and usage_replicas may lack rows of"
                f" table {min(lacking)}, so it is not asked (`meterline doctor` says more)"
            )
        raise problem

    @asynccontextmanager
    async def _asked(self) -> AsyncIterator[Replica]:
        """The replica that is asked. One that does not answer is left: whoever tries again asks
        another.
        """
        at = await self._whole_one()
        try:
            yield self.replicas[at]
        except Exceeded:
            raise
        except Unavailable as error:
            if _GONE.search(str(error)):
                self._turn.leave(at, len(self.replicas))
            raise
        if at == self._turn.at:
            self._turn.take(at, asyncio.get_running_loop().time())

    async def run(self, work: Callable[[Client], T]) -> T:
        """See `Connection`."""
        async with self._asked() as replica:
            return await replica.run(work)

    async def stream(
        self,
        sql: str,
        parameters: dict[str, Any],
        settings: Mapping[str, Any],
        take: Callable[[bytes], T],
    ) -> AsyncGenerator[T, None]:
        """See `Connection`."""
        async with (
            self._asked() as replica,
            aclosing(replica.stream(sql, parameters, settings, take)) as pieces,
        ):
            async for piece in pieces:
                yield piece

    async def query(
        self,
        sql: str,
        parameters: dict[str, Any],
        settings: Mapping[str, Any] = QUERY_SETTINGS,
    ) -> Rows:
        """See `Connection`."""
        async with self._asked() as replica:
            return await replica.query(sql, parameters, settings)

    async def insert(self, table: str, columns: Sequence[str], rows: Rows) -> None:
        """See `Connection`."""
        async with self._asked() as replica:
            await replica.insert(table, columns, rows)

    async def insert_packed(
        self, table: str, columns: Sequence[str], rows: Iterable[bytes]
    ) -> None:
        """See `Connection`."""
        async with self._asked() as replica:
            await replica.insert_packed(table, columns, rows)

    async def execute(self, sql: str) -> None:
        """See `Connection`."""
        async with self._asked() as replica:
            await replica.execute(sql)

    async def insert_selected(
        self, sql: str, parameters: dict[str, Any], settings: Mapping[str, Any]
    ) -> None:
        """See `Connection`."""
        async with self._asked() as replica:
            await replica.insert_selected(sql, parameters, settings)

    async def make_tables(self) -> None:
        """Make what the replicas lack of tables, columns and indexes. Those that do not answer are
        left for the next time, where another has all tables. Raises `Unsuitable` where they cannot
        be replicas.
        """
        found = await asyncio.gather(*map(_definitions, self.replicas))
        answered = [it for it in found if not isinstance(it, Unavailable)]
        whole = next((it for it in answered if it.keys() >= TABLES_MADE), None)
        have: list[Mapping[str, str]] = []
        for of_one in found:
            if not isinstance(of_one, Unavailable):
                have.append(of_one)
            elif whole is None:
                raise of_one
            else:
                have.append(whole)
        await self._make(have, [not isinstance(it, Unavailable) for it in found])

    async def _make(self, have: Sequence[Mapping[str, str]], answers: Sequence[bool]) -> None:
        for number, of_one in enumerate(have, 1):
            if tables := unreplicated(of_one):
                raise Unsuitable(
                    f"usage store: table {tables[0]} of server {number} of usage_url and"
                    " usage_replicas is not replicated, and no table becomes so. `meterline"
                    " export` the store with usage_replicas removed, and `meterline import` it"
                    " into new servers (docs/operations.md, 'Replicas of ClickHouse')"
                )
        due = statements_to_make(database_of(self._urls[0]), have)
        for number, (replica, statements) in enumerate(zip(self.replicas, due, strict=True), 1):
            with _explained(number):
                await define(replica, statements)
        for replica in compress(self.replicas, answers):  # the others have it, but for settings
            await define(replica, missing(await replica.query(QUERIES["schema"], {})))

    async def close(self) -> None:
        """See `Connection`."""
        for replica in self.replicas:
            await replica.close()
        await super().close()


async def _definitions(replica: Replica) -> Mapping[str, str] | Unavailable:
    """The tables that a replica has; the error of one that does not answer."""
    try:
        rows = await replica.query(QUERIES["definitions"], {})
    except Unavailable as error:
        return error
    return {str(table): str(text) for table, text in rows}


@contextmanager
def _explained(number: int) -> Iterator[None]:
    """Errors of making a table that trying again does not mend, as `Unsuitable`."""
    try:
        yield
    except Unavailable as error:
        if _NO_KEEPER.search(str(error)):
            raise Unsuitable(
                f"usage store: server {number} of usage_url and usage_replicas cannot replicate"
                f" ({error}). Name ClickHouse Keeper in its configuration, as zookeeper, and an"
                " interserver_http_port (docs/operations.md, 'Replicas of ClickHouse')"
            ) from error
        if _KNOWN in str(error):
            raise Unsuitable(
                f"usage store: Keeper knows replica {number} of a table that server {number} of"
                f" usage_url and usage_replicas does not have ({error}). If its disk was lost, make"
                " Keeper forget that replica (docs/operations.md, 'A replica whose disk was lost')"
            ) from error
        raise


def replicas_of(server: Connection) -> Sequence[Connection]:
    """Each of a server's replicas by itself; the server where it has none."""
    return server.replicas if isinstance(server, ReplicatedConnection) else (server,)
