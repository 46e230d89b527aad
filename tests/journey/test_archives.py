"""Backup under load, a wiped disk, restore; then from one process to servers, and back. After each
step the numbers are exact, and the audit is clean.
"""

import json
import secrets
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.faults.labels import SLICE_VARIABLE
from tests.journey.client import Server
from tests.journey.deadline import until
from tests.journey.processes import role_process, run_command
from tests.journey.receiver import Delivered, Mailbox, Receiver
from tests.journey.setups import LOOPBACK, PARTITIONS, Servers, fresh_database
from tests.recovery.disks import put_key
from tests.services.local import LocalService, free_port

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = (sys.executable, "-m", "tests.faults.process")  # `meterline`, with small slices
V3 = "/api/v3/metering"
PACE = {
    SLICE_VARIABLE: "600",
    "PYTHONPATH": str(ROOT),
    "METERLINE_PRODUCE_DEADLINE_MS": "1000",
    "METERLINE_CLOCK_SKEW_MS": "0",
    "METERLINE_GRACE_MS": "1000",
    "METERLINE_FLUSH_INTERVAL_MS": "200",
    "METERLINE_PARTITIONS": PARTITIONS,
    "METERLINE_WEBHOOK_NETWORKS_ALLOWED": LOOPBACK,
}
METER = {
    "key": "tokens",
    "name": "Tokens",
    "aggregation": "sum",
    "event_type": "prompt",
    "value_property": "$.tokens",
}
REPORT = {
    "slug": "daily",
    "meter_id_or_key": "tokens",
    "type": "webhook",
    "schedule": {"interval": "1d"},
}
BATCH = 100
PAUSE_S = 0.2  # between two batches: slices are small, so more would take long to count
BEFORE = 3_000  # events before the backup; then more while it is made
SUBJECTS = 5
WINDOWS = [
    {"from": "2026-01-30T00:00:00Z", "to": "2026-01-31T00:00:00Z"},
    {"from": "2026-01-31T00:00:00Z", "to": "2026-02-01T00:00:00Z"},
]
WITHIN_S = 120.0


def event(number: int) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": str(number),
        "source": "archives",
        "type": "prompt",
        "subject": f"s{number % SUBJECTS}",
        "time": f"2026-01-{30 + number // SUBJECTS % 2}T09:{number % 60:02d}:00Z",
        "data": {"tokens": f"{number}.25"},
    }


def expected(count: int) -> Counter[str]:
    """Usage by subject of the first events, times 100."""
    usage: Counter[str] = Counter()
    for number in range(count):
        usage[f"s{number % SUBJECTS}"] += number * 100 + 25
    return usage


@dataclass(slots=True)
class Place:
    """A set-up: its settings, and the process that is all of it."""

    folder: Path
    settings: Mapping[str, str]
    process: LocalService
    server: Server

    def run(self, *command: str) -> str:
        """A command with its settings; what it says to stdout."""
        return run_command(command, self.folder, self.settings)

    def send(self, first: int, end: int) -> None:
        """Events by their numbers, a batch after another."""
        media = {"Content-Type": "application/cloudevents-batch+json"}
        for at in range(first, end, BATCH):
            batch = [event(number) for number in range(at, min(end, at + BATCH))]
            answer = self.server.ask("POST", f"{V3}/events", json.dumps(batch).encode(), media)
            assert answer.status == 202, answer.body

    def counted(self, count: int) -> dict[str, int]:
        """The account, once so many events were counted."""
        seen: list[Any] = [None]

        def look() -> dict[str, int] | None:
            status = seen[0] = self.server.get(f"{V3}/status").json
            account: dict[str, int] = status["account"] or {}
            return account if status["caught_up"] and account.get("new") == count else None

        try:
            return until(f"{count} events are counted", WITHIN_S, look)
        except AssertionError as error:
            error.add_note(f"the last status: {seen[0]}")
            raise

    def usage(self) -> Counter[str]:
        """By subject, times 100."""
        asked = {"group_by_dimensions": ["subject"]}
        answer = self.server.ask("POST", f"{V3}/meters/tokens/query", asked)
        assert answer.status == 200, answer.body
        rows = json.loads(answer.body, parse_float=str)["data"]
        found: Counter[str] = Counter()
        for row in rows:
            subject = row.get("subject") or row["dimensions"]["subject"]
            found[subject] += round(float(row["value"]) * 100)
        return found

    def exact(self, count: int) -> dict[str, int]:
        """The account, once everything is as it must be after so many events."""
        account = self.counted(count)
        assert self.usage() == expected(count)
        assert self.run("audit", "--server", self.server.url) == "", "no difference"
        return account


@dataclass(slots=True)
class Moves:
    """What is moved about."""

    folder: Path
    servers: Servers
    box: Mailbox
    secret_key: str = ""
    places: list[Place] = field(default_factory=list)

    def place(self, name: str, settings: Mapping[str, str]) -> Place:
        """A set-up that is ready to start. Its folder of data has the key of the first one."""
        data = self.folder / name / "data"
        whole = {**PACE, **settings, "METERLINE_DATA_DIR": str(data)}
        port = free_port()
        process = role_process("up", ["up"], self.folder / name, port, whole, PROGRAM)
        made = Place(self.folder, whole, process, Server(process.url))
        self.places.append(made)
        if self.secret_key and "METERLINE_SECRET_KEY" not in settings:
            put_key(data, self.secret_key)
        return made

    def on_servers(self) -> Place:
        """A place with a topic and databases of its own, not migrated."""
        name = f"archives_{secrets.token_hex(4)}"
        return self.place(
            "servers",
            {
                "METERLINE_LOG_URL": f"kafka://{self.servers.kafka}",
                "METERLINE_LOG_TOPIC": name,
                "METERLINE_CONSUMER_GROUP": name,
                "METERLINE_USAGE_URL": f"{self.servers.clickhouse.rstrip('/')}/{name}",
                "METERLINE_CONTROL_URL": fresh_database(self.servers.postgres, name),
                "METERLINE_SECRET_KEY": self.secret_key,
            },
        )

    def report(self, at: Place, window: Mapping[str, str]) -> list[Delivered]:
        """What a run brings, in the order of subjects; all of it was verified."""
        before = len(self.box.delivered)
        at.server.made(f"{V3}/reports/daily/runs", window)
        all_there = before + SUBJECTS
        until("all arrive", WITHIN_S, lambda: len(self.box.delivered) >= all_there)
        found = self.box.delivered[before:all_there]
        return sorted(found, key=lambda one: str(json.loads(one.body)["query"]["subject"]))


@pytest.fixture
def moves(tmp_path: Path, servers: Servers, receiver: Receiver) -> Iterator[Moves]:
    made = Moves(tmp_path, servers, receiver.mailbox("archives"))
    try:
        yield made
    except BaseException as error:
        for one in made.places:
            error.add_note(one.process.log_path.read_text(errors="replace")[-3000:])
        raise
    finally:
        for one in made.places:
            one.process.kill()


def backup_under_load(place: Place, archive: Path) -> int:
    """Make a backup while events come in; how many came in all."""
    enough, sent = Event(), BEFORE

    def load() -> int:
        at = sent
        while not enough.wait(PAUSE_S):
            place.send(at, at + BATCH)
            at += BATCH
        return at

    with ThreadPoolExecutor(1) as thread:
        loading = thread.submit(load)
        try:
            place.run("backup", str(archive))
        finally:
            enough.set()
        return loading.result()


def test_a_disk_is_lost_and_an_installation_moves(moves: Moves) -> None:
    first = moves.place("first", {})
    first.process.start()
    first.server.made(f"{V3}/meters", METER)
    report = {**REPORT, "endpoint": {"url": moves.box.url}}
    moves.box.secret = first.server.made(f"{V3}/reports", report)["signing_secret"]
    first.send(0, BEFORE)
    moves.report(first, WINDOWS[0])
    archive = moves.folder / "backup"
    count = backup_under_load(first, archive)
    manifest = json.loads((archive / "manifest.json").read_bytes())
    stretches = manifest["log"]["partitions"]
    assert all(one["counted"] > 0 for one in stretches), "slices were sealed by then"
    first.counted(count)
    later = moves.report(first, WINDOWS[1])

    # the disk is lost; what the operator kept elsewhere is the archive and the key
    first.process.kill()
    data = moves.folder / "first" / "data"
    moves.secret_key = (data / "secret.key").read_text().strip()
    shutil.rmtree(data)
    put_key(data, moves.secret_key)
    delivered = len(moves.box.delivered)
    assert first.run("restore", str(archive)) == "", "no difference"
    first.process.start()
    first.send(0, count)  # senders send all of it again
    account = first.exact(count)
    assert account["duplicate"] >= BEFORE
    assert len(moves.box.delivered) == delivered, "what was delivered is not sent again"
    again = moves.report(first, WINDOWS[1])
    assert [one.id for one in again] == [one.id for one in later], "a receiver knows them"
    usage = [[json.loads(one.body)["usage"] for one in run] for run in (later, again)]
    assert usage[0] == usage[1]

    # to servers
    first.run("export", str(moves.folder / "out"))
    first.process.kill()
    servers = moves.on_servers()
    assert servers.run("import", str(moves.folder / "out")) == "", "no difference"
    servers.process.start()
    servers.send(0, BATCH * 2)
    servers.send(count, count + BATCH)
    moved = servers.exact(count + BATCH)
    assert moved["duplicate"] == account["duplicate"] + BATCH * 2, "it knows what was counted"

    # and back
    servers.run("export", str(moves.folder / "back"))
    servers.process.kill()
    last = moves.place("last", {})
    assert last.run("import", str(moves.folder / "back")) == "", "no difference"
    last.process.start()
    last.send(count, count + BATCH)
    account = last.exact(count + BATCH)
    assert account["duplicate"] == moved["duplicate"] + BATCH
    assert len(moves.box.delivered) == delivered + SUBJECTS
