"""The statements of an erasure (pure): whose rows, what is left of them, and their copies.

Only slices below the borders are touched, and those of older logs. A statement that is run again
finds nothing, or writes the same rows.
"""

from typing import Any, Final

from meterline.event import ERASED_START
from meterline.meter import encode_groups
from meterline.usage import Erasure

CELLS: Final = ("tallies", "members", "late_tallies", "late_members")
_NUMBERS: Final = (
    "version, total, counted, rejected, minimum, maximum, latest_time_ms, latest_recorded_ms,"
    " latest_key, latest"
)
_VALUES: Final = {
    "tallies": _NUMBERS,
    "members": "member",
    "late_tallies": _NUMBERS,
    "late_members": "member",
}
# Of an instant in milliseconds its text.
_INSTANT: Final = (
    "concat(formatDateTime(toDateTime(intDiv({0}, 1000), 'UTC'), '%FT%T', 'UTC'), '.',"
    " leftPad(toString({0} % 1000), 3, '0'), 'Z')"
)
# The id says nothing, and is the same for all copies of an event.
_ID: Final = "concat('erased-', lower(hex(key)))"
_SOURCE: Final = "if(position(source, {name:String}) > 0, 'erased', source)"
_TEXT: Final = (
    f"concat('{ERASED_START}\"', {_INSTANT.format('recorded_ms')}, '\",\"namespace\":',"
    ' toJSONString(namespace), \',"specversion":"1.0","type":\', toJSONString(type),'
    f' \',"source":\', toJSONString({_SOURCE}), \',"id":"\', {_ID},'
    f' \'","subject":"\', {{pseudonym:String}}, \'","time":"\', {_INSTANT.format("time_ms")},'
    " '\"}')"
)
# Groups of the subject's own rows that are its name. The text is a JSON array of texts.
_GROUPS: Final = (
    "if(has(JSONExtract(groups, 'Array(String)'), {name:String}),"
    " replaceAll(groups, {quoted:String}, {quoted_pseudonym:String}), groups)"
)


_MINE: Final = "has({revisions:Array(UInt32)}, revision) AND subject = {name:String}"
RENAMED: Final = (
    f"CAST(if({_MINE}, {{pseudonym:String}}, toString(subject)), 'LowCardinality(String)')"
    f" AS subject, CAST(if({_MINE}, arrayMap(it -> if(it = {{name:String}}, {{pseudonym:String}},"
    " toString(it)), groups), arrayMap(it -> toString(it), groups)),"
    " 'Array(LowCardinality(String))') AS groups"
)
"""Rows of blocks with the pseudonym in place of the name."""


def parameters_of(erasure: Erasure) -> dict[str, Any]:
    """What all statements are given."""
    width = max(erasure.ends, default=-1) + 1
    return {
        "namespace": erasure.namespace,
        "name": erasure.name,
        "pseudonym": erasure.pseudonym,
        "quoted": encode_groups([erasure.name])[1:-1],
        "quoted_pseudonym": encode_groups([erasure.pseudonym])[1:-1],
        "revisions": list(erasure.revisions),
        "unfilled": list(erasure.unfilled),
        "log": erasure.log,
        "firsts": [erasure.firsts.get(number, 0) for number in range(width)],
        "ends": [erasure.ends.get(number, 0) for number in range(width)],
        "start": ERASED_START,
    }


WITHIN: Final = (
    "(log < {log:UInt16} OR (log = {log:UInt16}"
    " AND slice >= {firsts:Array(UInt64)}[partition + 1]"
    " AND slice < {ends:Array(UInt64)}[partition + 1]))"
)
# From the beginning on: what came back of an earlier erasure goes, too.
BELOW: Final = (
    "(log < {log:UInt16} OR (log = {log:UInt16} AND slice < {ends:Array(UInt64)}[partition + 1]))"
)
_FILLED: Final = "NOT has({unfilled:Array(UInt32)}, revision)"
_OF_CELLS: Final = f"{_MINE} AND {_FILLED} AND {WITHIN}"
_COPIES: Final = (
    "has({revisions:Array(UInt32)}, revision) AND subject = {pseudonym:String}"
    f" AND {_FILLED} AND {WITHIN}"
)
_EVENTS: Final = f"namespace = {{namespace:String}} AND subject = {{name:String}} AND {BELOW}"
# What could not be read has no subject; it may name it all the same.
_REJECTS: Final = (
    f"((namespace = {{namespace:String}} AND subject = {{name:String}}) OR (kind = 'invalid'"
    " AND namespace IN ({namespace:String}, '') AND subject = ''"
    f" AND position(text, {{name:String}}) > 0)) AND {BELOW}"
)
_REJECTED: Final = f"{_MINE} AND {BELOW}"


def copy_statement(table: str) -> str:
    """Write the rows under the pseudonym; whoever does it again writes the same rows."""
    values = _VALUES[table]
    return f"""INSERT INTO {table}
    (revision, subject, groups, window, log, partition, slice, {values})
SELECT revision, {{pseudonym:String}}, {_GROUPS}, window, log, partition, slice, {values}
FROM {table} FINAL WHERE {_OF_CELLS}"""  # noqa: S608 - names come from this module


def compared_statement(table: str) -> str:
    """Rows and hash sums: under the name, then under the pseudonym."""
    values = _VALUES[table]
    one = f"xxHash64(revision, window, log, partition, slice, {values})"
    return f"""SELECT countIf(mine), sumIf(one, mine), countIf(NOT mine), sumIf(one, NOT mine)
FROM (SELECT {one} AS one, 1 AS mine FROM {table} FINAL WHERE {_OF_CELLS}
UNION ALL SELECT {one} AS one, 0 AS mine FROM {table} FINAL WHERE {_COPIES})"""  # noqa: S608 - as above


_EVENT_LEFT: Final = (
    f"text = {_TEXT}, id = {_ID}, source = {_SOURCE}, subject = {{pseudonym:String}}"
)
_REJECT_LEFT: Final = (
    f"text = if(kind = 'invalid', '', {_TEXT}), id = {_ID}, source = {_SOURCE},"
    " subject = {pseudonym:String}, reason = ''"
)
_REJECTED_LEFT: Final = f"value = '', groups = {_GROUPS}, subject = {{pseudonym:String}}"
# By table, how to find rows that still have the name, and how to rid them of it.
REDACTIONS: Final = {
    "events": (_EVENTS, f"UPDATE {_EVENT_LEFT}"),
    "rejects": (_REJECTS, f"UPDATE {_REJECT_LEFT}"),
    "rejected": (_REJECTED, f"UPDATE {_REJECTED_LEFT}"),
}
DELETIONS: Final = dict.fromkeys(CELLS, (f"{_MINE} AND {BELOW}", "DELETE"))


def found_statement(table: str, where: str) -> str:
    """How many rows have the name."""
    return f"SELECT count() FROM {table} WHERE {where}"  # noqa: S608 - names come from this module


def mutation(table: str, where: str, change: str) -> str:
    """Rewrite the rows that have the name; returns once it is done."""
    return f"ALTER TABLE {table} {change} WHERE {where} SETTINGS mutations_sync = 2"


def blocks_statement(tables: tuple[str, ...]) -> str:
    """The blocks that have rows under the name, of whatever slices."""
    parts = [
        f"SELECT DISTINCT block FROM {table} WHERE has({{revisions:Array(UInt32)}}, revision)"  # noqa: S608
        " AND subject = {name:String}"
        for table in tables
    ]
    return "\nUNION DISTINCT\n".join(parts)


REFUSALS: Final = """SELECT log, partition, offset, place FROM rejects
WHERE (log, partition, offset, place) IN {places:Array(Tuple(UInt16, UInt16, UInt64, UInt16))}
    AND namespace = {namespace:String} AND subject = {name:String}"""
SENT: Final = """SELECT DISTINCT source, id FROM events
WHERE (source, id) IN {identities:Array(Tuple(String, String))}
    AND namespace = {namespace:String} AND subject = {name:String}"""
