"""The servers themselves: what is written is there after kill -9 and a restart, at the same URL."""

import uuid

import asyncpg
import clickhouse_connect
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaConnectionError

from tests.services.ready import postgres_dsn
from tests.services.service import Service


def fresh_name() -> str:
    """Return a name that no other test uses."""
    return f"services_{uuid.uuid4().hex}"


async def test_kafka_keeps_acknowledged_records_when_killed(kafka_service: Service) -> None:
    topic, partition, url = fresh_name(), 1, kafka_service.url
    admin = AIOKafkaAdminClient(bootstrap_servers=url)
    await admin.start()
    await admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])
    await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=url, acks="all", enable_idempotence=True)
    await producer.start()
    sent = [f"record {number}".encode() for number in range(20)]
    for value in sent:
        await producer.send_and_wait(topic, value, partition=partition)
    await producer.stop()

    kafka_service.kill()
    with pytest.raises(KafkaConnectionError):
        await AIOKafkaAdminClient(bootstrap_servers=url).start()
    kafka_service.start()

    assert kafka_service.url == url
    consumer = AIOKafkaConsumer(bootstrap_servers=url, auto_offset_reset="earliest")
    await consumer.start()
    consumer.assign([TopicPartition(topic, partition)])
    read = [(await consumer.getone()).value for _ in sent]
    await consumer.stop()
    assert read == sent


async def test_clickhouse_keeps_inserted_rows_when_killed(clickhouse_service: Service) -> None:
    database, url = fresh_name(), clickhouse_service.url
    async with await clickhouse_connect.get_async_client(dsn=url) as client:
        await client.command(f"CREATE DATABASE {database}")
        await client.command(
            f"CREATE TABLE {database}.t (n UInt64, d Decimal(38, 18)) "
            "ENGINE = ReplacingMergeTree(n) ORDER BY n"
        )
        await client.insert(f"{database}.t", [[n, n] for n in range(1000)], column_names="*")

    clickhouse_service.kill()
    with pytest.raises(clickhouse_connect.driver.exceptions.OperationalError):
        await clickhouse_connect.get_async_client(dsn=url)
    clickhouse_service.start()

    assert clickhouse_service.url == url
    async with await clickhouse_connect.get_async_client(dsn=url) as client:
        answer = await client.query(f"SELECT count(), sum(n) FROM {database}.t FINAL")
        await client.command(f"DROP DATABASE {database}")
    assert answer.result_rows == [(1000, 499500)]


async def test_postgres_keeps_committed_rows_when_killed(postgres_service: Service) -> None:
    table = fresh_name()
    dsn = postgres_dsn(postgres_service.url)
    connection = await asyncpg.connect(dsn)
    await connection.execute(f"CREATE TABLE {table} (n bigint primary key)")
    await connection.execute(f"INSERT INTO {table} SELECT generate_series(1, 1000)")

    postgres_service.kill()  # with the connection open: a crash, not a farewell
    with pytest.raises(OSError, match=r"Connect call failed|refused"):
        await asyncpg.connect(dsn)
    connection.terminate()
    postgres_service.start()

    connection = await asyncpg.connect(dsn)
    assert await connection.fetchval(f"SELECT sum(n) FROM {table}") == 500500
    await connection.execute(f"DROP TABLE {table}")
    await connection.close()
