"""Usage by minute is dropped, in both set-ups: hours and totals stay, late events count, and what
needs minutes is refused.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pytest

from tests.journey.conftest import SETUPS
from tests.journey.deadline import until
from tests.journey.moved_clock import SHORT_SLICES, MovedClock
from tests.journey.processes import PROGRAM, completed, run_command
from tests.journey.setups import Servers, SetUp, distributed, embedded, telling

V3: Final = "/api/v3/metering"
KEEP: Final = {"METERLINE_KEEP_MINUTES_DAYS": "92"}
METER: Final = {
    "key": "calls",
    "name": "Calls",
    "aggregation": "sum",
    "event_type": "call",
    "value_property": "$.value",
}
EVENTS: Final = 400
SPAN_MS: Final = 300_000
LOOK_MS: Final = 3_700_000  # so often it looks for what is old
DAY_MS: Final = 86_400_000
NOTICED_WITHIN_S: Final = 600.0
DAY: Final = {"from": "2026-01-31T00:00:00Z", "to": "2026-02-01T00:00:00Z"}
DROPPED: Final = re.compile(r"dropped\b.*\b(tallies|members)\b|\b(tallies|members)\b.*dropped\b")


def _event(number: int) -> bytes:
    return json.dumps(
        {
            "specversion": "1.0",
            "id": f"{number}",
            "source": "minutes",
            "type": "call",
            "subject": f"s{number % 4}",
            "time": f"2026-01-31T{number % 5 + 9:02d}:{number % 60:02d}:00Z",
            "data": {"value": number},
        }
    ).encode()


@pytest.fixture
def clock(tmp_path: Path) -> MovedClock:
    return MovedClock(tmp_path)


@pytest.fixture(params=SETUPS)
def setup(request: pytest.FixtureRequest, tmp_path: Path, clock: MovedClock) -> Iterator[SetUp]:
    if request.param == "embedded":
        made = embedded(tmp_path, KEEP, clock.program)
    else:
        servers: Servers = request.getfixturevalue("servers")
        made = distributed(tmp_path, servers, {**KEEP, **SHORT_SLICES}, program=clock.program)
    yield made
    made.kill()


def _send(setup: SetUp, numbers: range) -> None:
    source = setup.folder / "calls.ndjson"
    source.write_bytes(b"\n".join(map(_event, numbers)))
    send = ["send", str(source), "--to", setup.ingest.url, "--status", setup.control.url, "--wait"]
    run_command(send, setup.folder, {})


def _asked(setup: SetUp, **parameters: str) -> Any:
    """Rows by subject, once the stores answer."""
    path = f"/api/v1/meters/calls/query?{urlencode({**parameters, 'groupBy': 'subject'})}"

    def told() -> Any:
        answer = setup.control.ask("GET", path)
        return None if answer.status == 503 else answer

    return until("usage is told", 120, told)


def _hours(setup: SetUp) -> dict[tuple[str, str], float]:
    answer = _asked(setup, **DAY, windowSize="HOUR")
    assert answer.status == 200, answer
    return {(it["windowStart"], it["subject"]): it["value"] for it in answer.json["data"]}


def _expected(count: int) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for number in range(count):
        key = (f"2026-01-31T{number % 5 + 9:02d}:00:00Z", f"s{number % 4}")
        found[key] = found.get(key, 0) + number
    return found


def _logs(setup: SetUp) -> str:
    return "\n".join(it.log_path.read_text(errors="replace") for it in setup.processes.values())


def test_hours_stay_when_minutes_go(setup: SetUp, clock: MovedClock) -> None:
    with telling(setup):
        setup.start()
        setup.control.made(f"{V3}/meters", METER)
        _send(setup, range(EVENTS))
        assert _hours(setup) == _expected(EVENTS)
        assert _asked(setup, **DAY, windowSize="MINUTE").status == 200
        clock.move(SPAN_MS)

        def refused() -> Any:
            clock.move(LOOK_MS)
            answer = _asked(setup, **DAY, windowSize="MINUTE")
            assert _hours(setup) == _expected(EVENTS)
            return None if answer.status == 200 else answer

        answer = until("minutes are given notice of", NOTICED_WITHIN_S, refused)
        assert answer.status == 400
        assert "minutes before 2026-02-01T00:00:00Z are not kept any more" in str(answer.json)

        def dropped() -> bool:
            clock.move(LOOK_MS)
            assert _hours(setup) == _expected(EVENTS)
            return DROPPED.search(_logs(setup)) is not None

        clock.move(DAY_MS)
        until("minutes are dropped", 300, dropped)
        _send(setup, range(EVENTS, EVENTS + 40))
        assert _hours(setup) == _expected(EVENTS + 40)
        assert _asked(setup, **DAY, windowSize="MINUTE").status == 400
        audit = [str(PROGRAM), "audit", "--server", setup.control.url]
        done = completed(audit, setup.folder, {}, 240)
        assert done.returncode == 0, done.stdout + done.stderr
