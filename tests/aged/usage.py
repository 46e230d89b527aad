"""The usage store of an old installation: raw events, keys, tallies and accounts as counting wrote
them, by SQL.
"""

from typing import Final

from meterline.backends.clickhouse.connection import Connection
from meterline.event import position
from meterline.limits import SLICE_SPAN_MS
from meterline.window import MINUTE_MS
from tests.aged.age import COUNTED_TYPE, NAMESPACES, SLICE_EVENTS, SUBJECTS, Age, namespace
from tests.aged.control import LOG

PORTION: Final = 1_000_000  # events of one statement
RECORD: Final = position(1, 0)  # between versions of two records


def _events(age: Age, partition: int, first: int, count: int) -> str:
    """A table with the values of each event of a partition, from event `first` on."""
    return f"""(SELECT number, {partition} AS partition_, intDiv(number, {SLICE_EVENTS}) AS offset_,
    number % {SLICE_EVENTS} AS place_, toInt64({age.begin_ms} + offset_ * {SLICE_SPAN_MS}) AS at_ms,
    SHA256(concat('aged/{partition}/', toString(number))) AS hash,
    (number + {partition}) % {NAMESPACES} AS tenant,
    if(tenant = 0, '{namespace(0)}', concat('tenant-', toString(tenant))) AS namespace_,
    concat('customer-', toString(number % {SUBJECTS})) AS subject_,
    concat('{partition}-', toString(number)) AS id_,
    toDateTime(intDiv(at_ms, 1000), 'UTC') AS second_,
    concat(formatDateTime(second_, '%Y-%m-%dT%H:%i:%S'), '.000Z') AS time_,
    concat('{{"specversion":"1.0","id":"', id_, '","source":"aged","type":"{COUNTED_TYPE}",',
        '"subject":"', subject_, '","time":"', time_, '","data":{{"tokens":',
        toString(number % 4096), '}},"namespace":"', namespace_, '","recordedtime":"', time_, '"}}'
    ) AS text_
FROM numbers({first}, {count}))"""


def statements(age: Age, partition: int, first: int, count: int) -> list[str]:
    """What puts in the events of a partition from event `first` on: whole slices."""
    events = _events(age, partition, first, count)
    return [
        f"""INSERT INTO events (log, partition, offset, place, slice, append_ms, key, namespace,
    type, subject, source, id, time_ms, recorded_ms, text)
SELECT {LOG}, partition_, offset_, place_, offset_, at_ms, substring(hash, 1, 16), namespace_,
    '{COUNTED_TYPE}', subject_, 'aged', id_, at_ms, at_ms, text_ FROM {events}""",
        f"""INSERT INTO seen (log, partition, offset, place, slice, append_ms, key, check)
SELECT {LOG}, partition_, offset_, place_, offset_, at_ms, substring(hash, 1, 16),
    substring(hash, 17, 8) FROM {events}""",
        f"""INSERT INTO tallies (revision, subject, groups, window, log, partition, slice, version,
    total, counted, rejected, minimum, maximum, latest_time_ms, latest_recorded_ms, latest_key,
    latest)
SELECT tenant + {age.before + 1}, subject_, '[]', intDiv(at_ms, {MINUTE_MS}), {LOG}, partition_,
    offset_, offset_ * {RECORD} + place_, 0, 1, 0, 0, 0, 0, 0, toFixedString('', 16), 0
FROM {events}""",
    ]


def accounts(age: Age) -> str:
    """What puts in what became of all events."""
    return f"""INSERT INTO accounts SELECT {LOG}, number % {age.partitions},
    intDiv(number, {age.partitions}) AS offset_, offset_ * {RECORD} + {SLICE_EVENTS - 1},
    {SLICE_EVENTS}, {SLICE_EVENTS}, 0, 0, 0 FROM numbers({age.each * age.partitions})"""


async def put(connection: Connection, age: Age) -> None:
    """Put all of it into an empty usage store. Some minutes for twenty million events."""
    portion = PORTION // SLICE_EVENTS * SLICE_EVENTS
    for partition in range(age.partitions):
        whole = age.each * SLICE_EVENTS
        for first in range(0, whole, portion):
            for statement in statements(age, partition, first, min(portion, whole - first)):
                await connection.execute(statement)
    await connection.execute(accounts(age))
