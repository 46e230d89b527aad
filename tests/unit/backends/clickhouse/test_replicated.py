"""Which replica is asked, and how the tables of replicas are defined."""

import re

from hypothesis import given
from hypothesis import strategies as st

from meterline.backends.clickhouse.named_sql import TABLES
from meterline.backends.clickhouse.schema import TABLES_MADE
from meterline.backends.clickhouse.several.replicated import Turn
from meterline.backends.clickhouse.several.replicated_tables import (
    copied,
    replicated,
    settings_of,
    statements_to_make,
    unreplicated,
)
from meterline.limits import REPLICA_REST_S, REPLICA_WRITE_S_MAX, USAGE_READ_S_MAX

SOME = st.lists(st.sets(st.sampled_from(sorted(TABLES_MADE))), min_size=2, max_size=4)


def _as_shown(statement: str, table: str) -> str:
    """As the server shows the definition of a table: with its database, on one line."""
    begin = f"CREATE TABLE IF NOT EXISTS {table}"
    shown = statement[statement.index(begin) :].replace(begin, f"CREATE TABLE m.{table}")
    return " ".join(shown.split())


def _texts(number: int) -> dict[str, str]:
    """The definitions of a replica that has all tables."""
    found = {}
    for text in TABLES.values():
        if made := re.search(r"CREATE TABLE IF NOT EXISTS (\w+)", text):
            found[made[1]] = _as_shown(replicated(text, "m", number), made[1])
    return found


@given(SOME)
def test_each_replica_gets_what_it_lacks_under_its_own_number(have: list[set[str]]) -> None:
    shown = [
        {table: text for table, text in _texts(number).items() if table in tables}
        for number, tables in enumerate(have, 1)
    ]
    due = statements_to_make("m", shown)
    for number, (tables, statements) in enumerate(zip(have, due, strict=True), 1):
        made = {}
        for statement in statements:
            found = re.search(
                r"CREATE TABLE IF NOT EXISTS (\w+) .*ENGINE = Replicated\w+"
                rf"\('/meterline/m/(\w+)', '{number}'(, version)?\)",
                statement,
                re.DOTALL,
            )
            assert found is not None, statement
            made[found[1]] = found[2]
        assert made.keys() == TABLES_MADE - tables
        assert all(table == path for table, path in made.items())


def test_a_table_is_made_as_another_replica_has_it() -> None:
    text = "CREATE TABLE m.seen (a Int32, more UInt8) ENGINE = ReplicatedReplacingMergeTree("
    text += "'/meterline/m/seen', '2', version) ORDER BY a SETTINGS index_granularity = 8192"
    assert copied(text, "seen", 3) == text.replace("m.seen (", "IF NOT EXISTS seen (").replace(
        "'2'", "'3'"
    )
    first, second = statements_to_make("m", [{}, {"seen": text}])
    assert copied(text, "seen", 1) in first
    assert not any(" seen " in statement for statement in second)


def test_tables_that_are_not_replicated_are_found() -> None:
    plain = "CREATE TABLE m.seen (a Int32) ENGINE = ReplacingMergeTree ORDER BY a"
    assert unreplicated({"seen": plain, "of_others": plain, "hours": _texts(1)["hours"]}) == [
        "seen"
    ]
    assert unreplicated(_texts(2)) == []


def test_sort_keys_stay_and_what_is_fetched_is_synced() -> None:
    for text in TABLES.values():
        made = replicated(text, "m", 1)
        if "CREATE TABLE" not in text:
            assert made == text
            continue
        engine = re.compile(r"ENGINE = \S+.*\n")
        assert engine.sub("", made) == engine.sub("", text) + (
            ", min_compressed_bytes_to_fsync_after_fetch = 1"
        )


def test_a_write_is_on_all_replicas_before_its_client_gives_up() -> None:
    settings = settings_of(3)
    assert settings["insert_quorum"] == 3
    assert settings["insert_quorum_timeout"] == REPLICA_WRITE_S_MAX * 1_000
    assert REPLICA_WRITE_S_MAX < USAGE_READ_S_MAX, "the least that usage_timeout_s may be"
    assert settings["alter_sync"] == settings["mutations_sync"] == 2


@given(st.floats(0, 1e6), st.floats(0, 3 * REPLICA_REST_S))
def test_a_replica_that_rested_is_looked_at(now_s: float, rest_s: float) -> None:
    turn = Turn()
    assert not turn.is_trusted(now_s), "before the first look"
    turn.take(1, now_s)
    later_s = now_s + rest_s
    assert turn.is_trusted(later_s) == (later_s - now_s < REPLICA_REST_S)


def test_who_is_late_to_leave_a_replica_changes_nothing() -> None:
    turn = Turn()
    turn.take(0, 0.0)
    turn.leave(0, 2)
    assert (turn.at, turn.is_trusted(0.0)) == (1, False)
    turn.take(1, 0.0)
    turn.leave(0, 2)
    assert (turn.at, turn.is_trusted(0.0)) == (1, True)
    turn.leave(1, 2)
    assert turn.at == 0
