"""The statements that make, merge and count the rows of blocks.

A weight is a sum over rows (mod 2**64) that can be told from tallies without adding them up to
cells: for each row the hash of its cell, times a mix of its numbers. So it finds rows that are
lost, doubled or in a wrong cell, and costs one reading. Of distinct values it is the sum of their
hashes.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from meterline.backends.clickhouse.blocks.erasure_sql import RENAMED, parameters_of
from meterline.backends.clickhouse.blocks.hidden import hidden_of_all
from meterline.usage import Block, Erasure, Hidden, Stretches, late_before


class Left(NamedTuple):
    """What blocks are made without: rows that an erasure hides, and those of revisions that are not
    kept (`Unsealed`).
    """

    hidden: Sequence[Hidden] = ()
    revisions: tuple[int, ...] = ()

    @property
    def kept(self) -> str:
        """The condition that a row is of a revision that is kept; its parameters are `given`."""
        return "revision NOT IN {unsealed:Array(UInt32)}" if self.revisions else "1"

    @property
    def given(self) -> dict[str, Any]:
        """Bound once: a statement says it twenty times, and its text has a bound."""
        return {"unsealed": list(self.revisions)} if self.revisions else {}


NOTHING: Final = Left()


class Table(NamedTuple):
    """A table of blocks, and its order behind the revision."""

    name: str
    cell: str  # `hour` or `day`
    minutes: int  # of a cell
    order: tuple[str, ...]
    members: bool = False
    subject: bool = True  # whether there is a row for each subject


def _tables() -> tuple[Table, ...]:
    found = []
    for members in (False, True):
        for cell, minutes in (("hour", 60), ("day", 1_440)):
            name = f"member_{cell}s" if members else f"{cell}s"
            last = ("groups", "member") if members else ("groups",)
            found.append(Table(name, cell, minutes, (cell, "subject", *last), members))
            by_subject = ("subject", cell, *last)
            found.append(Table(f"{name}_by_subject", cell, minutes, by_subject, members))
    return tuple(found)


_OF_ALL: Final = "_of_all"  # behind the name of a table: all subjects together
HOURS, _, DAYS, _, MEMBER_HOURS, _, MEMBER_DAYS, _ = _tables()
ALL_HOURS: Final = Table(f"hours{_OF_ALL}", "hour", 60, ("hour", "groups"), subject=False)
ALL_DAYS: Final = Table(f"days{_OF_ALL}", "day", 1_440, ("day", "groups"), subject=False)
TABLES: Final = (*_tables(), ALL_HOURS, ALL_DAYS)
BY_NAME: Final = {table.name: table for table in TABLES}

_LATEST: Final = "tuple(latest_time_ms, latest_recorded_ms, latest_key, latest)"
# What a row of tallies adds up to. `latest` is split again on the way out.
_ADDED: Final = f"""sum(total) AS total_, sum(counted) AS counted_, sum(rejected) AS rejected_,
    minIf(minimum, counted > 0) AS minimum_, maxIf(maximum, counted > 0) AS maximum_,
    maxIf({_LATEST}, counted > 0) AS latest_"""
_ADDED_NAMES: Final = (
    "total_, counted_, rejected_, minimum_, maximum_, latest_.1, latest_.2, latest_.3, latest_.4"
)
NUMBERS: Final = (
    "total, counted, rejected, minimum, maximum, latest_time_ms, latest_recorded_ms, latest_key,"
    " latest"
)
_ADDED_NAMED: Final = ", ".join(
    f"{made} AS {name}"
    for made, name in zip(_ADDED_NAMES.split(", "), NUMBERS.split(", "), strict=True)
)
# Odd factors: no change of one number is hidden by the others for all rows.
_MIX: Final = (
    "(counted * 11400714819323198485 + rejected * 14029467366897019727"
    " + toUInt64(total) * 1609587929392839161)"
)
_GROUPS: Final = "JSONExtract(groups, 'Array(LowCardinality(String))')"


def base_of(table: Table) -> Table:
    """The table with the same rows, window first."""
    return BY_NAME[table.name.removesuffix("_by_subject")]


def made_statement(block: Block, table: Table, left: Left = NOTHING) -> tuple[str, dict[str, Any]]:
    """Insert the hours of a block from the tallies, or distinct values from the members, of its
    slices.
    """
    rows, parameters = _rows_of_slices(block, table, left)
    parameters["number"] = block.number
    return _inserted(table, f"SELECT {{number:UInt64}}, * FROM ({rows})"), parameters  # noqa: S608 - names come from this module


def _rows_of_slices(block: Block, table: Table, left: Left) -> tuple[str, dict[str, Any]]:
    """The rows that a table must have of a block: tallies of its slices added up, or members."""
    source, parameters = _source(block, table.members, left)
    parameters |= {"after": block.after, "upto": block.upto}
    subject = "subject, " if table.subject else ""
    groups = _GROUPS.replace("groups", "texts")
    cell = f"toUInt32(intDiv(window, {table.minutes}))"
    added, named = ("member", "member") if table.members else (_ADDED, _ADDED_NAMED)
    keys = f"revision, cell, {subject}texts" + (", member" if table.members else "")
    sql = f"""SELECT revision, cell AS {table.cell}, {subject}{groups} AS groups, {named}
FROM (SELECT revision, {cell} AS cell, {subject}groups AS texts, {added} FROM ({source})
WHERE revision > {{after:UInt32}} AND revision <= {{upto:UInt32}} GROUP BY {keys})"""  # noqa: S608 - names come from this module
    return sql, parameters


def derived_statement(number: int, table: Table) -> tuple[str, dict[str, Any]]:
    """Insert a table of a block from another one of it: days from hours, subject first from window
    first.
    """
    base = base_of(table)
    if not table.subject:
        source = table.name.removesuffix(_OF_ALL)
        return _added_up(table, source, table.cell, "block = {number:UInt64}"), {"number": number}
    if base is not table:
        rows = f"SELECT * FROM {base.name} WHERE block = {{number:UInt64}}"  # noqa: S608
        return _inserted(table, rows), {"number": number}
    hours = MEMBER_HOURS if table.members else HOURS
    day = "toUInt32(intDiv(hour, 24)) AS day"
    return _added_up(table, hours.name, day, "block = {number:UInt64}"), {"number": number}


def merged_statement(
    number: int, sources: Sequence[int], table: Table, left: Left = NOTHING
) -> tuple[str, dict[str, Any]]:
    """Insert a table of a block from the same table of smaller ones."""
    where = f"block IN {{sources:Array(UInt64)}} AND {left.kept}"
    given = {**left.given, "number": number, "sources": list(sources)}
    return _added_up(table, table.name, table.cell, where), given


def renewed_statement(
    number: int, sources: Sequence[int], table: Table, erasure: Erasure
) -> tuple[str, dict[str, Any]]:
    """The same under the pseudonym of an erased subject. What is derived, is from the new rows."""
    if table not in (HOURS, MEMBER_HOURS):
        return derived_statement(number, table)
    sql = _added_up(table, _named(table, erasure), table.cell, "1")
    return sql, {"number": number, "sources": list(sources), **parameters_of(erasure)}


def _named(table: Table, erasure: Erasure | None) -> str:
    """The rows of a table; with an erasure, under its pseudonym."""
    if erasure is None:
        return table.name
    return (
        f"(SELECT * REPLACE ({RENAMED}) FROM {table.name} WHERE block IN {{sources:Array(UInt64)}})"  # noqa: S608 - names come from this module
    )


def _added_up(table: Table, source: str, cell: str, where: str) -> str:
    keys = ", ".join(("revision", *table.order))
    subject = "subject, " if table.subject else ""
    named = f"revision, {cell}, {subject}groups"
    added, names = ("member", "member") if table.members else (_ADDED, _ADDED_NAMES)
    rows = f"""SELECT {{number:UInt64}}, revision, {table.cell}, {subject}groups, {names}
FROM (SELECT {named}, {added} FROM {source} WHERE {where} GROUP BY {keys})"""  # noqa: S608 - names come from this module
    return _inserted(table, rows)


def _inserted(table: Table, rows: str) -> str:
    """Insert rows of a block, where the table has none of it yet. So a statement that is executed
    again, at whatever time, writes nothing (docs/decisions/0094).
    """
    there = f"SELECT count() FROM {table.name} WHERE block = {{number:UInt64}}"  # noqa: S608 - names come from this module
    return f"INSERT INTO {table.name} SELECT * FROM ({rows}) WHERE ({there}) = 0"  # noqa: S608 - as above


def due_statement(
    block: Block, *, members: bool, left: Left = NOTHING
) -> tuple[str, dict[str, Any]]:
    """One row: how many rows of slices there are, of all revisions where the block has the oldest;
    and the weights by hour and by day of those that belong to the block.
    """
    source, parameters = _source(block, members, left)
    parameters |= {"after": block.after, "upto": block.upto}
    if members:
        weights = [_members_due(minutes) for minutes in (60, 1_440)]
        columns = (
            f"{_GROUPS} AS g, revision > {{after:UInt32}} AND revision <= {{upto:UInt32}} AS mine"
        )
        sql = f"SELECT count(), {', '.join(weights)} FROM (SELECT *, {columns} FROM ({source}))"  # noqa: S608
        return sql, parameters
    weights = [
        f"sumIf({_hash_of(f'toUInt32(intDiv(window, {minutes}))', 'g')} * {_MIX}, mine)"
        for minutes in (60, 1_440)
    ]
    columns = f"{_GROUPS} AS g, revision > {{after:UInt32}} AND revision <= {{upto:UInt32}} AS mine"
    sql = f"SELECT count(), {', '.join(weights)} FROM (SELECT *, {columns} FROM ({source}))"  # noqa: S608
    return sql, parameters


def _members_due(minutes: int) -> str:
    """Each distinct value once, as the hashes of a set are added up."""
    cell = f"toUInt32(intDiv(window, {minutes}))"
    return f"arraySum(groupUniqArrayIf({_hash_of(cell, 'g', 'member')}, mine))"


def due_of_slices(block: Block) -> tuple[str, dict[str, Any]]:
    """How many new events the accounts of a block's slices tell of."""
    within, parameters = within_stretches(block.log, block.stretches)
    return f"SELECT sum(new) FROM accounts FINAL WHERE {within}", parameters  # noqa: S608


def due_of_sources(
    sources: Sequence[int], erasure: Erasure | None = None, left: Left = NOTHING
) -> tuple[str, dict[str, Any]]:
    """By table, how many rows these blocks have, of all revisions, and what a block merged from
    them must weigh: with an erasure, under its pseudonym.
    """
    parts = [
        f"SELECT '{table.name}', count(), "  # noqa: S608
        f"sumIf({_hash_of(table.cell, 'groups')} * {_MIX}, {left.kept})"
        f" FROM {_named(table, erasure)} WHERE block IN {{sources:Array(UInt64)}}"
        for table in (HOURS, DAYS)
    ]
    for table in (MEMBER_HOURS, MEMBER_DAYS):
        one = _hash_of(table.cell, "groups", "member")
        parts.append(
            f"SELECT '{table.name}', sum(rows), sumIf(one, mine) FROM ("  # noqa: S608
            f"SELECT {one} AS one, {left.kept} AS mine, count() AS rows"
            f" FROM {_named(table, erasure)}"
            " WHERE block IN {sources:Array(UInt64)} GROUP BY one, mine)"
        )
    given = {} if erasure is None else parameters_of(erasure)
    return "\nUNION ALL\n".join(parts), {"sources": list(sources), **left.given, **given}


def due_of_all(number: int, left: Left = NOTHING) -> tuple[str, dict[str, Any]]:
    """By table, what rows of all subjects together must weigh by the rows of the same block."""
    parts = [
        f"SELECT '{table.name}', "  # noqa: S608
        f"sumIf({_hash_of(table.cell, 'groups', subject=False)} * {_MIX}, {left.kept})"
        f" FROM {table.name.removesuffix(_OF_ALL)} WHERE block = {{number:UInt64}}"
        for table in (ALL_HOURS, ALL_DAYS)
    ]
    return "\nUNION ALL\n".join(parts), {"number": number, **left.given}


def recount_statement(
    block: Block, table: Table, left: Left = NOTHING
) -> tuple[str, dict[str, Any]]:
    """The hash sum over whole rows that a table must have by the slices of a block alone."""
    rows, parameters = _rows_of_slices(block, table, left)
    return f"SELECT sum({_whole_hash(table)}) FROM ({rows})", parameters  # noqa: S608 - names come from this module


def _whole_hash(table: Table) -> str:
    """The hash of a whole row, but for its block."""
    last = "member" if table.members else NUMBERS
    return _hash_of(table.cell, "groups", last, subject=table.subject)


def held_statement(number: int, left: Left = NOTHING) -> tuple[str, dict[str, Any]]:
    """By table: rows of a block, of all revisions; of those that are kept the hash sum over whole
    rows, and their weight.
    """
    parts = []
    for table in TABLES:
        last = ("groups", "member") if table.members else ("groups",)
        one = _hash_of(table.cell, *last, subject=table.subject)
        weight = one if table.members else f"{one} * {_MIX}"
        parts.append(
            f"SELECT '{table.name}' AS name, count(), "  # noqa: S608
            f"sumIf({_whole_hash(table)}, {left.kept}), sumIf({weight}, {left.kept})"
            f" FROM {table.name} WHERE block = {{number:UInt64}}"
        )
    return "\nUNION ALL\n".join(parts), {"number": number, **left.given}


def _hash_of(cell: str, *columns: str, subject: bool = True) -> str:
    of_whom = "toString(subject), " if subject else ""
    return f"xxHash64(revision, {cell}, {of_whom}{', '.join(columns)})"


def _source(
    block: Block,
    members: bool,  # noqa: FBT001 - it names a table
    left: Left,
) -> tuple[str, dict[str, Any]]:
    """The rows of a block's slices, of all revisions from its first on that are kept: by time where
    they are not late, along the log where they are. Without those that an erasure hides.
    """
    name = "members" if members else "tallies"
    within, parameters = within_stretches(block.log, block.stretches)
    parameters |= {"border": late_before(block.begin_ms), **left.given}
    within = f"{within} AND {left.kept}"
    erased, given = hidden_of_all(left.hidden)
    if erased:
        within, parameters = f"{within} AND NOT ({erased})", {**parameters, **given}
    oldest = f"revision > {block.after}" + (f" AND revision <= {block.upto}" if block.after else "")
    sql = f"""SELECT * FROM {name} FINAL WHERE {oldest} AND window >= {{border:UInt32}} AND {within}
UNION ALL
SELECT * FROM late_{name} FINAL WHERE {oldest} AND window < {{border:UInt32}} AND {within}"""  # noqa: S608 - names come from this module
    return sql, parameters


def within_stretches(log: int, stretches: Stretches) -> tuple[str, dict[str, Any]]:
    """The condition that a row is of a slice in the stretches. Bounds of all partitions together
    come first: by them the index excludes rows.
    """
    partitions = max(stretch.partition for stretch in stretches) + 1
    firsts, ends = [0] * partitions, [0] * partitions
    for stretch in stretches:
        firsts[stretch.partition], ends[stretch.partition] = stretch.first, stretch.end
    grown = [stretch for stretch in stretches if stretch.first < stretch.end]
    parameters = {
        "log": log,
        "low": min((stretch.first for stretch in grown), default=0),
        "high": max((stretch.end for stretch in grown), default=0),
        "firsts": firsts,
        "ends": ends,
    }
    sql = """log = {log:UInt16} AND slice >= {low:UInt64} AND slice < {high:UInt64}
    AND slice >= {firsts:Array(UInt64)}[partition + 1]
    AND slice < {ends:Array(UInt64)}[partition + 1]"""
    return sql, parameters
