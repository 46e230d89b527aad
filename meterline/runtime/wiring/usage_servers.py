"""Which servers the usage store has, and which of them partitions of the log are on."""

from collections.abc import Mapping

from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.schema import create_database
from meterline.backends.clickhouse.several.replicated import ReplicatedConnection
from meterline.backends.clickhouse.several.sharded import ShardedConnection, together_url
from meterline.ports import SILENT, Recorder, Unavailable, Unsuitable
from meterline.runtime.settings.reading import Settings
from meterline.runtime.wiring.connections import usage_access
from meterline.usage import Shards, placed


def usage_urls(settings: Settings) -> list[str]:
    """Every ClickHouse server, in the order in which they were added."""
    return [settings.usage_url, *settings.usage_shards, *settings.usage_replicas]


def connection_to_several(
    settings: Settings, recorder: Recorder = SILENT
) -> ShardedConnection | ReplicatedConnection | None:
    """To the servers as one store; None where there is one."""
    urls, access = usage_urls(settings), usage_access(settings)
    if settings.usage_replicas:
        return ReplicatedConnection(urls, recorder=recorder, access=access)
    if settings.usage_cluster is None:
        return None
    return ShardedConnection(urls, settings.usage_cluster, recorder=recorder, access=access)


def has_one_life(connection: Connection) -> bool:
    """Whether one server tells of all, so that what it told holds while it stays up."""
    return len(connection.servers) == 1 and not isinstance(connection, ReplicatedConnection)


async def make_databases(settings: Settings) -> None:
    """Make the databases that are not there. Raises `Unavailable`; of replicas one may be away."""
    urls = usage_urls(settings)
    if settings.usage_shards:
        urls.append(together_url(settings.usage_url))
    for url in urls:
        try:
            await create_database(url, usage_access(settings))
        except Unavailable:
            if not settings.usage_replicas:
                raise  # who asks for the tables next is told where none answers


async def check_places(connection: Connection, known: Mapping[int, int]) -> None:
    """Raises `Unsuitable` where a server is not named any more, or has rows of a partition that is
    on another one: an answer would have them twice.
    """
    servers = len(connection.servers)
    needed = max(known.values(), default=0) + 1
    if needed > servers:
        raise Unsuitable(
            f"the usage store has at least {needed} servers, and usage_url and usage_shards name"
            f" {servers}: name all of them, in the order in which they were added"
        )
    if isinstance(connection, ShardedConnection) and (found := await connection.strays(known)):
        (partition, server), *_ = found
        raise Unsuitable(
            f"partition {partition} of the log is on server {known[partition] + 1} of usage_url and"
            f" usage_shards, and server {server + 1} has rows of it, too. A process that did not"
            " know all servers wrote them. Delete them there: docs/operations.md, 'Rows on the"
            " wrong server', says how"
        )


async def place_partitions(connection: Connection, shards: Shards, partitions: int) -> None:
    """From now on each partition has its server: the one that was registered, or that has rows of
    it, or else the one with the fewest. Raises as `check_places` does.
    """
    await check_places(connection, await shards.known())

    async def place(partition: int) -> Mapping[int, int]:
        known = await shards.known()
        due = set(range(max(partitions, partition + 1))) - known.keys()
        if not due or not isinstance(connection, ShardedConnection):
            return known
        return await shards.place(await connection.held(), due, len(connection.servers))

    if isinstance(connection, ShardedConnection):
        connection.places.place = place


def place_anew(connection: Connection, partitions: int) -> None:
    """The same for an archive that is put back into empty stores, before the control store is."""

    async def place(partition: int) -> Mapping[int, int]:
        return placed({}, range(max(partitions, partition + 1)), len(connection.servers))

    if isinstance(connection, ShardedConnection):
        connection.places.place = place
