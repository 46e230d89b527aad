"""The schema of the usage store only grows: each table is made as it was, and altered by adding."""

import re

import pytest

from meterline.backends.clickhouse.named_sql import TABLES

ADDED = re.compile(r"ADD (?:COLUMN|INDEX) IF NOT EXISTS .*?(?=,\n|\Z)", re.DOTALL)
SET = re.compile(r"MODIFY SETTING \w+ = .*?(?=,\n|\Z)", re.DOTALL)
MADE = re.compile(r"(?:--[^\n]*\n)*CREATE TABLE IF NOT EXISTS \w+ \(")
ALTERED = re.compile(r"(?:--[^\n]*\n)*ALTER TABLE \w+\n")


def beyond_adding(statement: str) -> str:
    """What is left of a statement without what may be in it; nothing of one that only adds."""
    if MADE.match(statement):
        return ""
    altered = ALTERED.match(statement)
    if altered is None:
        return statement
    rest = SET.sub("", ADDED.sub("", statement[altered.end() :]))
    lacking = [one for one in ADDED.findall(statement) if one[4] == "C" and " DEFAULT " not in one]
    return rest.strip(" ,\n") + "".join(lacking)


@pytest.mark.parametrize("name", TABLES)
def test_a_statement_of_the_schema_only_adds(name: str) -> None:
    assert beyond_adding(TABLES[name]) == ""


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE events\n    DROP COLUMN text",
        "ALTER TABLE events\n    MODIFY COLUMN id UInt64",
        "ALTER TABLE events\n    ADD INDEX IF NOT EXISTS a b TYPE minmax,\n    DROP INDEX by_id",
        "ALTER TABLE events\n    ADD COLUMN IF NOT EXISTS a String",
        "DROP TABLE events",
        "CREATE TABLE events (a String)",
        "RENAME TABLE events TO happenings",
    ],
)
def test_whatever_takes_away_is_found(statement: str) -> None:
    assert beyond_adding(statement)
