"""What earlier builds have recorded (tests/upgrade) is upgraded by this build. It answers as it
did, knows what it counted and delivered, delivers what is due and goes on. Its audit is clean.
"""

import asyncio
import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from tests.journey.processes import run_command
from tests.journey.receiver import Receiver
from tests.journey.setups import Servers
from tests.services.command import run_to_end
from tests.services.service import ServiceError
from tests.upgrade import servers as places
from tests.upgrade.life import SETTINGS
from tests.upgrade.recording import DATA, names, unpack
from tests.upgrade.upgraded import ROOT, Upgraded, upgraded

NAMES = names()
# What an upgrade could lose of a control store, and the answer that tells.
LOSSES = {
    "UPDATE subjects SET display_name = NULL": "/subjects?",
    "DELETE FROM changes": "/changes?",
    "UPDATE report_runs SET total = '0'": "/reports/daily/runs?",
    "UPDATE api_keys SET scopes = '[]'": "/api-keys?",
    "UPDATE reports SET filter = '{}' WHERE slug = 'large'": "/reports?",
    "UPDATE report_bodies SET body = CAST(replace(body, 'eu', 'us') AS BLOB)": "/body",
}
SPOIL = """
import asyncio, sys
from meterline.backends.clickhouse.connection import Connection
async def spoil():
    store = Connection(f"chdb:{sys.argv[1]}")
    await store.execute("INSERT INTO tallies SELECT * REPLACE (total + 1 AS total, version + 1 AS"
        f" version) FROM tallies FINAL WHERE subject = 'customer-1' AND (partition, slice) IN"
        f" ({sys.argv[2]})")
    await store.close()
asyncio.run(spoil())
"""
SPOIL_WITHIN_S = 60.0


def test_there_are_recordings() -> None:
    assert len(NAMES) >= 2, "of a release, and of a build before it"


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_is_upgraded(name: str, tmp_path: Path, receiver: Receiver) -> None:
    folder = tmp_path / "embedded"
    story = unpack(name, "embedded", folder)
    with upgraded(story, folder, receiver, {}) as up:
        go_on(up)


@pytest.mark.parametrize("name", NAMES)
def test_a_cluster_is_upgraded(
    name: str, tmp_path: Path, receiver: Receiver, servers: Servers
) -> None:
    folder = tmp_path / "servers"
    story = unpack(name, "servers", folder)
    place, recorded = places.fresh(servers), recorded_tables(folder)
    places.put_in(place, folder)
    assert table_differences(recorded, places.tables(place)) == [], "it is as it was recorded"
    settings = {**place.settings, "METERLINE_SECRET_KEY": story.secret_key}
    run_command(["migrate"], tmp_path, {**SETTINGS, **settings})
    assert table_differences(recorded, places.tables(place)) == []
    with upgraded(story, folder, receiver, settings) as up:
        go_on(up)
    assert table_differences(recorded, new_tables(servers)) == [], "nor of a new installation"


def go_on(up: Upgraded) -> None:
    """The way of every upgrade."""
    assert up.answers_as_before() == []
    up.deliver_what_is_due()
    up.ask_for_a_run_again()
    up.send_again_and_more()
    assert up.audit() == "", "no difference"
    assert len(set(up.taken)) == len(up.taken), "nothing came twice"
    assert not {*up.taken} & {*up.story.delivered}, "nothing that had been taken comes again"
    assert [box.refused for box in up.boxes.values()] == [[], []]


def test_whatever_an_upgrade_loses_is_noticed(tmp_path: Path, receiver: Receiver) -> None:
    folder = tmp_path / "embedded"
    story = unpack(NAMES[-1], "embedded", folder)
    with sqlite3.connect(folder / DATA / "control.db") as control:
        for loss in LOSSES:
            assert control.execute(loss).rowcount, loss
        # Rows of slices that are open are counted back: the process would end, and tell nothing.
        sealed = control.execute("SELECT partition, slice FROM seals").fetchall()
    control.close()
    of_sealed = ", ".join(map(str, sealed))
    spoil = [sys.executable, "-c", SPOIL, str(folder / DATA / "usage"), of_sealed]
    run_to_end("spoil tallies", spoil, ROOT, SPOIL_WITHIN_S)
    with upgraded(story, folder, receiver, {}) as up:
        found = up.answers_as_before()
        for loss, answer in LOSSES.items():
            assert any(answer in line for line in found), f"{loss}: {found}"
        with pytest.raises(ServiceError, match=r"tall"):
            up.audit()


def recorded_tables(folder: Path) -> Any:
    return json.loads((folder / DATA / places.CLICKHOUSE).read_text())


def new_tables(servers: Servers) -> Any:
    """Those that this build makes in an empty database."""
    place = places.fresh(servers)
    place.clickhouse(f"CREATE DATABASE {place.name}", database="default")

    async def make() -> None:
        store = ClickHouseUsageStore(Connection(place.settings["METERLINE_USAGE_URL"]))
        await store.create_tables()
        await store.close()

    asyncio.run(make())
    return places.tables(place)


def table_differences(recorded: Any, now: Any) -> list[str]:
    """What a statement of the recorded build would meet otherwise in the usage store: tables and
    columns that are gone or of another type, rows that have another identity.
    """
    found = [f"{name} is gone" for name in recorded.keys() - now.keys()]
    for name in recorded.keys() & now.keys():
        old, new = recorded[name], now[name]
        if old["lies"][:2] != new["lies"][:2]:
            found.append(f"{name} lies as {new['lies']}, it did as {old['lies']}")
        found += [
            f"{name}.{column} is {new['columns'].get(column)}, it was {type_}"
            for column, type_ in old["columns"].items()
            if new["columns"].get(column) != type_
        ]
    return found


def test_a_table_that_changed_is_found() -> None:
    old: Any = {"events": {"lies": ["M", "id", "a"], "columns": {"id": "String", "at": "Int64"}}}
    more = {"events": {"lies": ["M", "id", "b"], "columns": {**old["events"]["columns"], "x": "Y"}}}
    assert table_differences(old, {**more, "new": {}}) == []
    assert table_differences(old, {}) == ["events is gone"]
    less = {"events": {"lies": ["M", "id, at", "a"], "columns": {"id": "UUID", "at": "Int64"}}}
    assert len(table_differences(old, less)) == 2
