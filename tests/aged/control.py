"""The control store of an old installation, by SQL that both dialects know."""

from typing import Final

from sqlalchemy import text

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.progress.filling import ALL
from meterline.limits import SLICE_SPAN_MS
from tests.aged.age import COUNTED_TYPE, NAMESPACES, OTHER_TYPES, SLICE_EVENTS, Age, namespace

LOG: Final = 1


def _numbers(count: int) -> str:
    """A table `n` of the numbers before `count`."""
    return f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {count - 1})"


def statements(age: Age) -> list[str]:
    """What makes it: meters, seals of which all meters know but those that lack them, bounds of
    what is filled in, completeness.
    """
    event_type = (
        f"CASE WHEN i < {NAMESPACES} THEN '{COUNTED_TYPE}' ELSE 't' || (i % {OTHER_TYPES}) END"
    )
    tenant = f"(i % {NAMESPACES})"
    own = f"CASE WHEN {tenant} = 0 THEN '{namespace(0)}' ELSE 'tenant-' || {tenant} END"
    return [
        f"""INSERT INTO meters (id, namespace, key, name, description, labels, from_settings,
    created_version, created_at_ms, updated_at_ms) {_numbers(age.meters)}
SELECT 'id' || i, {own}, 'm' || i, 'M', '', '{{}}', false, i + 1 + {age.before},
    {age.begin_ms}, {age.begin_ms} FROM n""",
        f"""INSERT INTO meter_revisions (revision, meter_id, aggregation, event_type, dimensions)
{_numbers(age.meters)}
SELECT i + 1 + {age.before}, 'id' || i, 'count', {event_type}, '{{}}' FROM n""",
        f"UPDATE catalogue_version SET version = {age.version}",
        f"""INSERT INTO seals (log, partition, slice, offset_end, events, catalogue, append_ms,
    rejects, tallies, members, rejected, late)
{_numbers(age.each * age.partitions)} SELECT {LOG}, part, place, place + 1, {SLICE_EVENTS},
    {age.known}, {age.begin_ms} + CAST(place AS BIGINT) * {SLICE_SPAN_MS},
    0, {SLICE_EVENTS}, 0, 0, 0
FROM (SELECT i % {age.partitions} AS part, i / {age.partitions} AS place FROM n) AS slices""",
        f"""INSERT INTO fill_bounds (log, partition, revision, filled_end)
{_numbers(age.known * age.partitions)} SELECT {LOG}, part, revision, {ALL}
FROM (SELECT i / {age.known} AS part, i % {age.known} + 1 AS revision FROM n) AS pairs""",
        f"""INSERT INTO completeness (log, partition, catalogue, until_ms)
{_numbers(age.partitions)} SELECT {LOG}, i, {age.version}, {age.last_ms} FROM n""",
    ]


async def put(database: Database, age: Age) -> None:
    """Put all of it into a control store that knows its log. Minutes for a year."""
    for statement in statements(age):

        async def act(connection: Connection, statement: str = statement) -> None:
            await connection.execute(text(statement))

        await database.write(act)


async def goes_on(database: Database, age: Age) -> None:
    """The log on Kafka is one that was restored: its first records follow the old ones."""
    firsts = f"[{', '.join([str(age.each)] * age.partitions)}]"

    async def act(connection: Connection) -> None:
        update = text("UPDATE logs SET firsts = :firsts WHERE number = :log")
        await connection.execute(update, {"firsts": firsts, "log": LOG})

    await database.write(act)
