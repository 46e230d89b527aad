"""What an installation on servers holds, out of the servers and into others.

What is taken out is what the build has made: PostgreSQL's own dump, the tables of ClickHouse with
their rows as they lie there, and each record of the topic.
"""

import asyncio
import base64
import json
import secrets
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import asyncpg
from aiokafka import AIOKafkaConsumer, TopicPartition

from meterline.backends.kafka.log import open_kafka_log
from meterline.backends.kafka.record import kafka_record
from meterline.event import Record, RecordKind
from meterline.window import DAY_MS
from tests.journey.setups import Servers, fresh_database
from tests.services.choose import open_service
from tests.services.command import run_to_end
from tests.services.postgres import INSTALL, PACKAGES
from tests.upgrade.recording import DATA

PARTITIONS: Final = 4
DUMP_WITHIN_S: Final = 60.0
ASK_WITHIN_S: Final = 60.0
POSTGRES: Final = "postgres.sql"
CLICKHOUSE: Final = "clickhouse.json"
KAFKA: Final = "kafka.json"
# Lines for psql alone: newer versions of the dump begin and end with them.
_FOR_PSQL: Final = ("\\restrict ", "\\unrestrict ")
# Rows go in as they were, and as many as they were.
_AS_IT_IS: Final = {
    "insert_deduplicate": "0",
    "optimize_on_insert": "0",
    "max_partitions_per_insert_block": "0",
}
# What a table is to a build that reads and writes it.
_SHAPES: Final = (
    "SELECT name, create_table_query, engine, sorting_key, partition_key FROM system.tables"
    " WHERE database = currentDatabase() ORDER BY name FORMAT JSONCompact"
)
_COLUMNS: Final = (
    "SELECT table, name, type FROM system.columns WHERE database = currentDatabase()"
    " ORDER BY table, position FORMAT JSONCompact"
)


@dataclass(frozen=True, slots=True)
class Place:
    """A topic and two databases of one name on servers, which nobody else uses."""

    servers: Servers
    name: str
    control_url: str

    @property
    def settings(self) -> dict[str, str]:
        """As processes have them, but for the key of secrets."""
        return {
            "METERLINE_LOG_URL": f"kafka://{self.servers.kafka}",
            "METERLINE_LOG_TOPIC": self.name,
            "METERLINE_CONSUMER_GROUP": self.name,
            "METERLINE_USAGE_URL": f"{self.servers.clickhouse.rstrip('/')}/{self.name}",
            "METERLINE_CONTROL_URL": self.control_url,
        }

    def clickhouse(self, statement: str, rows: bytes = b"", database: str | None = None) -> bytes:
        """What ClickHouse answers."""
        asked = {"database": self.name if database is None else database, "query": statement}
        url = f"{self.servers.clickhouse.rstrip('/')}/?{urlencode(asked | _AS_IT_IS)}"
        with urllib.request.urlopen(url, rows, ASK_WITHIN_S) as answer:
            found: bytes = answer.read()
            return found


def _say(words: str) -> None:
    sys.stderr.write(f"{words}\n")


@contextmanager
def three() -> Iterator[Servers]:
    """The three servers, until the block ends."""
    kinds = ("kafka", "clickhouse", "postgres")
    started = [open_service(kind, _say) for kind in kinds]
    try:
        for one in started:
            one.start()
        yield Servers(*(one.url for one in started))
    finally:
        for one in started:
            one.stop()


def fresh(servers: Servers) -> Place:
    """A place without topic and tables."""
    name = f"upgrade_{secrets.token_hex(4)}"
    return Place(servers, name, fresh_database(servers.postgres, name))


def tables(place: Place) -> dict[str, Any]:
    """Of each table of ClickHouse how it is made, how its rows lie, and its columns by name."""
    columns: dict[str, dict[str, str]] = {}
    for table, name, type_ in json.loads(place.clickhouse(_COLUMNS))["data"]:
        columns.setdefault(table, {})[name] = type_
    return {
        name: {
            "made": made.replace(f"{place.name}.", "", 1),
            "lies": [engine, sorting, partition],
            "columns": columns[name],
        }
        for name, made, engine, sorting, partition in json.loads(place.clickhouse(_SHAPES))["data"]
    }


def take_out(place: Place, folder: Path) -> None:
    """Write everything that a place holds into the folder of data of a recording."""
    data = folder / DATA
    data.mkdir()
    program = PACKAGES / INSTALL / "bin" / "pg_dump"
    dump = [str(program), "--no-owner", "--no-privileges", "--inserts", place.control_url]
    (data / POSTGRES).write_text(run_to_end("dump", dump, folder, DUMP_WITHIN_S))
    found = tables(place)
    (data / CLICKHOUSE).write_text(json.dumps(found, indent=1))
    for name, one in found.items():
        rows = place.clickhouse(f"SELECT {', '.join(one['columns'])} FROM {name} FORMAT TSV")
        (data / f"{name}.tsv").write_bytes(rows)
    (data / KAFKA).write_text(json.dumps(asyncio.run(_records(place)), indent=0))


def put_in(place: Place, folder: Path) -> None:
    """Make all of it in another place, as that build has left it. The topic has another id there:
    that alone is told to the control store.
    """
    data = folder / DATA
    place.clickhouse(f"CREATE DATABASE {place.name}", database="default")
    for name, one in json.loads((data / CLICKHOUSE).read_text()).items():
        place.clickhouse(one["made"])
        if rows := (data / f"{name}.tsv").read_bytes():
            into = f"INSERT INTO {name} ({', '.join(one['columns'])}) FORMAT TSV"
            place.clickhouse(into, rows)
    log_id = asyncio.run(_append(place, json.loads((data / KAFKA).read_text())))
    lines = (data / POSTGRES).read_text().split("\n")
    script = "\n".join(line for line in lines if not line.startswith(_FOR_PSQL))
    asyncio.run(execute(place, script))
    asyncio.run(execute(place, f"UPDATE public.logs SET id = '{log_id}'"))


async def execute(place: Place, script: str) -> None:
    """Run statements on the control store."""
    connection = await asyncpg.connect(place.control_url)
    try:
        await connection.execute(script)
    finally:
        await connection.close()


async def _records(place: Place) -> list[Any]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=place.servers.kafka,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    found = []
    try:
        for number in range(PARTITIONS):
            where = TopicPartition(place.name, number)
            consumer.assign([where])
            end = (await consumer.end_offsets([where]))[where]
            await consumer.seek_to_beginning(where)
            while await consumer.position(where) < end:
                for some in (await consumer.getmany(where, timeout_ms=1_000)).values():
                    found += [
                        _told(kafka_record(number, it.offset, it.timestamp, it.headers, it.value))
                        for it in some
                    ]
    finally:
        await consumer.stop()
    return found


def _told(record: Record) -> list[Any]:
    value = base64.b64encode(record.value).decode()
    return [record.partition, record.offset, record.append_ms, record.kind.value, value]


async def _append(place: Place, records: Sequence[Sequence[Any]]) -> str:
    """Make the topic, and put the records where they were; its id."""
    log = await open_kafka_log(place.servers.kafka, place.name, PARTITIONS, 7 * DAY_MS)
    try:
        for number in range(PARTITIONS):
            those = [
                Record(number, offset, at_ms, RecordKind(kind), base64.b64decode(value), log.id)
                for partition, offset, at_ms, kind, value in records
                if partition == number
            ]
            if those:
                await log.put_back(number, those[0].offset, those)
        return log.id
    finally:
        await log.close()
