"""What Kafka, ClickHouse and PostgreSQL answer. Nothing is made or changed."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

from sqlalchemy import text

from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.schema import TABLES_MADE, database_of
from meterline.backends.clickhouse.several.replicated import Replica, ReplicatedConnection
from meterline.backends.clickhouse.several.sharded import ShardedConnection, together_url
from meterline.backends.clock import SystemClock
from meterline.backends.control_store.connection import Connection as Transaction
from meterline.backends.control_store.engine import open_database
from meterline.backends.control_store.migrations.migrated import check_migrated
from meterline.backends.control_store.progress.partitions.shards import SqlShards
from meterline.backends.kafka import topic_settings
from meterline.backends.kafka.topic import inspect_topic
from meterline.event import may_be_laid_out
from meterline.ports import AccessRefused, Unavailable, Unsuitable
from meterline.runtime.commands.doctor.finding import (
    Finding,
    Level,
    of_clock,
    of_rights,
    of_topic_rights,
    of_version,
)
from meterline.runtime.settings.checks import CONTROL_EMBEDDED
from meterline.runtime.settings.reading import Settings
from meterline.runtime.wiring.connections import kafka_security, usage_access
from meterline.runtime.wiring.control_access import control_access
from meterline.runtime.wiring.usage_servers import check_places, connection_to_several
from meterline.window import DAY_MS

CLOCK: Final = SystemClock()
KAFKA, CLICKHOUSE, POSTGRESQL = "Kafka", "ClickHouse", "PostgreSQL"
_GRANTS: Final = "see docs/operations.md, 'Rights of the stores' users'"
_NO_DATABASE: Final = "Code: 81."
_CLICKHOUSE_RIGHTS: Final = ("SELECT", "INSERT", "ALTER TABLE", "CREATE TABLE", "TRUNCATE")
_TOGETHER_RIGHTS: Final = ("SELECT", "INSERT", "CREATE TABLE", "DROP TABLE")
_POSTGRESQL_NOW: Final = text(
    "SELECT current_setting('server_version') AS version,"
    " floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms"
)
_POSTGRESQL_RIGHTS: Final = text(
    "SELECT p FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS p"
    " WHERE EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = current_schema()"
    " AND NOT has_table_privilege(format('%I.%I', schemaname, tablename), p))"
)


async def look_at_kafka(settings: Settings, role: str | None = None) -> AsyncIterator[Finding]:
    """With a role, the rights are those that it needs. Raises `Unavailable`."""
    name = settings.log_topic
    found = await inspect_topic(
        settings.kafka_servers, name, kafka_security(settings), settings.log_timeout_s
    )
    yield Finding(KAFKA, Level.OK, f"{found.brokers} brokers answer")
    if found.topic is None:
        yield _no_topic(name)
        return
    if not may_be_laid_out(found.topic.partitions, settings.partitions):
        number = found.topic.partitions
        message = f"topic {name} has {number} partitions, the settings say {settings.partitions}"
        yield Finding(KAFKA, Level.FAULT, f"{message}: set partitions to {number}")
    retention_ms = settings.log_retention_days * DAY_MS
    try:
        hints = list(topic_settings.check(name, found.settings, found.topic.replicas, retention_ms))
    except Unsuitable as error:
        yield Finding(KAFKA, Level.FAULT, str(error))
    else:
        yield Finding(KAFKA, Level.OK, f"topic {name} can hold the log")
        for hint in hints:
            yield Finding(KAFKA, Level.WARNING, f"topic {name}: {hint}")
    yield of_topic_rights(KAFKA, name, found.rights, role)
    if "ALTER" not in found.rights:
        message = f"the user may not ALTER topic {name}: only `migrate --partitions` needs it"
        yield Finding(KAFKA, Level.OK, message)


def _no_topic(name: str) -> Finding:
    message = f"there is no topic {name}, or this user may not see it: run `meterline migrate`"
    return Finding(KAFKA, Level.FAULT, message)


async def look_at_clickhouse(settings: Settings) -> AsyncIterator[Finding]:
    """Each server, and whether they are read together. Raises `Unavailable`."""
    connection = connection_to_several(settings) or Connection(
        settings.usage_url, access=usage_access(settings)
    )
    try:
        replicas = connection.replicas if isinstance(connection, ReplicatedConnection) else ()
        for number, server in enumerate(replicas or connection.servers, 1):
            part = CLICKHOUSE if number == 1 else f"{CLICKHOUSE} {number}"
            async for finding in _look_at_one(settings, server, part):
                yield finding
            if isinstance(server, Replica):
                yield await _whole(server, part)
        if isinstance(connection, ShardedConnection):
            database = database_of(together_url(settings.usage_url))
            first = connection.servers[0]
            yield await _clickhouse_rights(first, database, CLICKHOUSE, _TOGETHER_RIGHTS)
            yield (found := await _together(connection))
            if found.level is Level.OK:
                yield await _places(settings, connection)
    finally:
        await connection.close()


async def _whole(replica: Replica, part: str) -> Finding:
    """Whether a replica has what the others have."""
    if not (lacking := sorted(await replica.lacking())):
        return Finding(part, Level.OK, "has everything that the replicas have written")
    message = (
        f"may lack rows of {', '.join(lacking)}, so it is not asked. Wait if it was away or is new;"
        " otherwise look at system.replicas there: is_readonly, queue_size, last_queue_update_"
        "exception, and total_replicas, which is to be the number of servers in usage_url and"
        " usage_replicas"
    )
    return Finding(part, Level.FAULT, message)


async def _together(connection: ShardedConnection) -> Finding:
    """Whether the first server reads all of them."""
    first, *_ = servers = connection.servers
    asked = (
        "SELECT uniqExact(shard_num), count() FROM system.clusters WHERE cluster = {name:String}"
    )
    ((shards, replicas),) = await first.query(asked, {"name": connection.cluster})
    if shards != len(servers) or replicas != shards:
        has = f"{shards} shards" if shards != len(servers) else f"{replicas} replicas in its shards"
        message = (
            f"cluster {connection.cluster} of the server at usage_url has {has}, and there are"
            f" {len(servers)} servers: correct remote_servers in its configuration. Each server is"
            " a shard of its own"
        )
        return Finding(CLICKHOUSE, Level.FAULT, message)
    try:
        await connection.check_alike()
        ids = [await server.query("SELECT DISTINCT id FROM installation", {}) for server in servers]
        await connection.check_whole([[str(one) for (one,) in rows] for rows in ids])
    except AccessRefused:
        message = "the servers have not all tables yet: run `meterline migrate`"
        return Finding(CLICKHOUSE, Level.FAULT, message)
    except (Unavailable, Unsuitable) as error:
        return Finding(CLICKHOUSE, Level.FAULT, str(error))
    message = f"cluster {connection.cluster} reads {len(servers)} servers as one"
    return Finding(CLICKHOUSE, Level.OK, message)


async def _places(settings: Settings, connection: ShardedConnection) -> Finding:
    """Whether each partition of the log has rows on its server only."""
    try:
        await connection.held()
        await check_places(connection, await _known(settings))
    except (Unavailable, Unsuitable) as error:
        return Finding(CLICKHOUSE, Level.FAULT, str(error))
    return Finding(CLICKHOUSE, Level.OK, "each partition of the log is on one server")


async def _known(settings: Settings) -> Mapping[int, int]:
    """Where partitions are, as far as the control store can tell."""
    if settings.control_url == CONTROL_EMBEDDED:
        return {}
    database = open_database(settings.control_url, access=control_access(settings))
    try:
        await check_migrated(database)
        return await SqlShards(database).known()
    except (Unavailable, Unsuitable):
        return {}
    finally:
        await database.close()


async def _look_at_one(
    settings: Settings, connection: Connection, part: str
) -> AsyncIterator[Finding]:
    before_ms = CLOCK.now_ms()
    asked = "SELECT version(), toUnixTimestamp64Milli(now64(3)), currentDatabase()"
    try:
        ((version, now_ms, database),) = await connection.query(asked, {})
    except AccessRefused as error:
        if _NO_DATABASE not in str(error):
            raise
        message = "the database in usage_url does not exist: run `meterline migrate`"
        yield Finding(part, Level.FAULT, message)
        return
    yield of_version(CLICKHOUSE, version)._replace(part=part)
    clocks = before_ms, CLOCK.now_ms()
    yield of_clock(part, now_ms, clocks, settings.clock_skew_ms)
    rows = await connection.query(
        "SELECT name FROM system.tables WHERE database = currentDatabase()", {}
    )
    missing = TABLES_MADE - {name for (name,) in rows}
    if missing:
        names = ", ".join(sorted(missing))
        message = f"database {database} lacks tables ({names}): run `meterline migrate`"
        yield Finding(part, Level.FAULT, message)
    else:
        yield Finding(part, Level.OK, f"database {database} has all tables")
    yield await _clickhouse_rights(connection, str(database), part)


async def _clickhouse_rights(
    connection: Connection, database: str, part: str, rights: Sequence[str] = _CLICKHOUSE_RIGHTS
) -> Finding:
    asked = {right: f"{right} ON `{database}`.*" for right in rights}
    if rights is _TOGETHER_RIGHTS:
        asked["REMOTE"] = "REMOTE ON *.*"
    missing = []
    for right, where in asked.items():
        ((granted,),) = await connection.query(f"CHECK GRANT {where}", {})
        if not granted:
            missing.append(right)
    return of_rights(part, missing, f"database {database}", _GRANTS)


async def look_at_postgresql(settings: Settings) -> AsyncIterator[Finding]:
    """Raises `Unavailable`."""
    database = open_database(settings.control_url, access=control_access(settings))

    async def ask(connection: Transaction) -> tuple[Mapping[str, object], list[str]]:
        first = (await connection.execute(_POSTGRESQL_NOW)).mappings().one()
        missing = (await connection.execute(_POSTGRESQL_RIGHTS)).scalars().all()
        return dict(first), [str(it) for it in missing]

    try:
        before_ms = CLOCK.now_ms()
        found, missing = await database.read(ask)
        version = str(found["version"]).split(" ", 1)[0]
        yield of_version(POSTGRESQL, version)
        clocks = before_ms, CLOCK.now_ms()
        yield of_clock(POSTGRESQL, int(str(found["now_ms"])), clocks, settings.clock_skew_ms)
        try:
            await check_migrated(database)
        except Unsuitable as error:
            yield Finding(POSTGRESQL, Level.FAULT, str(error))
        else:
            yield Finding(POSTGRESQL, Level.OK, "the control store is at this release")
            yield of_rights(POSTGRESQL, missing, "its tables", _GRANTS)
    finally:
        await database.close()
