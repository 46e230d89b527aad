"""Where the stores and the log of a distributed set-up have texts that must be gone."""

from collections.abc import Sequence

import asyncpg
import clickhouse_connect
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from tests.journey.setups import PARTITIONS, Servers
from tests.services.ready import postgres_dsn


async def everywhere(servers: Servers, name: str, texts: Sequence[str]) -> list[str]:
    """Where PostgreSQL, ClickHouse and the log have one of these texts; `name` is that of the
    databases and of the topic.
    """
    found = []
    connection = await asyncpg.connect(postgres_dsn(servers.postgres, name))
    tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    for (table,) in tables:
        for row in await connection.fetch(f"SELECT * FROM {table}"):
            whole = " ".join(
                value.decode(errors="replace") if isinstance(value, bytes) else str(value)
                for value in row.values()
            )
            found += [f"postgresql {table}" for text in texts if text in whole]
    await connection.close()
    client = clickhouse_connect.get_client(dsn=f"{servers.clickhouse.rstrip('/')}/{name}")
    sql = "SELECT table, name FROM system.columns WHERE database = currentDatabase()"
    for table, column in client.query(sql).result_rows:
        where = " OR ".join(f"position(toString({column}), '{text}') > 0" for text in texts)
        if client.query(f"SELECT count() FROM {table} WHERE {where}").result_rows[0][0]:
            found.append(f"clickhouse {table}.{column}")
    noted = f"SELECT count() FROM system.mutations WHERE position(command, '{texts[0]}') > 0"
    if client.query(noted).result_rows[0][0]:
        found.append("clickhouse mutations")
    client.close()
    for record in await _records(servers.kafka, name):
        found += [f"log: {record[:80]!r}" for text in texts if text.encode() in record]
    return found


def _partitions(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(int(PARTITIONS))]


async def _records(bootstrap: str, topic: str) -> list[bytes]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign(_partitions(topic))
        ends = await consumer.end_offsets(_partitions(topic))
        await consumer.seek_to_beginning()
        found: list[bytes] = []
        for at, end in ends.items():
            while await consumer.position(at) < end:
                got = await consumer.getmany(at, timeout_ms=1_000)
                found += [one.value or b"" for one in got.get(at, [])]
        return found
    finally:
        await consumer.stop()


async def sealed_ends(servers: Servers, name: str) -> dict[int, int]:
    """The offset up to which each partition is sealed, of those that are."""
    connection = await asyncpg.connect(postgres_dsn(servers.postgres, name))
    rows = await connection.fetch("SELECT partition, max(offset_end) FROM seals GROUP BY partition")
    await connection.close()
    return {partition: int(end) for partition, end in rows}


async def drop_sealed(servers: Servers, name: str) -> None:
    """Delete what is sealed from the log, as the broker does with what is old. Counted is not
    enough: a worker that takes a partition on reads on from the last seal. That of a retention lies
    days back, so no operator loses what is not sealed yet.
    """
    ends = await sealed_ends(servers, name)
    admin = AIOKafkaAdminClient(bootstrap_servers=servers.kafka)
    await admin.start()
    deleted = {TopicPartition(name, at): RecordsToDelete(end) for at, end in ends.items()}
    await admin.delete_records(deleted)
    await admin.close()
