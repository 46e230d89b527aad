"""What a migration may do while the build before it still runs: add, and nothing else. Pure but for
`shape_of`, which asks a database.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import sqlalchemy
from sqlalchemy import inspect
from sqlalchemy.engine.reflection import Inspector

HISTORY: Final = "alembic_version"


@dataclass(frozen=True, slots=True)
class Column:
    """`given`: a row without it gets something, for it may be NULL or has a default."""

    type: str
    nullable: bool
    given: bool


@dataclass(frozen=True, slots=True)
class Table:
    """`rules` are what a row must keep, in words: keys, checks, references, unique indexes."""

    columns: Mapping[str, Column]
    rules: Collection[str] = frozenset()
    indexes: Collection[str] = frozenset()


Shape = Mapping[str, Table]


def narrowed(before: Shape, after: Shape) -> list[str]:
    """What a statement of the build before may meet otherwise than it was: a line for each."""
    found = []
    for name, old in before.items():
        new = after.get(name)
        if new is None:
            found.append(f"the table {name} is gone")
        else:
            found += [f"{name}: {line}" for line in _of_table(old, new)]
    return found


def _of_table(old: Table, new: Table) -> Iterator[str]:
    for name, column in old.columns.items():
        there = new.columns.get(name)
        if there is None:
            yield f"the column {name} is gone"
        elif there.type != column.type:
            yield f"the column {name} is {there.type}, it was {column.type}"
        elif column.nullable and not there.nullable:
            yield f"the column {name} may not be NULL any more"
        elif column.given and not there.given:
            yield f"the column {name} has no default any more"
    for name, column in new.columns.items():
        if name not in old.columns and not column.given:
            yield f"the column {name} is new, and a row without it is refused: give it a default"
    yield from (f"a new rule for its rows: {rule}" for rule in sorted({*new.rules} - {*old.rules}))
    yield from (f"a rule is gone: {rule}" for rule in sorted({*old.rules} - {*new.rules}))
    yield from (f"the index {name} is gone" for name in sorted({*old.indexes} - {*new.indexes}))


def shape_of(connection: sqlalchemy.Connection) -> Shape:
    """Of a control store."""
    inspector = inspect(connection)
    names = (name for name in inspector.get_table_names() if name != HISTORY)
    return {name: _table(inspector, name) for name in names}


def _table(inspector: Inspector, name: str) -> Table:
    key = inspector.get_pk_constraint(name)["constrained_columns"]
    columns = {
        str(it["name"]): Column(
            str(it["type"]), it["nullable"], it["nullable"] or it["default"] is not None
        )
        for it in inspector.get_columns(name)
    }
    rules = {f"primary key {key}"}
    rules |= {f"unique {it['column_names']}" for it in inspector.get_unique_constraints(name)}
    rules |= {f"check {it['sqltext']}" for it in inspector.get_check_constraints(name)}
    rules |= {
        f"{it['constrained_columns']} are of {it['referred_table']}"
        for it in inspector.get_foreign_keys(name)
    }
    plain = set()
    for index in inspector.get_indexes(name):
        if index["unique"]:
            rules.add(f"unique index {index['name']}")
        else:
            plain.add(str(index["name"]))
    return Table(columns, frozenset(rules), frozenset(plain))


def may_contract(after: str, version: str, released: Collection[str]) -> str | None:
    """Why a migration that takes away may not be in a build of this version; None: it may.

    It names the first release whose processes do not need what it takes away. The release before
    this build must be that one, or a later one.
    """
    if after not in released:
        return f"{after} is no release"
    if _parts(version) <= _parts(after):
        return f"a build of {version} may run beside a release before {after}"
    return None


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
