"""The SQL that recounts a meter from the texts of raw events (pure).

It reads JSON by the engine's own functions, so it shares nothing with the fold but the rules. Where
they cannot be exact (a number of over 15 digits is a double to them, and digits behind the
eighteenth are to be rounded half-even), the row is `unsettled`, and its slice left to the fold.
"""

from dataclasses import dataclass
from typing import Final, assert_never

from meterline.audit import Chunk
from meterline.backends.clickhouse.usage.statement import Statement
from meterline.event import ERASED_START, PSEUDONYM_PREFIX, simple_steps
from meterline.limits import INTEGER_DIGITS_MAX, NUMBER_CHARS_MAX, POSITION_INDEX_BITS, SCALE
from meterline.meter import Aggregation, Meter
from meterline.usage import CELL_TABLES

_ERASED: Final = (
    f"(startsWith(subject, '{PSEUDONYM_PREFIX}') AND startsWith(text, '{ERASED_START}'))"
)
_UNIT: Final = f"toInt256('{10**SCALE}')"
_DECIMAL_UNIT: Final = f"toDecimal256('{10**SCALE}', 0)"
_WIDE: Final = 40  # digits behind the point that a double of 15 digits may have, if it is no zero
_SMALLEST: Final = "1e-20"
_OUT_OF_RANGE: Final = f"1e{INTEGER_DIGITS_MAX}"
_NUMERIC: Final = "^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?$"
_PLAIN: Final = (
    f"^[+-]?([0-9]{{1,{INTEGER_DIGITS_MAX}}}([.][0-9]{{0,{SCALE}}})?|[.][0-9]{{1,{SCALE}}})$"
)
# A number that a double may not hold: 16 or more digits and points, outside of a string.
_LONG: Final = "[:,[][ \\\\t\\\\r\\\\n]*-?[0-9][0-9.]{15}"
_NO_KEY: Final = "toFixedString('', 16)"
_ZERO: Final = "toInt256(0)"
_NO_NUMBERS: Final = (
    f"tuple(toUInt64(0), {_ZERO}, toUInt64(0), toUInt64(0), {_ZERO}, {_ZERO}, toInt64(0),"
    f" toInt64(0), {_NO_KEY}, {_ZERO})"
)
_NO_VALUE: Final = "('Null', 'Object', 'Array')"


@dataclass(frozen=True, slots=True)
class Reading:
    """SQL for what stands at a path: as a group, as a member, as a number, and where it cannot
    tell.
    """

    name: str
    columns: str
    group: str
    group_unsettled: str
    member: str
    number: str
    number_unsettled: str


def is_simple(meter: Meter) -> bool:
    """Whether all its paths are plain steps; others the engine's JSON functions cannot walk."""
    paths = [path for _, path in meter.dimensions]
    if meter.value_property is not None:
        paths.append(meter.value_property)
    return all(simple_steps(path) is not None for path in paths)


def touched_statement(chunk: Chunk) -> tuple[str, dict[str, object]]:
    """Rows (namespace, type, 0) of the chunk's events, and ('', '', revision) of its cells."""
    statement = Statement()
    slices = _slices(chunk, statement)
    events = f"SELECT DISTINCT namespace, type, toUInt32(0) FROM events WHERE {slices}"  # noqa: S608
    cells = (
        f"SELECT DISTINCT '', '', revision FROM {table} WHERE {slices}"  # noqa: S608 - as above
        for table in CELL_TABLES
    )
    return " UNION ALL ".join((events, *cells)), statement.parameters


def tallies_statement(chunk: Chunk, meter: Meter, limit: int) -> tuple[str, dict[str, object]]:
    """Rows (slice, events, cells, unsettled events, cells whose rejected rows differ, differences)
    of each slice that has any.

    A difference is (subject, groups, window, expected, found, times expected, times found); at most
    `limit` of each slice. Rejected rows are told by their number and a hash sum of their places.
    """
    statement = Statement()
    upto = f"{_POSITION} <= {statement.bind(chunk.upto, 'UInt64')}"
    sql = f"""
SELECT slice, sum(events), countIf(times_expected > 0), sum(unsettled_events),
    countIf(refused_expected != refused_stored),
    groupArrayIf({limit})(
        tuple(subject, cell_groups, minute, expected, stored, times_expected, times_stored),
        times_expected + times_stored > 0 AND (times_expected != 1 OR times_stored != 1)
            OR expected != stored)
FROM (
    SELECT slice, subject, cell_groups, minute, sum(count) AS events,
        sum(unsettled_count) AS unsettled_events, anyIf(numbers, side = 0) AS expected,
        anyIf(numbers, side = 1) AS stored, countIf(side = 0) AS times_expected,
        countIf(side = 1) AS times_stored, anyIf(refused, side = 0) AS refused_expected,
        anyIf(refused, side = 2) AS refused_stored
    FROM (
        SELECT slice, subject, cell_groups, minute, {_expected(meter.aggregation)} AS numbers,
            count() AS count, countIf(unsettled) AS unsettled_count,
            tuple(countIf({_refused(meter)}), sumIf(xxHash64(offset, place), {_refused(meter)}))
                AS refused, 0 AS side
        FROM ({_events(chunk, meter, statement)})
        GROUP BY slice, subject, cell_groups, minute
        UNION ALL
        SELECT slice, subject, JSONExtract(groups, 'Array(String)'), window,
            tuple(version, total, counted, rejected, toInt256(minimum), toInt256(maximum),
                latest_time_ms, latest_recorded_ms, latest_key, toInt256(latest)),
            0, 0, tuple(toUInt64(0), toUInt64(0)), 1
        FROM {_kept("tallies", chunk)}
        WHERE {_cells(chunk, meter, statement)}
        UNION ALL
        SELECT slice, subject, JSONExtract(groups, 'Array(String)') AS split, window,
            {_NO_NUMBERS}, 0, 0, tuple(count(), sum(xxHash64(offset, place))), 2
        FROM rejected FINAL
        WHERE {_cells(chunk, meter, statement)} AND {upto}
        GROUP BY slice, subject, split, window
    )
    GROUP BY slice, subject, cell_groups, minute
)
GROUP BY slice"""  # noqa: S608 - values are bound, names come from this module
    return sql, statement.parameters


def rejected_statement(chunk: Chunk, meter: Meter, limit: int) -> tuple[str, dict[str, object]]:
    """Rows (slice, subject, groups, window, offset, place, times expected, times found) that
    differ.
    """
    statement = Statement()
    upto = f"{_POSITION} <= {statement.bind(chunk.upto, 'UInt64')}"
    sql = f"""
SELECT slice, subject, cell_groups, minute, offset, place, countIf(side = 0) AS times_expected,
    countIf(side = 1) AS times_stored
FROM (
    SELECT slice, subject, cell_groups, minute, offset, place, 0 AS side
    FROM ({_events(chunk, meter, statement)})
    WHERE {_refused(meter)}
    UNION ALL
    SELECT slice, subject, JSONExtract(groups, 'Array(String)'), window, offset, place, 1
    FROM rejected FINAL
    WHERE {_cells(chunk, meter, statement)} AND {upto}
)
GROUP BY slice, subject, cell_groups, minute, offset, place
HAVING times_expected != 1 OR times_stored != 1
ORDER BY slice, offset, place
LIMIT {limit}"""  # noqa: S608 - as above
    return sql, statement.parameters


def distinct_statement(chunk: Chunk, meter: Meter) -> tuple[str, dict[str, object]]:
    """Rows (slice, subject, groups, window, canonical text) of a unique count: the engine has not
    the hash that names a member.
    """
    statement = Statement()
    sql = f"""
SELECT DISTINCT slice, subject, cell_groups, minute, assumeNotNull(usable)
FROM ({_events(chunk, meter, statement)})
WHERE usable IS NOT NULL"""  # noqa: S608 - as above
    return sql, statement.parameters


def members_statement(chunk: Chunk, meter: Meter) -> tuple[str, dict[str, object]]:
    """Rows (slice, subject, groups, window, member) as they are stored."""
    statement = Statement()
    sql = f"""
SELECT slice, subject, JSONExtract(groups, 'Array(String)'), window, member
FROM {_kept("members", chunk)}
WHERE {_cells(chunk, meter, statement)}"""  # noqa: S608 - as above
    return sql, statement.parameters


def _kept(table: str, chunk: Chunk) -> str:
    """Where the rows by minute of a chunk are read."""
    if not chunk.minutes_from:
        return f"{table} FINAL"
    minute = int(chunk.minutes_from)
    kept = f"SELECT * FROM {table} FINAL WHERE window >= {minute}"  # noqa: S608 - as above
    late = f"SELECT * FROM late_{table} FINAL WHERE window < {minute}"  # noqa: S608 - as above
    return f"({kept} UNION ALL {late})"


_POSITION: Final = f"bitOr(bitShiftLeft(offset, {POSITION_INDEX_BITS}), toUInt64(place))"


def _events(chunk: Chunk, meter: Meter, statement: Statement) -> str:
    """The events of a meter in a chunk, read: where they count, what of them, and whether the
    engine can tell.
    """
    readings = [
        _reading(f"d{number}", path, statement) for number, (_, path) in enumerate(meter.dimensions)
    ]
    unsettled = [f"({one.group_unsettled})" for one in readings]
    groups = ", ".join(one.group for one in readings)
    usable = "toInt256(1)"
    if meter.value_property is not None:
        value = _reading("v", meter.value_property, statement)
        unique = meter.aggregation is Aggregation.UNIQUE_COUNT
        usable = value.member if unique else value.number
        unsettled.append(f"({value.group_unsettled if unique else value.number_unsettled})")
        readings.append(value)
    columns = "".join(f"{one.columns}, " for one in readings)
    doubles = " OR ".join(f"{one.name}_kind = 'Double'" for one in readings) or "0"
    columns += f"({doubles}) AND match(text, '{_LONG}') AS has_long, "
    columns += f"{f'[{groups}]' if groups else 'emptyArrayString()'} AS cell_groups,"
    return f"""
    SELECT slice, subject, offset, place, time_ms, recorded_ms, key, {_POSITION} AS at,
        toUInt32(intDiv(time_ms, 60000)) AS minute, {columns}
        {usable} AS usable, NOT isValidJSON(text) OR {" OR ".join(unsettled) or "0"} AS unsettled
    FROM events FINAL
    WHERE {_slices(chunk, statement)}
        AND offset >= {statement.bind(chunk.first, "UInt64")}
        AND offset < {statement.bind(chunk.end, "UInt64")}
        AND at <= {statement.bind(chunk.upto, "UInt64")}
        AND namespace = {statement.bind(meter.namespace, "String")}
        AND type = {statement.bind(meter.event_type, "String")}
        AND NOT {_ERASED}"""  # noqa: S608 - as above


def _reading(name: str, path: str, statement: Statement) -> Reading:
    steps = simple_steps(path)
    assert steps is not None, "only plain paths are read here"
    parts = ["text", "'data'"]
    guards = []
    for step in steps:
        if isinstance(step, int):
            # a number would also choose a member of an object, by its place
            guards.append(f"JSONType({', '.join(parts)}) = 'Array'")
            parts.append(f"{statement.bind(step + 1, 'UInt32')}")
        else:
            parts.append(f"{statement.bind(step, 'String')}")
    at = ", ".join(parts)
    kind = f"toString(JSONType({at}))"
    if guards:
        kind = f"if({' AND '.join(guards)}, {kind}, 'Null')"
    # behind an `if` a text is parsed for the rows that need it only
    columns = f"""{kind} AS {name}_kind,
        if({name}_kind = 'String', JSONExtractString({at}), '') AS {name}_text,
        if({name}_kind = 'Double', JSONExtractFloat({at}), 0.) AS {name}_double,
        toDecimal256OrNull(toString({name}_double), {_WIDE}) AS {name}_decimal,
        {name}_kind = 'String' AND match({name}_text, '{_NUMERIC}') AS {name}_numeric,
        {name}_kind = 'String' AND match({name}_text, '{_PLAIN}') AS {name}_plain,
        CAST({name}_decimal, 'Nullable(Decimal(76, {SCALE}))') AS {name}_cut"""
    group = f"""multiIf({name}_kind = 'String', {name}_text,
        {name}_kind = 'Int64', toString(JSONExtractInt({at})),
        {name}_kind = 'UInt64', toString(JSONExtractUInt({at})),
        {name}_kind = 'Bool', if(JSONExtractBool({at}), 'true', 'false'),
        {name}_kind = 'Double', ifNull(toString({name}_decimal), ''), '')"""
    number = f"""multiIf({name}_kind = 'Int64', toInt256(JSONExtractInt({at})) * {_UNIT},
        {name}_kind = 'UInt64', toInt256(JSONExtractUInt({at})) * {_UNIT},
        {name}_kind = 'Double' AND abs({name}_double) < {_OUT_OF_RANGE},
            toInt256({name}_cut * {_DECIMAL_UNIT}),
        {name}_kind = 'String' AND {name}_plain,
            toInt256(toDecimal256OrNull({name}_text, {SCALE}) * {_DECIMAL_UNIT}),
        NULL)"""
    return Reading(
        name=name,
        columns=columns,
        group=group,
        group_unsettled=f"{name}_kind = 'Double' AND (has_long OR {name}_decimal IS NULL"
        f" OR ({name}_double != 0 AND abs({name}_double) < {_SMALLEST}))"
        # to the engine, a whole number too long for its own types is a string
        f" OR {name}_kind = 'String' AND length({name}_text) > {NUMBER_CHARS_MAX}",
        member=f"if({name}_kind IN {_NO_VALUE}, NULL, {group})",
        number=number,
        number_unsettled=f"{name}_kind = 'Double' AND (has_long OR"
        f" abs({name}_double) < {_OUT_OF_RANGE} AND ifNull({name}_decimal != {name}_cut, 1))"
        f" OR {name}_numeric AND NOT {name}_plain",
    )


def _refused(meter: Meter) -> str:
    return "0" if meter.aggregation is Aggregation.COUNT else "usable IS NULL"


def _cells(chunk: Chunk, meter: Meter, statement: Statement) -> str:
    """Rows of a meter's cells in a chunk; identity columns only, as FINAL asks. Not those of erased
    subjects: what they come from is not there any more.
    """
    revision = statement.bind(meter.revision, "UInt32")
    slices = _slices(chunk, statement)
    erased = f"SELECT subject FROM events WHERE {slices} AND {_ERASED}"  # noqa: S608 - as above
    return f"revision = {revision} AND {slices} AND subject NOT IN ({erased})"


def _slices(chunk: Chunk, statement: Statement) -> str:
    parts = (
        ("log = ", chunk.log, "UInt16"),
        ("partition = ", chunk.partition, "UInt16"),
        ("slice IN ", list(chunk.slices), "Array(UInt64)"),
    )
    return " AND ".join(text + statement.bind(value, kind) for text, value, kind in parts)


def _expected(aggregation: Aggregation) -> str:
    """The tally of a cell as a tuple, by the rule that a tally keeps only what its meter needs."""
    total, least, most = _ZERO, _ZERO, _ZERO
    latest = ("toInt64(0)", "toInt64(0)", _NO_KEY, _ZERO)
    match aggregation:
        case Aggregation.SUM | Aggregation.AVG:
            total = f"ifNull(sum(usable), {_ZERO})"
        case Aggregation.MIN | Aggregation.MAX:
            least, most = f"ifNull(min(usable), {_ZERO})", f"ifNull(max(usable), {_ZERO})"
        case Aggregation.LATEST:
            newest = (
                f"maxIf(tuple(time_ms, recorded_ms, key, ifNull(usable, {_ZERO})),"
                " usable IS NOT NULL)"
            )
            latest = tuple(f"tupleElement({newest}, {part})" for part in (1, 2, 3, 4))  # type: ignore[assignment]
        case Aggregation.COUNT | Aggregation.UNIQUE_COUNT:
            pass
        case never:
            assert_never(never)
    numbers = ("max(at)", total, "count(usable)", "countIf(usable IS NULL)", least, most, *latest)
    return f"tuple({', '.join(numbers)})"
