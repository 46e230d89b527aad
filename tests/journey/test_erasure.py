"""A subject is erased, in both set-ups: totals stay, and in the end no table, no record of the log
and no file has its name or its payload.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.journey.deadline import until
from tests.journey.everywhere import drop_sealed, everywhere
from tests.journey.moved_clock import SHORT_SLICES, MovedClock
from tests.journey.processes import PROGRAM, completed, run_command
from tests.journey.receiver import Receiver
from tests.journey.setups import Servers, SetUp, distributed, embedded, telling

V3: Final = "/api/v3/metering"
NAME: Final = "alice-of-wonderland"
SECRET: Final = "she-is-late-for-tea"
EVENTS: Final = 600
DAY_MS: Final = 86_400_000
SPAN_MS: Final = 300_000
METER: Final = {
    "key": "calls",
    "name": "Calls",
    "aggregation": "sum",
    "event_type": "call",
    "value_property": "$.value",
    "dimensions": {"who": "$.who"},
}
REPORT: Final = {
    "slug": "daily",
    "meter_id_or_key": "calls",
    "type": "webhook",
    "schedule": {"interval": "1d", "start_at": "2026-01-01T00:00:00Z"},
}
WINDOW: Final = {"from": "2026-01-31T00:00:00Z", "to": "2026-02-01T00:00:00Z"}
# Files of replaced parts stay for eight minutes, of the machine's clock, and are looked for twice a
# minute. Whoever opens the tables next goes by what is set here.
HURRY: Final = """
import sys, time, clickhouse_connect
client = clickhouse_connect.get_client(interface="chdb", path=sys.argv[1])
asked = lambda sql: client.query(sql).result_rows
soon = "old_parts_lifetime = 1, cleanup_delay_period = 1, cleanup_delay_period_random_add = 0"
for (table,) in asked("SELECT name FROM system.tables WHERE database = currentDatabase()"):
    client.command(f"ALTER TABLE {table} MODIFY SETTING {soon}, max_cleanup_delay_period = 1")
old = "SELECT count() FROM system.parts WHERE NOT active AND database = currentDatabase()"
while sys.argv[2:] and asked(old)[0][0]:
    time.sleep(0.5)
client.close()
"""


def _event(number: int) -> bytes:
    subject = NAME if number % 4 == 1 else f"s{number % 4}"
    secret = SECRET if subject == NAME else "nothing"
    return json.dumps(
        {
            "specversion": "1.0",
            "id": f"{subject}-{number}",
            "source": f"app/{subject}",
            "type": "call",
            "subject": subject,
            "time": f"2026-01-31T09:{number % 60:02d}:00Z",
            "data": {
                "value": secret if number % 50 == 1 else number,
                "who": subject,
                "note": secret,
            },
        }
    ).encode()


@pytest.fixture
def clock(tmp_path: Path) -> MovedClock:
    return MovedClock(tmp_path)


@pytest.fixture
def embedded_setup(tmp_path: Path, clock: MovedClock) -> Iterator[SetUp]:
    made = embedded(tmp_path, program=clock.program)
    yield made
    made.kill()


@pytest.fixture
def distributed_setup(tmp_path: Path, servers: Servers, clock: MovedClock) -> Iterator[SetUp]:
    made = distributed(tmp_path, servers, SHORT_SLICES, program=clock.program)
    yield made
    made.kill()


def _prepared(setup: SetUp, receiver: Receiver) -> None:
    """Counted, described and reported."""
    setup.start()
    setup.control.made(f"{V3}/meters", METER)
    setup.control.made(f"{V3}/subjects", {"key": NAME, "name": SECRET})
    box = receiver.mailbox(f"erasure-{setup.name}")
    setup.control.made(f"{V3}/reports", {**REPORT, "endpoint": {"url": box.url}})
    box.secret = setup.control.get(f"{V3}/reports/daily/secret").json["signing_secret"]
    source = setup.folder / "calls.ndjson"
    source.write_bytes(b"\n".join(map(_event, [*range(EVENTS), *range(50)])))
    send = ["send", str(source), "--to", setup.ingest.url, "--status", setup.control.url, "--wait"]
    run_command(send, setup.folder, {})
    source.unlink()
    run = setup.control.made(f"{V3}/reports/daily/runs", WINDOW)
    path = f"{V3}/reports/daily/runs/{run['id']}"
    until("the run is over", 240, lambda: setup.control.get(path).json["state"] == "succeeded")


def _totals(setup: SetUp) -> dict[str, float]:
    """By subject."""
    found = setup.control.get("/api/v1/meters/calls/query?groupBy=subject").json
    return {row["subject"]: row["value"] for row in found["data"]}


def _audit(setup: SetUp) -> str:
    command = [str(PROGRAM), "audit", "--server", setup.control.url, "--payloads"]
    done = completed(command, setup.folder, {}, 240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def _erased(setup: SetUp, pass_time: Callable[[], None]) -> Any:
    """Asked for by the command, and settled; totals are the same at every look."""
    before = _totals(setup)
    command = ["erase", NAME, "--yes", "--no-wait", "--server", setup.control.url]
    run_command(command, setup.folder, {})
    (asked,) = setup.control.get(f"{V3}/erasures").json["data"]
    pass_time()

    def settled() -> Any:
        answer = setup.control.ask("GET", "/api/v1/meters/calls/query?groupBy=subject")
        if answer.status == 200:
            assert sum(row["value"] for row in answer.json["data"]) == sum(before.values())
        else:
            assert answer.status == 503
        now = setup.control.get(f"{V3}/erasures/{asked['id']}").json
        return now if now["state"] == "settled" else None

    erasure = until("the erasure is settled", 420, settled)
    assert erasure["log_holds_until"]
    after = _totals(setup)
    assert after.pop(erasure["pseudonym"]) == before.pop(NAME)
    assert after == before
    assert "Clean" in _audit(setup)
    (change,) = setup.control.get(f"{V3}/changes?filter[resource_id]={erasure['id']}").json["data"]
    assert (change["action"], change["name"]) == ("erase", erasure["pseudonym"])
    return erasure


def _done(setup: SetUp, erasure: Any, clock: MovedClock) -> None:
    def done() -> bool:
        state = setup.control.get(f"{V3}/erasures/{erasure['id']}").json["state"]
        if state != "done":
            clock.move(700_000)  # so often it looks
        return bool(state == "done")

    totals = _totals(setup)
    until("the erasure is done", 300, done)
    shown = setup.control.get(f"{V3}/erasures/{erasure['id']}").json
    assert "subject" not in shown
    assert _totals(setup) == totals
    assert "Clean" in _audit(setup)


def test_embedded_no_file_has_anything_of_it(
    embedded_setup: SetUp, receiver: Receiver, clock: MovedClock
) -> None:
    setup = embedded_setup
    with telling(setup):
        _prepared(setup, receiver)
        data = setup.folder / "data"
        assert _files_with(data)
        erasure = _erased(setup, lambda: clock.move(SPAN_MS))
        clock.move(9 * DAY_MS)
        _done(setup, erasure, clock)
        setup.processes["up"].stop()
        hurry = [sys.executable, "-c", HURRY, str(data / "usage")]
        for wait in ([], ["until they are gone"]):
            subprocess.run([*hurry, *wait], check=True, timeout=300)
        assert _files_with(data) == []


def _files_with(folder: Path) -> list[str]:
    """Files with the name or the payload. What is compressed is searched by the store's own
    columns elsewhere (`tests/unit/aggregator/test_erasure.py`).
    """
    texts = (NAME.encode(), SECRET.encode())
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and any(text in path.read_bytes() for text in texts)
    ]


def test_distributed_no_store_has_anything_of_it(
    distributed_setup: SetUp, servers: Servers, receiver: Receiver, clock: MovedClock
) -> None:
    """The broker has a clock of its own, so slices are short; and its records are deleted here, as
    its retention would.
    """
    setup = distributed_setup
    with telling(setup):
        _prepared(setup, receiver)
        topic = setup.processes["ingest"].environment["METERLINE_LOG_TOPIC"]
        assert asyncio.run(everywhere(servers, topic, (NAME, SECRET)))
        erasure = _erased(setup, lambda: None)
        asyncio.run(drop_sealed(servers, topic))
        clock.move(9 * DAY_MS)
        _done(setup, erasure, clock)
        assert asyncio.run(everywhere(servers, topic, (NAME, SECRET))) == []
