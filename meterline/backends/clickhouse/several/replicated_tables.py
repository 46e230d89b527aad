"""How the tables of replicas are defined (docs/decisions/0092): the statements of schema.sql, with
the engine's name for a table that Keeper knows.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from meterline.backends.clickhouse.named_sql import TABLES
from meterline.backends.clickhouse.schema import TABLES_MADE
from meterline.limits import REPLICA_WRITE_S_MAX

_HEAD: Final = re.compile(r"^CREATE TABLE IF NOT EXISTS (\w+)", re.MULTILINE)
_ENGINE: Final = re.compile(r"\) ENGINE = (\w*MergeTree)(?:\((\w+)\))?(?=\s)")
_MADE: Final = re.compile(r"^CREATE TABLE \S+")
_NAMED: Final = re.compile(r"(ENGINE = Replicated\w*MergeTree\('[^']*', )'[^']*'")
# What is fetched from another replica is on disk, too, before it counts as written there.
_FETCHED: Final = ", min_compressed_bytes_to_fsync_after_fetch = 1"
REPLICATED: Final = "Replicated"


def settings_of(replicas: int) -> dict[str, Any]:
    """Settings of every statement: what is written, changed or deleted is so on all replicas when
    it is answered, or the statement fails. Many inserts may wait at once: as each has all of them,
    none can be on another choice of replicas.

    The engine must not take an insert for one that it had before: rows that were deleted, as by a
    repair, come again as the same bytes.
    """
    return {
        "insert_quorum": replicas,
        "insert_quorum_parallel": 1,
        "insert_quorum_timeout": REPLICA_WRITE_S_MAX * 1_000,
        "insert_deduplicate": 0,
        "deduplicate_insert": "disable",
        "deduplicate_insert_select": "disable",
        "alter_sync": 2,
        "mutations_sync": 2,
        "replication_wait_for_inactive_replica_timeout": REPLICA_WRITE_S_MAX,
    }


def replicated(statement: str, database: str, number: int) -> str:
    """The same for replica `number`; what makes no table stays as it is. The path in Keeper has
    the names of database and table, and no macros: a server whose macros are wrong cannot join
    others.
    """
    made = _HEAD.search(statement)
    if made is None:
        return statement

    def engine(found: re.Match[str]) -> str:
        version = f", {found[2]}" if found[2] else ""
        path = f"'/meterline/{database}/{made[1]}', '{number}'"
        return f") ENGINE = {REPLICATED}{found[1]}({path}{version})"

    return _ENGINE.sub(engine, statement) + _FETCHED


def copied(text: str, table: str, number: int) -> str:
    """The definition of a table on one replica, for another: columns that were added later are in
    it at their places.
    """
    named = _NAMED.sub(lambda found: f"{found[1]}'{number}'", text, count=1)
    return _MADE.sub(f"CREATE TABLE IF NOT EXISTS {table}", named)


def statements_to_make(database: str, have: Sequence[Mapping[str, str]]) -> list[list[str]]:
    """For each replica, what makes the tables that it lacks. `have` are the definitions that each
    has, by table: a table that one has is made like that on the others.
    """
    texts = {made[1]: text for text in TABLES.values() if (made := _HEAD.search(text))}
    known: dict[str, str] = {}
    for of_one in have:
        known |= {table: text for table, text in of_one.items() if table not in known}

    def made_for(number: int, of_one: Mapping[str, str]) -> Iterable[str]:
        for table, text in texts.items():
            if table not in of_one and table in known:
                yield copied(known[table], table, number)
            elif table not in of_one:
                yield replicated(text, database, number)

    return [list(made_for(number, of_one)) for number, of_one in enumerate(have, 1)]


def unreplicated(have: Mapping[str, str]) -> list[str]:
    """Tables of ours that are there, and are not replicated."""
    return sorted(
        table
        for table, text in have.items()
        if table in TABLES_MADE and f" ENGINE = {REPLICATED}" not in text
    )
