"""What schema.sql wants and a store lacks, and how chDB keeps the definition of a table."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from meterline.backends.clickhouse.named_sql import TABLES

_CREATE: Final = re.compile(r"^CREATE TABLE IF NOT EXISTS (\w+)", re.MULTILINE)
_ALTER: Final = re.compile(r"^ALTER TABLE (\w+)\n", re.MULTILINE)
_ADD: Final = re.compile(r"ADD (COLUMN|INDEX) IF NOT EXISTS (\w+) .*?(?=,\n|\Z)", re.DOTALL)
# Every table of ours ends in its settings, so what was cut off anywhere lacks this line, or its
# end.
_LAST_LINE: Final = re.compile(rb"\nSETTINGS [^\n\0]+\n\Z")


@dataclass(frozen=True, slots=True)
class Found:
    """What a store has: names of tables, and (table, name) of columns and of indexes."""

    tables: frozenset[str]
    columns: frozenset[tuple[str, str]]
    indexes: frozenset[tuple[str, str]]


def schema_found(rows: Sequence[Sequence[str]]) -> Found:
    """From rows of (`table`, `column` or `index`; table; name)."""
    return Found(
        frozenset(table for what, table, _ in rows if what == "table"),
        frozenset((table, name) for what, table, name in rows if what == "column"),
        frozenset((table, name) for what, table, name in rows if what == "index"),
    )


def missing(have: Found) -> list[str]:
    """The statements that bring a store to schema.sql: none where nothing is missing.

    The engine writes a definition anew for an ALTER that finds everything there, and a full disk
    then leaves an empty file: so nothing is altered that need not be.
    """
    statements = []
    for text in TABLES.values():
        if made := _CREATE.search(text):
            if made[1] not in have.tables:
                statements.append(text)
        elif (altered := _ALTER.search(text)) and altered[1] in have.tables:
            lacking = [one[0] for one in _ADD.finditer(text) if not _has(have, altered[1], one)]
            if lacking:
                statements.append(f"ALTER TABLE {altered[1]} {', '.join(lacking)}")
    return statements


def _has(have: Found, table: str, add: re.Match[str]) -> bool:
    names = have.columns if add[1] == "COLUMN" else have.indexes
    return (table, add[2]) in names


def definition(table: str, uuid: str) -> bytes | None:
    """The file that chDB keeps for a table of ours; None for a table that is not ours."""
    made = _CREATE.search(TABLES.get(table, ""))
    if made is None:
        return None
    head = f"ATTACH TABLE _ UUID '{uuid}'"
    return f"{head}{made.string[made.end() :]}\n".encode()


def is_whole(content: bytes) -> bool:
    """Whether the file of a definition begins and ends as it should."""
    begins = content.startswith(b"ATTACH TABLE _ UUID '") and b"\0" not in content
    return begins and _LAST_LINE.search(content) is not None
