"""The demo and the README's first steps, run as they stand."""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click import Option

from demo.__main__ import END, JANUARY_FLIGHTS
from demo.flights import flights
from meterline.runtime.commands.receive import receive
from tests.journey.client import Server
from tests.journey.deadline import until
from tests.journey.processes import role_process
from tests.services.local import LocalService, free_port, spawned

ROOT = Path(__file__).resolve().parents[2]
WITHIN_S = 600.0
STEPS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PORT, RECEIVER_PORT = 8888, 9000
MARK = "=== step"
NAMED = re.compile(r"(http://127\.0\.0\.1:\d+)(/console/meters/flights\S+)")


def test_the_demo_tells_the_totals_of_its_table(tmp_path: Path) -> None:
    printed = demonstrated(tmp_path)
    counts: Counter[str] = Counter()
    miles: Counter[str] = Counter()
    january: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    january_miles = 0
    end = datetime.fromisoformat(END)
    for one in islice(flights(), JANUARY_FLIGHTS):
        counts[one.subject] += 1
        data = msgspec.json.decode(msgspec.json.encode(one.data))
        miles[one.subject] += data["distance"]
        if datetime.fromisoformat(one.time) < end:
            january[one.subject].add((data["origin"], data["dest"]))
            january_miles += data["distance"]
    assert datetime.fromisoformat(one.time) > end, "what comes after January is there too"
    assert f"{JANUARY_FLIGHTS:,} events" in printed
    shown = _rows(printed, counts)
    assert {name: row[:2] for name, row in shown.items()} == {
        name: [f"{counts[name]:,}", f"{miles[name]:,}"] for name in counts
    }
    routes = sum(map(len, january.values()))
    words = " ".join(printed.split())
    assert f"{len(january)} deliveries, one per carrier, each verified" in words
    assert f"{routes:,} routes and {january_miles:,} miles, as the meter says" in words
    assert "The run has succeeded." in words


def demonstrated(folder: Path) -> str:
    """What the demo prints in a terminal, until it names its page; the page is full of flights."""
    command = [sys.executable, "-u", "-m", "demo", "--stay", "--flights", str(JANUARY_FLIGHTS)]
    log = folder / "demo.log"
    environment = {**os.environ, "COLUMNS": "200"}
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=out)

    def named() -> re.Match[str] | None:
        printed = log.read_text("utf-8")
        assert process.poll() is None, printed
        return NAMED.search(printed) if "Ctrl-C" in printed else None

    try:
        page = until("the demo names its page", WITHIN_S, named)
        server = Server(page[1])
        assert b'<div id="root">' in server.get(page[2]).body
        meter, by_month = page[2].removeprefix("/console"), {"granularity": "P1M"}
        path = f"/api/v3/metering{meter.partition('?')[0]}/query"
        months = server.ask("POST", path, by_month).json["data"]
        assert sum(int(one["value"]) for one in months) == JANUARY_FLIGHTS
        (report,) = server.get("/api/v3/metering/reports").json["data"]
        assert report["status"]["last_run"]["state"] == "succeeded", "its deliveries are seen too"
        process.send_signal(signal.SIGINT)
        assert process.wait(WITHIN_S) == 0
    finally:
        process.kill()
        process.wait()
    return log.read_text("utf-8")


def _rows(printed: str, carriers: Counter[str]) -> dict[str, list[str]]:
    lines = [line.split() for line in printed.splitlines()]
    return {words[0]: words[1:] for words in lines if words and words[0] in carriers}


def first_steps() -> list[str]:
    """The shell blocks of the README from the one behind `make run` to the keys."""
    readme = (ROOT / "README.md").read_text("utf-8")
    blocks = STEPS.findall(readme.partition("\n## Keys\n")[0])
    starts = [place for place, block in enumerate(blocks) if "make run\n" in block]
    assert len(starts) == 1, "one block starts the server"
    return list(blocks[starts[0] + 1 :])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalService]:
    """What `make run` starts, in a folder of its own and on a free port."""
    recipe = re.search(r"^run:.*\n\t(.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert recipe is not None
    assert recipe[1] == "$(BIN)/meterline up --port $(PORT)"
    settings = {"METERLINE_DATA_DIR": str(tmp_path / "data")}
    process = role_process("up", ["up"], tmp_path / "up", free_port(), settings, begin=spawned)
    try:
        process.start()
        yield process
    finally:
        process.kill()


def test_the_first_steps_of_the_readme_work_as_they_stand(
    server: LocalService, tmp_path: Path
) -> None:
    (port,) = (one for one in receive.params if isinstance(one, Option) and one.name == "port")
    assert port.default == RECEIVER_PORT, "the README relies on it"
    receiver_port = free_port()
    steps = first_steps()
    assert len(steps) >= 8
    script = "set -euo pipefail\n" + "".join(
        f"printf '\\n{MARK} {number}\\n'\n{block}" for number, block in enumerate(steps)
    )
    # The ports alone are others: many tests run on this machine.
    script = script.replace(f"127.0.0.1:{PORT}", server.url.removeprefix("http://"))
    script = script.replace(f"127.0.0.1:{RECEIVER_PORT}", f"127.0.0.1:{receiver_port}")
    script = script.replace("meterline receive ", f"meterline receive --port {receiver_port} ")
    (tmp_path / "cwd").mkdir()
    done = subprocess.run(
        ["/bin/bash", "-c", script],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path / "cwd")},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = done.stdout.split(f"\n{MARK} ")[1:]
    assert len(told) == len(steps)
    assert '{"status":"ready","parts":["control","usage","log","process","counting"]}' in told[0]
    _assert_asked(told, Server(server.url))
    _assert_received(told, tmp_path / "cwd")


def _assert_asked(told: list[str], api: Server) -> None:
    (asked,) = (
        one for block, one in zip(first_steps(), told, strict=True) if "/tokens/query " in block
    )
    shown = json.loads(asked.partition("\n")[2])
    rows = {
        (row["dimensions"]["subject"], row["dimensions"]["model"]): row for row in shown["data"]
    }
    expected = {("acme", "large"): 1250, ("acme", "small"): Fraction("350.25")}
    expected[("globex", "large")] = Fraction("106.5")
    assert {name: Fraction(row["value"]) for name, row in rows.items()} == expected
    assert rows[("globex", "large")]["rejected"] == 1
    account: Any = api.get("/api/v3/metering/status").json["account"]
    assert (account["received"], account["new"], account["duplicate"]) == (7, 6, 1)

    def succeeded() -> bool:
        run = api.get("/api/v3/metering/reports/tokens-daily/runs").json["data"][0]
        return (run["state"], run["delivered"]) == ("succeeded", 2)

    until("the run has succeeded", 180, succeeded)


def _assert_received(told: list[str], folder: Path) -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    lines = [line.split() for line in "\n".join(told).splitlines()]
    promised = re.findall(r"^tokens-daily  .*$", readme, re.MULTILINE)
    assert len(promised) == 2
    for line in promised:
        assert line.split() in lines, f"the README says that it prints: {line}"
    (bodies,) = folder.glob("*/deliveries.ndjson")
    assert len(bodies.read_bytes().splitlines()) == len(promised)
