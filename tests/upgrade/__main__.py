"""`python -m tests.upgrade NAME [--build FOLDER]`: record an installation of each set-up.

FOLDER is a checkout (`git worktree add FOLDER COMMIT`) of the build to record, by default this one.
It runs on the packages of this environment. The recording of a release is added once, and never
changed: every later build is tested against it.
"""

import argparse
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from tests.journey.client import Server
from tests.journey.processes import role_process, run_command
from tests.journey.receiver import receiving
from tests.scratch import memory_folder
from tests.services.local import LocalService, free_port
from tests.upgrade import servers
from tests.upgrade.build import keep_build
from tests.upgrade.life import SETTINGS, ClosingMailbox, Life, boxes, deliveries
from tests.upgrade.recording import (
    DATA,
    MANIFEST,
    RECORDED,
    STATEMENTS,
    STORY,
    Manifest,
    Story,
    pack,
)
from tests.upgrade.released import freeze

ROOT: Final = Path(__file__).resolve().parents[2]
LISTENING: Final = Path(__file__).with_name("listening.py")
SCHEMA: Final = "meterline/backends/clickhouse/schema.sql"
SECRET_KEY: Final = "a key of a recording, which hides nothing from anybody"
STOP_WITHIN_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Recorder:
    """Records the life of an installation of a build."""

    build: Path
    folder: Path
    boxes: Mapping[str, ClosingMailbox]
    settings: Mapping[str, str]

    def record(self, set_up: str) -> Path:
        """Live it; the folder with its story, without what the servers hold."""
        into = self.folder / set_up
        into.mkdir()
        heard = self.folder / f"{set_up}.statements"
        program = (sys.executable, "-P", str(LISTENING), str(heard))
        environment = {"PYTHONPATH": str(self.build), **self.settings}
        port = free_port()
        process = role_process(
            "up", ["up"], self.folder / f"up-{set_up}", port, environment, program
        )
        begin_ms = _now_ms()
        process.start()
        try:
            server = Server(process.url)
            life = Life(server, self.boxes, begin_ms)
            life.live()
            answers = life.answers()
            assert run_command(["audit", "--server", server.url], self.folder, environment) == ""
            listed = deliveries(server)
            _end(process)
        finally:
            process.kill()
        delivered = [one.id for box in self.boxes.values() for one in box.delivered]
        told = Story(
            end_ms=_now_ms(),
            secret_key=self.settings.get("METERLINE_SECRET_KEY", ""),
            signing={slug: box.secret for slug, box in self.boxes.items()},
            events=life.events,
            account=life.account,
            delivered=delivered,
            due=[one["id"] for one in listed if one["id"] not in delivered],
            deliveries=listed,
            answers=answers,
        )
        (into / STORY).write_bytes(msgspec.json.format(msgspec.json.encode(told), indent=1))
        statements = [json.loads(line) for line in heard.read_text().splitlines()]
        (into / STATEMENTS).write_text(json.dumps(sorted(set(statements)), indent=0))
        return into


def _end(process: LocalService) -> None:
    """As an operator stops it."""
    os.kill(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_WITHIN_S
    while process.ended() is None and time.monotonic() < deadline:
        time.sleep(0.1)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _embedded(name: str, build: Path, folder: Path) -> int:
    """The migration that its control store is at."""
    with receiving() as receiver:
        settings = {
            **SETTINGS,
            "METERLINE_DATA_DIR": str(folder / "embedded" / DATA),
            "METERLINE_WEBHOOK_PROXY": receiver.url,
        }
        into = Recorder(build, folder, boxes(receiver), settings).record("embedded")
    pack(into, name, "embedded")
    with sqlite3.connect(into / DATA / "control.db") as control:
        ((number,),) = control.execute("SELECT version_num FROM alembic_version").fetchall()
    control.close()
    return int(number)


def _on_servers(name: str, build: Path, folder: Path) -> None:
    with receiving() as receiver, servers.three() as three:
        place = servers.fresh(three)
        settings = {
            **SETTINGS,
            **place.settings,
            "METERLINE_SECRET_KEY": SECRET_KEY,
            "METERLINE_DATA_DIR": str(folder / "servers-data"),
            "METERLINE_WEBHOOK_PROXY": receiver.url,
        }
        run_command(["migrate"], folder, {"PYTHONPATH": str(build), **settings})
        into = Recorder(build, folder, boxes(receiver), settings).record("servers")
        servers.take_out(place, into)
    pack(into, name, "servers")


def main() -> None:
    """Record a build."""
    parser = argparse.ArgumentParser(prog="python -m tests.upgrade", description=__doc__)
    parser.add_argument("name", help="of the recording")
    parser.add_argument("--build", type=Path, default=ROOT, help="a checkout")
    given = parser.parse_args()
    build: Path = given.build.resolve()
    with tempfile.TemporaryDirectory(dir=memory_folder(), prefix="recording-") as place:
        folder = Path(place)
        migration = _embedded(given.name, build, folder)
        _on_servers(given.name, build, folder)
    head = ["git", "-C", str(build), "rev-parse", "HEAD"]
    commit = subprocess.run(head, check=True, capture_output=True, text=True).stdout.strip()
    made = Manifest(
        version=tomllib.loads((build / "pyproject.toml").read_text())["project"]["version"],
        commit=commit,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        migration=migration,
        usage_schema=sha256((build / SCHEMA).read_bytes()).hexdigest(),
    )
    text = msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n"
    (RECORDED / given.name / MANIFEST).write_bytes(text)
    freeze(given.name, build)
    keep_build(build, given.name)


if __name__ == "__main__":
    main()
