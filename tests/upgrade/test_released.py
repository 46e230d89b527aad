"""What was released stays as it is: migrations, and what the tables of the usage store have."""

import pytest

from tests.upgrade.released import Schemas, differences, parts_of, released, schemas

TABLE = """-- A table.
CREATE TABLE IF NOT EXISTS events (
    id String CODEC(Delta, ZSTD(1)), at Int64,
    INDEX by_id id TYPE bloom_filter(0.01) GRANULARITY 1
) ENGINE = ReplacingMergeTree(at)
PARTITION BY toMonday(toDateTime(at, 'UTC'))
ORDER BY (id, at)
SETTINGS fsync_after_insert = 1, old_parts_lifetime = 480"""
ALTERED = "-- Of old.\nALTER TABLE events\n    ADD COLUMN IF NOT EXISTS a Int64 DEFAULT f(1, 2)"
WAS = Schemas({"m0001_first.py": "aa"}, {"events": parts_of(TABLE), "more": parts_of(ALTERED)})


def changed(old: str, new: str) -> Schemas:
    tables = {"events": parts_of(TABLE.replace(old, new)), "more": parts_of(ALTERED)}
    return Schemas(WAS.migrations, tables)


def test_a_table_is_what_it_makes() -> None:
    assert parts_of(TABLE) == [
        "CREATE TABLE IF NOT EXISTS events",
        "id String CODEC(Delta, ZSTD(1))",
        "at Int64",
        "INDEX by_id id TYPE bloom_filter(0.01) GRANULARITY 1",
        "ENGINE = ReplacingMergeTree(at)",
        "PARTITION BY toMonday(toDateTime(at, 'UTC'))",
        "ORDER BY (id, at)",
        "SETTINGS fsync_after_insert = 1",
        "SETTINGS old_parts_lifetime = 480",
    ]
    more = "ADD COLUMN IF NOT EXISTS a Int64 DEFAULT f(1, 2)"
    assert parts_of(ALTERED) == ["ALTER TABLE events", more]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("at Int64,", "at Int64, later String DEFAULT '',"),
        ("    INDEX", "    INDEX by_at at TYPE minmax GRANULARITY 1,\n    INDEX"),
        ("= 480", "= 480, index_granularity = 1024"),
        ("-- A table.", "-- A table of events.\n--"),
        ("\nORDER", " ORDER"),
    ],
)
def test_what_is_added_or_said_otherwise_is_no_difference(old: str, new: str) -> None:
    assert list(differences("1.0.0", WAS, changed(old, new))) == []


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("at Int64,", "at Int32,", "at Int64"),
        ("id String CODEC(Delta, ZSTD(1)), ", "", "id String CODEC(Delta, ZSTD(1))"),
        ("(id, at)\n", "(at, id)\n", "ORDER BY (id, at)"),
        ("ReplacingMergeTree(at)", "MergeTree", "ENGINE = ReplacingMergeTree(at)"),
        ("fsync_after_insert = 1", "fsync_after_insert = 0", "SETTINGS fsync_after_insert = 1"),
        ("EXISTS events", "EXISTS happenings", "CREATE TABLE IF NOT EXISTS events"),
    ],
)
def test_what_is_taken_away_is_named(old: str, new: str, part: str) -> None:
    (found,) = differences("1.0.0", WAS, changed(old, new))
    assert found.startswith(f"events: `{part}` was released with 1.0.0")
    assert "ALTER TABLE" in found


@pytest.mark.parametrize("now", [{"m0001_first.py": "ab"}, {}, {"m0001_other.py": "aa"}])
def test_a_migration_that_changed_is_named(now: dict[str, str]) -> None:
    (found,) = differences("1.0.0", WAS, Schemas(now, WAS.tables))
    assert found.startswith("m0001_first.py: it was released with 1.0.0")
    assert "add the next migration" in found


def test_more_migrations_are_no_difference() -> None:
    more = Schemas({**WAS.migrations, "m0002_more.py": "bb"}, {**WAS.tables, "new": ["a"]})
    assert list(differences("1.0.0", WAS, more)) == []


def test_whatever_was_released_is_as_it_was() -> None:
    now, found = schemas(), released()
    assert found, "of 0.1.0 on"
    lines = [line for name, was in found.items() for line in differences(name, was, now)]
    assert lines == [], "\n".join(lines)
    for was in found.values():
        assert len(was.migrations) > 10, "all files"
        assert len(was.tables) > 20, "all statements"
