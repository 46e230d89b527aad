"""How the tables of the control store are written: each column with its meaning."""

from typing import Any, Final

from sqlalchemy import Column, ForeignKey, Index, MetaData, Table, text
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

_Kind = type[TypeEngine[Any]]
metadata: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def table(name: str, *items: SchemaItem) -> Table:
    """A table of the control store, with its columns and indexes."""
    return Table(name, metadata, *items)


def key(name: str, kind: _Kind, meaning: str, *, of: str | None = None) -> Column[Any]:
    """A part of the primary key. `of` is the column of another table that it refers to."""
    return Column(name, kind, *_refers(of), primary_key=True, autoincrement=False, doc=meaning)


def required(
    name: str, kind: _Kind, meaning: str, *, of: str | None = None, default: str | None = None
) -> Column[Any]:
    """A column without NULL. `default` is the SQL that rows without a value get."""
    given = None if default is None else text(default)
    return Column(name, kind, *_refers(of), nullable=False, server_default=given, doc=meaning)


def optional(name: str, kind: _Kind, meaning: str) -> Column[Any]:
    """A column that may be NULL; its meaning says when, unless NULL is "none"."""
    return Column(name, kind, doc=meaning)


def partial_index(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    """An index of the rows that a condition holds for, written alike for both databases."""
    condition = text(where)
    return Index(name, *columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


def _refers(of: str | None) -> list[ForeignKey]:
    return [] if of is None else [ForeignKey(of)]
