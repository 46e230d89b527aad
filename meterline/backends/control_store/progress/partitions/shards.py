"""`Shards` over SQL: which server of the usage store a partition is on."""

from collections.abc import Iterable, Mapping

from sqlalchemy import select

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import insert
from meterline.backends.control_store.store import SqlStore, reads, writes
from meterline.backends.control_store.tables.meters import usage_shards
from meterline.usage import placed


class SqlShards(SqlStore):
    """See `meterline.usage.Shards`."""

    @reads
    async def known(self, connection: Connection) -> dict[int, int]:
        """See the port."""
        return await _known(connection)

    @writes
    async def place(
        self,
        connection: Connection,
        held: Mapping[int, int],
        partitions: Iterable[int],
        servers: int,
    ) -> dict[int, int]:
        """See the port. Of processes that ask at once the first wins, for each partition."""
        known = await _known(connection)
        due = set(partitions) - known.keys()
        there = {partition: held[partition] for partition in due & held.keys()}
        given = there | placed(known | there, due, servers)
        if given:
            rows = [{"partition": one, "server": server} for one, server in given.items()]
            statement = insert(connection, usage_shards).values(rows)
            await connection.execute(statement.on_conflict_do_nothing())
        return await _known(connection)


async def _known(connection: Connection) -> dict[int, int]:
    rows = await connection.execute(select(usage_shards.c.partition, usage_shards.c.server))
    return {int(partition): int(server) for partition, server in rows}
