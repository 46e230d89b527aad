"""A disk fills up, the process is stopped and started on it, and room is made: real processes."""

from pathlib import Path

from tests.disk.disk import Disk
from tests.journey.deadline import until
from tests.journey.processes import PROGRAM, completed
from tests.journey.refusal import refused
from tests.journey.setups import SetUp, embedded, stopped, telling

WITHIN_S = 120.0
BATCH = {"Content-Type": "application/cloudevents-batch+json"}
CALLS = {"key": "calls", "name": "calls", "aggregation": "sum", "event_type": "call",
         "value_property": "$.n"}  # fmt: skip


def post(setup: SetUp, batch: str, count: int = 20) -> int:
    """Send a batch of events; the status of the answer."""
    events = [
        {"specversion": "1.0", "id": f"{batch}-{number}", "source": "s", "type": "call",
         "subject": f"c{number % 4}", "time": "2026-01-01T10:00:00Z", "data": {"n": number}}
        for number in range(count)
    ]  # fmt: skip
    return setup.ingest.ask("POST", "/api/v3/metering/events", events, BATCH).status


def total(setup: SetUp) -> int:
    """What all calls sum up to."""
    answer = setup.control.ask("POST", "/api/v3/metering/meters/calls/query", {})
    return sum(int(float(row["value"])) for row in answer.json["data"])


def counted(setup: SetUp) -> bool:
    """Whether nothing is under way."""
    return bool(setup.status["caught_up"])


def is_clean(setup: SetUp) -> bool:
    """Whether an audit finds nothing."""
    command = [str(PROGRAM), "audit", "--server", setup.control.url]
    return completed(command, setup.folder, {}).returncode == 0


def test_what_a_full_disk_stops_goes_on_by_itself(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "data", tmp_path / "beside")
    setup = embedded(tmp_path, disk.environment())
    up = setup.processes["up"]
    try:
        with telling(setup):
            setup.start()
            setup.control.made("/api/v3/metering/meters", CALLS)
            assert post(setup, "before") == 202
            until("the events count", WITHIN_S, lambda: counted(setup) and total(setup) == 190)
            disk.fill()
            assert post(setup, "during") == 503
            assert disk.hit, "the disk was full for it"
            until("it is told", WITHIN_S, lambda: "disk is full" in setup.logs())
            assert "event=request action=unavailable" in setup.logs()
            ready = setup.control.ask("GET", "/readyz")
            assert ready.status == 503
            assert (
                "is full (0.0 MiB are free, 16 MiB are needed): free some" in ready.json["detail"]
            )
            assert setup.control.ask("GET", "/healthz").status == 200
            disk.spare()
            assert setup.control.ask("GET", "/readyz").status == 200
            assert post(setup, "during") == 202, "it goes on by itself"
            disk.fill()
            assert post(setup, "lost") == 503
            stopped(setup.processes["up"])
            before = {path: path.read_bytes() for path in disk.folder.rglob("*.sql")}
            line = refused(up)
            assert "is full (0.0 MiB are free, 32 MiB are needed): free some space" in line
            assert {path: path.read_bytes() for path in disk.folder.rglob("*.sql")} == before
            disk.spare()
            setup.start()
            assert post(setup, "lost") == 202
            until("all counts", WITHIN_S, lambda: counted(setup) and total(setup) == 3 * 190)
            assert is_clean(setup)
    finally:
        setup.kill()
        disk.close()
