"""What schema.sql wants and a store lacks, the database it is made in, and how chDB keeps the
definition of a table.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from meterline.backends.clickhouse.clients.access import PLAIN, ServerAccess
from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.named_sql import TABLES

_CREATE: Final = re.compile(r"^CREATE TABLE IF NOT EXISTS (\w+)", re.MULTILINE)
TABLES_MADE: Final = frozenset(
    made[1] for text in TABLES.values() if (made := _CREATE.search(text))
)
_ALTER: Final = re.compile(r"^ALTER TABLE (\w+)\n", re.MULTILINE)
_ADD: Final = re.compile(r"ADD (COLUMN|INDEX) IF NOT EXISTS (\w+) .*?(?=,\n|\Z)", re.DOTALL)
_SET: Final = re.compile(r"MODIFY SETTING (\w+) = .*?(?=,\n|\Z)", re.DOTALL)
_BY_WEEK: Final = "PARTITION BY toMonday("
_BY_MONTH: Final = "PARTITION BY toYYYYMM("
_OF_MONTH: Final = re.compile(r"\d{6}_")  # of a week it begins with eight digits
_OF_YEAR: Final = re.compile(r"\d{4}_")  # of usage by minute
_YEARLY: Final = "PARTITION BY toYear("
# Every table of ours ends in its settings, so what was cut off anywhere lacks this line, or its
# end.
_LAST_LINE: Final = re.compile(rb"\nSETTINGS [^\n\0]+\n\Z")
_INDEXED: Final = re.compile(r"ALTER TABLE (\w+) ADD INDEX IF NOT EXISTS along_log ")


def database_of(url: str) -> str:
    """The database that a server's URL names."""
    return urlsplit(url).path.strip("/") or "default"


async def define(server: Connection, statements: Iterable[str]) -> None:
    """Run what `missing` gives. Raises `Unavailable`."""
    for statement in statements:
        await server.execute(statement)
        if added := _INDEXED.match(statement):  # rows get it in the background
            await server.execute(f"ALTER TABLE {added[1]} MATERIALIZE INDEX along_log")


def missing(have: Iterable[Sequence[str]]) -> list[str]:
    """The statements that bring a store to schema.sql: none where nothing is missing. What it has
    are rows of (`table`, `column`, `index` or `setting`; table; name).

    The engine writes a definition anew for an ALTER that finds everything there, and a full disk
    then leaves an empty file: so nothing is altered that need not be.
    """
    there = {(what, table, name) for what, table, name in have}
    statements = []
    for text in TABLES.values():
        if made := _CREATE.search(text):
            if ("table", made[1], "") not in there:
                statements.append(text)
        elif (altered := _ALTER.search(text)) and ("table", altered[1], "") in there:
            needs = [(it[0], (it[1].lower(), altered[1], it[2])) for it in _ADD.finditer(text)]
            needs += [(it[0], ("setting", altered[1], it[1])) for it in _SET.finditer(text)]
            lacking = [change for change, need in needs if need not in there]
            if lacking:
                statements.append(f"ALTER TABLE {altered[1]} {', '.join(lacking)}")
    return statements


def definition(table: str, uuid: str, parts: Iterable[str] = ()) -> bytes | None:
    """The file that chDB keeps for a table of ours; None for a table that is not ours. `parts` are
    the names of its parts: an older build partitioned by month what is partitioned by week now, and
    by year what is partitioned by month.
    """
    text = TABLES.get(table, "")
    names = list(parts)
    if any(_OF_MONTH.match(name) for name in names):
        text = text.replace(_BY_WEEK, _BY_MONTH)
    if any(_OF_YEAR.match(name) for name in names):
        text = text.replace(_BY_MONTH, _YEARLY)
    made = _CREATE.search(text)
    if made is None:
        return None
    head = f"ATTACH TABLE _ UUID '{uuid}'"
    return f"{head}{made.string[made.end() :]}\n".encode()


def is_whole(content: bytes) -> bool:
    """Whether the file of a definition begins and ends as it should."""
    begins = content.startswith(b"ATTACH TABLE _ UUID '") and b"\0" not in content
    return begins and _LAST_LINE.search(content) is not None


async def create_database(url: str, access: ServerAccess = PLAIN) -> None:
    """Make the database that a server's URL names, if it is not there. Raises `Unavailable`."""
    parts = urlsplit(url)
    name = parts.path.strip("/")
    if not name or name == "default":
        return
    server = Connection(urlunsplit(parts._replace(path="")), access=access)
    try:
        await server.execute(f"CREATE DATABASE IF NOT EXISTS `{name.replace('`', '')}`")
    finally:
        await server.close()
