"""Several ClickHouse servers as one usage store (docs/decisions/0091).

Each partition of the log is on one server, in the tables that a store of one server has. What is
asked of all of them is asked of the first, in a database beside its own: its tables are those of
every server, by a cluster that the first server's configuration names.
"""

import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit, urlunsplit

from meterline.backends.clickhouse.clients.access import PLAIN, ServerAccess
from meterline.backends.clickhouse.clients.lanes import COUNTING, Lane
from meterline.backends.clickhouse.connection import Connection, reading_of
from meterline.backends.clickhouse.named_sql import QUERIES, TABLES
from meterline.backends.clickhouse.schema import TABLES_MADE, database_of
from meterline.ports import SILENT, Recorder, Unavailable, Unsuitable
from meterline.usage import BY_PERIOD

Place = Callable[[int], Awaitable[Mapping[int, int]]]
"""The server of each partition, once this one has one. Raises `Unavailable`."""
T = TypeVar("T")
# What is read must be all there is, and a block is written when it is on disk everywhere. Where a
# statement reads two tables, the second is read whole before the servers are asked for the first.
# By what rows are spread is never relied on: it changes with the number of servers. So a block is
# added up by the first server, and not by each from its own rows.
_ALWAYS: Final[Mapping[str, Any]] = {
    "skip_unavailable_shards": 0,
    "distributed_foreground_insert": 1,
    "parallel_distributed_insert_select": 0,
    "distributed_product_mode": "global",
    "allow_push_predicate_ast_for_distributed_subqueries": 0,
    "optimize_skip_unused_shards": 0,
    "optimize_distributed_group_by_sharding_key": 0,
}
# The first server asks the others for their rows: ATTEMPT_TO_READ_AFTER_EOF, SOCKET_TIMEOUT,
# NETWORK_ERROR, ALL_CONNECTION_TRIES_FAILED. The first is also said of a part that is short.
_AWAY: Final = re.compile(r"Code: (32|209|210|279)\b")
_IS_AWAY: Final = "a server of the usage store does not answer, and nothing less is told without it"
_PLACED: Final = ("accounts", "events", "rejects", "seen")  # each begins with log and partition
_HELD: Final = " UNION DISTINCT ".join(
    f"SELECT DISTINCT partition FROM {table}"  # noqa: S608 - our tables
    for table in _PLACED
)
_STRAY: Final = " UNION DISTINCT ".join(
    f"SELECT DISTINCT partition FROM {table}"  # noqa: S608 - our tables
    " WHERE partition IN {others:Array(UInt16)}"
    for table in _PLACED
)


class Defined(NamedTuple):
    """How a table is defined: its engine, and its columns with their types."""

    engine: str
    columns: tuple[tuple[str, str], ...]


async def _nobody(partition: int) -> Mapping[int, int]:
    raise Unavailable(f"usage store: partition {partition} of the log has no server yet")


class Places:
    """On which server each partition is: it is asked for once, and stays."""

    def __init__(self, place: Place = _nobody) -> None:
        self.place = place
        self._known: dict[int, int] = {}

    async def server_of(self, partition: int) -> int:
        """The number of its server. Raises `Unavailable`."""
        if partition not in self._known:
            self._known.update(await self.place(partition))
        return self._known[partition]


def together_url(url: str) -> str:
    """Of the first server, the database whose tables are those of every server."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{database_of(url)}_together"))


def together(
    database: str, cluster: str, wanted: Mapping[str, Defined], have: Mapping[str, Defined]
) -> list[str]:
    """The statements that bring the tables that are read together to those of one server; none
    where nothing is missing. They hold no rows, so one that differs is made anew.
    """
    statements = []
    for table, defined in sorted(wanted.items()):
        there = have.get(table)
        if there and there.columns == defined.columns and f"('{cluster}', " in there.engine:
            continue
        where = f"'{cluster}', '{database}', '{table}'{_spread(table)}"
        begin = "CREATE TABLE IF NOT EXISTS" if there is None else "CREATE OR REPLACE TABLE"
        statements.append(f"{begin} {table} AS `{database}`.{table} ENGINE = Distributed({where})")
    return statements


def _spread(table: str) -> str:
    """By what the rows of a block are spread over servers. Rows of partitions have their place, and
    are not written here.
    """
    text = TABLES.get(table, "")
    if "PARTITION BY block" not in text:
        return ""
    return ", xxHash64(subject)" if " subject " in text else ", block"


async def _tables(connection: Connection) -> dict[str, Defined]:
    columns: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for table, name, kind in await connection.query(QUERIES["columns"], {}):
        columns[table].append((name, kind))
    rows = await connection.query(QUERIES["engines"], {})
    engines = {str(table): str(engine) for table, engine in rows}
    return {
        table: Defined(engines[table], tuple(found))
        for table, found in columns.items()
        if table in TABLES_MADE and table in engines
    }


class ShardedConnection(Connection):
    """The same for several servers: `urls` in the order in which they were added. `cluster` is
    their name in the configuration of the first; nothing else may be in it.
    """

    def __init__(
        self,
        urls: Sequence[str],
        cluster: str,
        lane: Lane = COUNTING,
        recorder: Recorder = SILENT,
        access: ServerAccess = PLAIN,
        places: Places | None = None,
    ) -> None:
        super().__init__(together_url(urls[0]), lane, recorder, access)
        self.cluster = cluster
        self.places = Places() if places is None else places  # of all lanes
        self._urls = urls
        self._servers = tuple(Connection(url, lane, recorder, access) for url in urls)

    def _made(self, lane: Lane) -> Connection:
        return ShardedConnection(
            self._urls, self.cluster, lane, self._recorder, self._access, self.places
        )

    @property
    def always(self) -> Mapping[str, Any]:
        """See `Connection`."""
        return _ALWAYS

    @property
    def servers(self) -> Sequence[Connection]:
        """See `Connection`."""
        return self._servers

    def message_of(self, error: Exception) -> str:
        """See `Connection`."""
        if _AWAY.search(str(error)) and reading_of(error) is None:
            return _IS_AWAY
        return super().message_of(error)

    async def at(self, partition: int) -> Connection:
        """See `Connection`."""
        return self._servers[await self._place(partition)]

    async def _place(self, partition: int) -> int:
        server = await self.places.server_of(partition)
        if server >= len(self._servers):
            raise Unavailable(
                f"usage store: partition {partition} of the log is on server {server + 1}, and"
                f" usage_url and usage_shards name {len(self._servers)}. Start this process with"
                " the settings of the others"
            )
        return server

    async def by_server(
        self, rows: Sequence[T], partition_of: Callable[[T], int]
    ) -> Sequence[tuple[Connection, Sequence[T]]]:
        """See `Connection`."""
        servers = {at: await self._place(at) for at in set(map(partition_of, rows))}
        found: dict[int, list[T]] = defaultdict(list)
        for row in rows:
            found[servers[partition_of(row)]].append(row)
        return [(self._servers[server], some) for server, some in found.items()]

    async def check_whole(self, ids: Sequence[Sequence[str]]) -> None:
        """See `Connection`. A cluster that lacks a server, or has one twice, would answer all the
        same.
        """
        rows = await self.query("SELECT _shard_num, id FROM installation GROUP BY ALL", {})
        found = sorted(id_ for _, id_ in rows)
        if found != sorted(one for of_server in ids for one in of_server):
            raise Unavailable(
                f"usage store: cluster {self.cluster} of the first server does not have the servers"
                " of usage_url and usage_shards, each once. Correct remote_servers in its"
                " configuration (`meterline doctor` says more)"
            )

    async def held(self) -> dict[int, int]:
        """On which server partitions have rows. Raises `Unavailable` where one is on two."""
        found: dict[int, int] = {}
        for number, server in enumerate(self._servers):
            for (partition,) in await server.query(_HELD, {}):
                if found.setdefault(partition, number) != number:
                    raise Unavailable(
                        f"usage store: partition {partition} of the log has rows on two servers,"
                        f" {found[partition] + 1} and {number + 1} of usage_url and usage_shards"
                    )
        return found

    async def strays(self, known: Mapping[int, int]) -> list[tuple[int, int]]:
        """Partitions, each with a server that has rows of it and is not its server. It costs little
        where there is none.
        """
        found = []
        for number, server in enumerate(self._servers):
            others = [partition for partition, at in known.items() if at != number]
            rows = await server.query(_STRAY, {"others": others}) if others else ()
            found += [(partition, number) for (partition,) in rows]
        return sorted(found)

    async def check_alike(self) -> None:
        """Whether the tables of all servers can be read as one. Raises `Unsuitable`: an older
        release lacks a setting, and periods of a table that an older build partitioned otherwise
        have other names.
        """
        wanted: dict[str, str] = {}
        for number, server in enumerate(self._servers, 1):
            rows = await server.query(QUERIES["settings"], {"names": list(self.always)})
            if lacking := self.always.keys() - {name for (name,) in rows}:
                raise Unsuitable(
                    f"usage store: ClickHouse of server {number} does not know the setting"
                    f" {min(lacking)}. Several servers must all be of version 26.7 or later"
                )
            rows = await server.query(QUERIES["partitioned"], {"tables": list(BY_PERIOD)})
            for table, key in rows:
                if wanted.setdefault(table, key) != key:
                    raise Unsuitable(
                        f"usage store: table {table} of server {number} is partitioned by {key},"
                        f" and that of the first by {wanted[table]}: an older build made it. These"
                        " servers cannot be one store. `meterline export` the store, and `meterline"
                        " import` it into new servers (docs/backup.md)"
                    )

    async def make_together(self) -> None:
        """Make the tables that are read together, or make them anew where columns were added.
        Raises as `check_alike` does.
        """
        await self.check_alike()
        wanted, have = await _tables(self._servers[0]), await _tables(self)
        database = database_of(self._urls[0])
        for statement in together(database, self.cluster, wanted, have):
            await self.execute(statement)

    async def close(self) -> None:
        """See `Connection`."""
        for server in self._servers:
            await server.close()
        await super().close()
