"""An audit of the embedded set-up: clean, then touched on disk, named, and mended."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from meterline.audit import checksum
from meterline.event import identity_key
from tests.journey.client import Server
from tests.journey.deadline import until
from tests.journey.processes import PROGRAM, completed, run_command
from tests.journey.receiver import Receiver
from tests.journey.setups import SetUp, embedded, telling

EVENTS = 67_000  # more than a slice holds, so that one is sealed
AGAIN = 500
V3 = "/api/v3/metering"
METER = {
    "key": "calls",
    "name": "Calls",
    "aggregation": "sum",
    "event_type": "call",
    "value_property": "$.value",
    "dimensions": {"region": "$.region"},
}
REPORT = {
    "slug": "daily",
    "meter_id_or_key": "calls",
    "type": "webhook",
    "schedule": {"interval": "1d", "start_at": "2026-01-01T00:00:00Z"},
}
WINDOW = {"from": "2026-01-31T00:00:00Z", "to": "2026-02-01T00:00:00Z"}
TOUCH = """
import sys, clickhouse_connect
client = clickhouse_connect.get_client(interface="chdb", path=sys.argv[1])
client.command(
    "ALTER TABLE tallies DELETE WHERE slice = 0 AND subject = 'a3' AND groups LIKE '%north%'"
    " SETTINGS mutations_sync = 2"
)
client.command(
    "INSERT INTO tallies SELECT * REPLACE (total * 2 AS total, version + 1 AS version)"
    " FROM tallies FINAL WHERE slice = 0 AND subject = 'a4' AND groups LIKE '%south%'"
)
client.command(
    "INSERT INTO tallies SELECT * REPLACE ('nobody' AS subject)"
    " FROM (SELECT * FROM tallies FINAL WHERE slice = 0 AND subject = 'a5' LIMIT 1)"
)
client.close()
"""


def _event(number: int) -> bytes:
    region = "north" if number % 2 else "south"
    return json.dumps(
        {
            "specversion": "1.0",
            "id": str(number),
            "source": "audit",
            "type": "call" if number % 10 else "unmatched",
            "subject": f"a{number % 7}",
            "time": f"2026-01-31T09:{number % 3:02d}:00Z",
            "data": {"value": "bad" if number % 100 == 1 else number / 4, "region": region},
        }
    ).encode()


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[SetUp]:
    """A product that has counted, and reported."""
    made = embedded(tmp_path_factory.mktemp("audit"), {"METERLINE_PARTITIONS": "1"})
    source = made.folder / "calls.ndjson"
    source.write_bytes(b"\n".join(map(_event, [*range(EVENTS), *range(AGAIN)])))
    try:
        with telling(made):
            made.start()
            made.control.made(f"{V3}/meters", METER)
            box = receiver.mailbox("audit")
            made.control.made(f"{V3}/reports", {**REPORT, "endpoint": {"url": box.url}})
            secret = made.control.get(f"{V3}/reports/daily/secret").json
            box.secret = secret["signing_secret"]
            run_command(["send", str(source), "--to", made.ingest.url, "--wait"], made.folder, {})
            run = made.control.made(f"{V3}/reports/daily/runs", WINDOW)
            path = f"{V3}/reports/daily/runs/{run['id']}"
            until("the run is decided", 180, lambda: "deliveries" in str(_get(made.control, path)))
        yield made
    finally:
        made.kill()


def _get(server: Server, path: str) -> object:
    run = server.get(path).json
    return run if run.get("decided_at") else ""


def _audit(setup: SetUp, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(PROGRAM), "audit", "--server", setup.control.url, *arguments]
    return completed(command, setup.folder, {}, 240)


def test_the_account_adds_up(setup: SetUp) -> None:
    account = setup.control.get(f"{V3}/accounts").json
    assert account["pending"] == 0
    total = account["total"]
    matched = sum(1 for number in range(EVENTS) if number % 10)
    rejected = sum(1 for number in range(EVENTS) if number % 10 and number % 100 == 1)
    assert (total["received"], total["new"]) == (EVENTS + AGAIN, EVENTS)
    assert (total["duplicate"], total["conflict"], total["invalid"]) == (AGAIN, 0, 0)
    assert (total["matched"], total["unmatched"]) == (matched, EVENTS - matched)
    (meter,) = account["meters"]
    assert (meter["matched"], meter["rejected"]) == (matched, rejected)
    assert meter["counted"] == matched - rejected
    assert {line["type"] for line in account["data"]} == {"call", "unmatched"}


def test_usage_leads_to_its_events_and_back(setup: SetUp) -> None:
    row = next(
        row for row in _usage(setup) if row["dimensions"] == {"subject": "a3", "region": "north"}
    )
    asked = {
        "from": row["from"], "to": row["to"], "subject": "a3", "dimensions[region]": "north",
        "page[size]": "100",
    }  # fmt: skip
    path = f"{V3}/meters/calls/events?"
    page = setup.control.get(path + urlencode(asked)).json
    minute = int(row["from"][14:16])
    numbers = [
        number
        for number in range(EVENTS)
        if number % 7 == 3 and number % 2 and number % 3 == minute
        and number % 10 and number % 100 != 1
    ]  # fmt: skip
    keys = [identity_key("default", "audit", str(number)) for number in numbers]
    total = page["total"]
    assert (total["events"], total["checksum"]) == (row["counted"], checksum(keys))
    assert sum(one["events"] for one in total["slices"]) == row["counted"]
    assert row["counted"] == len(numbers)
    ids = []
    while True:
        ids += [one["id"] for one in page["data"]]
        after = page["meta"]["page"]["next"]
        if after is None:
            break
        page = setup.control.get(path + urlencode({**asked, "page[after]": after})).json
    assert sorted(map(int, ids)) == numbers
    trace = setup.control.get(f"{V3}/event-trace?source=audit&id={ids[0]}").json
    first = trace["events"][0]
    (cell,) = first["verdict"]["meters"]
    assert (cell["from"], cell["dimensions"]) == (row["from"], {"region": "north"})
    (reported,) = trace["deliveries"]
    assert reported["certain"]
    body = setup.control.get(f"{V3}/deliveries/{reported['delivery']['id']}/body").json
    assert [entry["valueText"] for entry in body["usage"]] == [reported["value"]]
    copies = setup.control.get(f"{V3}/event-trace?source=audit&id=4").json["events"]
    assert [one["verdict"]["kind"] for one in copies] == ["new", "duplicate"]
    assert setup.control.ask("GET", f"{V3}/event-trace?source=audit&id=none").status == 404


def test_touches_are_named_and_mended(setup: SetUp) -> None:
    clean = _audit(setup, "--payloads")
    assert (clean.returncode, clean.stdout) == (0, ""), clean.stdout + clean.stderr
    assert f"{EVENTS:,} events" in clean.stderr
    usage = _usage(setup)
    _touch(setup)
    assert _usage(setup) != usage
    found = _audit(setup)
    assert found.returncode == 1, found.stderr
    lines = found.stdout.splitlines()
    for words in ("subject 'a3', region 'north'", "subject 'a4', region 'south'", "'nobody'"):
        named = [line for line in lines if line.startswith("tallies 1.0.0: meter calls")]
        assert any(words in line for line in named), found.stdout
    body = [line for line in lines if line.startswith("deliveries dlv_")]
    assert len(body) == 1
    sums = [line for line in lines if line.startswith("blocks 1.")]
    assert sums, "of slices as they were before"
    lines = [line for line in lines if line not in sums]
    assert len(lines) == 3 + 3 + 1 + 1, "three windows of each, a row of nobody, a body"
    mended = _audit(setup, "--repair")
    assert mended.returncode == 1
    assert [line for line in mended.stdout.splitlines() if "(mended)" not in line] == body
    after = _audit(setup)
    assert after.stdout.splitlines() == body, "bytes that were sent cannot be made again"
    assert _usage(setup) == usage


def _usage(setup: SetUp) -> list[Any]:
    asked = {"group_by_dimensions": ["subject", "region"], "granularity": "PT1M"}
    rows: list[Any] = setup.control.ask("POST", f"{V3}/meters/calls/query", asked).json["data"]
    return rows


def _touch(setup: SetUp) -> None:
    """Change what is on disk while the product is down."""
    data = Path(setup.processes["up"].environment["METERLINE_DATA_DIR"])
    setup.processes["up"].kill()
    subprocess.run([sys.executable, "-c", TOUCH, str(data / "usage")], check=True, timeout=120)
    (control,) = data.rglob("control.db")
    with sqlite3.connect(control) as connection:
        statement = "UPDATE report_bodies SET body = replace(body, 'a6', 'a7') WHERE number = 7"
        assert connection.execute(statement).rowcount == 1
    connection.close()
    setup.processes["up"].start()
