"""Bodies of every kind at the door of a real process: each gets a documented answer, none of those
that are refused counts, all of those that are accepted do, and memory stays as it was.
"""

import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from meterline.limits import BODY_BYTES_MAX
from tests.conformance.door.good import COUNTED_TYPE
from tests.conformance.door.ledger import Account
from tests.conformance.door.run import Course, Run
from tests.conformance.scale import BODIES, SEED, SEED_VARIABLE
from tests.journey.client import Server
from tests.journey.deadline import until
from tests.journey.processes import role_process, run_command
from tests.services.local import free_port, spawned

START_S = 120.0
BODIES_A_SECOND_MIN = 20.0  # of a machine that does much else
EVENTS_A_SECOND_MIN = 500.0  # the same, for counting
SHOWN_EVERY = 0.05
GROWTH_BYTES_MAX = 32 * 1024 * 1024
"""From the first tenth of a run to its last: what allocators and caches may still take. A thousand
bodies that stay in memory are more than that, and so are 34 bytes of each of a million.
"""
PEAK_BYTES_MAX = 8 * BODY_BYTES_MAX
"""Above the usual, for a moment: one large body is under way at a time, as it is sent, inflated,
decoded and split.
"""
METERS = "/api/v3/metering/meters"


@pytest.fixture
def say(capfd: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Tell whoever watches."""

    def tell(words: str) -> None:
        with capfd.disabled():
            sys.stderr.write(f"\ndoor: {words}")
            sys.stderr.flush()

    return tell


class Watch:
    """Tells how far a run is, now and then."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._next = 0.0

    def __call__(self, course: Course) -> None:
        if course.sent < self._next * course.of:
            return
        self._next = course.sent / course.of + SHOWN_EVERY
        rate = course.sent / max(course.seconds, 0.001)
        mebibytes = course.resident[-1][1] >> 20
        self._say(f"{course.sent:,} of {course.of:,} bodies, {rate:,.0f}/s, {mebibytes} MiB")


def check_memory(course: Course) -> None:
    """The server's memory is where it was after the first tenth."""

    def usual(first: float, last: float) -> float:
        return statistics.median(
            [size for sent, size in course.resident if first <= sent / course.of <= last]
        )

    begin, end = usual(0.05, 0.15), usual(0.9, 1.0)
    peak = max(size for _, size in course.resident)
    assert end - begin <= GROWTH_BYTES_MAX, f"memory grew from {begin:,.0f} to {end:,.0f} bytes"
    assert peak - begin <= PEAK_BYTES_MAX, f"memory reached {peak:,} from {begin:,.0f} bytes"


def counted(server: Server, account: Account) -> Any:
    """The server's account, once everything that was accepted is in it."""

    def look() -> Any:
        status = server.get("/api/v3/metering/status").json
        found = status["account"]
        return found if status["caught_up"] and found["received"] >= account.received else None

    within_s = START_S + account.received / EVENTS_A_SECOND_MIN
    return until("everything is counted", within_s, look)


def usage(server: Server, key: str) -> Any:
    """The one row of a meter that says all of it."""
    answer = server.ask("POST", f"{METERS}/{key}/query", {})
    assert answer.status == 200, answer.body
    (row,) = answer.json["data"]
    return row


@pytest.mark.timeout(2 * START_S + BODIES / BODIES_A_SECOND_MIN)
def test_every_body_gets_its_answer_and_only_what_is_accepted_counts(
    tmp_path: Path, say: Callable[[str], None]
) -> None:
    say(f"{BODIES:,} bodies of seed {SEED}; {SEED_VARIABLE}={SEED} sends them again")
    settings = {"METERLINE_DATA_DIR": str(tmp_path / "data")}
    run_command(["migrate"], tmp_path, settings)  # a log with events and no control store is a loss
    # its memory is watched: that which it shares with others would be counted too
    door = role_process("door", ["ingest"], tmp_path / "door", free_port(), settings, begin=spawned)
    door.start()
    try:
        port = int(door.url.rsplit(":", 1)[1])
        run = Run(port, door.pid, SEED, BODIES)
        uvloop.run(run.send(Watch(say)))
        said = door.log_path.read_text(errors="replace")
    finally:
        door.kill()
    assert run.course.sent == BODIES
    assert "Traceback" not in said, said[-3000:]
    check_memory(run.course)
    account = run.ledger.account
    assert account.new > BODIES / 10, "a run of refusals alone shows nothing"
    assert account.duplicate + account.conflict > 0

    whole = role_process("up", ["up"], tmp_path / "up", free_port(), settings)
    whole.start()
    try:
        server = Server(whole.url)
        meter = {"event_type": COUNTED_TYPE, "name": "x"}
        server.made(METERS, {**meter, "key": "all", "aggregation": "count"})
        summed = {"key": "value", "aggregation": "sum", "value_property": "$.value"}
        server.made(METERS, {**meter, **summed})
        found = counted(server, account)
        every, values = usage(server, "all"), usage(server, "value")
    finally:
        whole.kill()
    expected = {
        "received": account.received,
        "new": account.new,
        "duplicate": account.duplicate,
        "conflict": account.conflict,
        "invalid": 0,
    }
    assert found == expected
    assert (every["value"], every["rejected"]) == (str(account.of_type[COUNTED_TYPE]), 0)
    assert values["counted"] + values["rejected"] == account.of_type[COUNTED_TYPE]
    assert values["rejected"] > 0
    say(f"accepted, of {account.received:,} events: {found}\n")
