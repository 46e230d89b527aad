"""A log on Kafka gets 12 partitions instead of 4, while events are sent all the time, and an
aggregator and the gateway are killed on the way.
"""

import json
import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.journey.deadline import until
from tests.journey.feed import Feed, feeding
from tests.journey.processes import PROGRAM
from tests.journey.setups import Servers, SetUp, distributed, telling

BEFORE = 6_000  # events
AGAIN = 4_000  # of those from before, sent when the log has grown
AT_ONCE, PAUSE_S = 200, 0.05  # events that a producer sends meanwhile, again and again
METER = {
    "key": "units",
    "name": "Units",
    "aggregation": "sum",
    "event_type": "unit",
    "value_property": "$.units",
}
V3 = "/api/v3/metering"
GROWN_WITHIN_S = 120.0
PARTITIONS = 12


def line(number: int) -> bytes:
    event = {
        "specversion": "1.0", "id": str(number), "source": "growth", "type": "unit",
        "subject": f"s{number % 7}", "time": f"2026-01-01T00:{number % 60:02d}:00Z",
        "data": {"units": number},
    }  # fmt: skip
    return json.dumps(event).encode() + b"\n"


def lines(first: int, end: int) -> Sequence[bytes]:
    return [line(number) for number in range(first, end)]


@contextmanager
def growing(setup: SetUp) -> Iterator["subprocess.Popen[str]"]:
    """The command that gives the log more partitions, as an operator runs it."""
    command = [str(PROGRAM), "migrate", "--partitions", str(PARTITIONS)]
    environment = {**os.environ, **setup.processes["control"].environment}
    with subprocess.Popen(
        command, cwd=setup.folder, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: "subprocess.Popen[str]", words: str) -> None:
    """Return when it has said so."""
    assert process.stdout is not None
    heard = []
    for one in process.stdout:
        heard.append(one)
        if words in one:
            return
    raise AssertionError(f"it ended without {words!r}: {heard}")


@contextmanager
def producing(feed: Feed, first: int) -> Iterator[list[int]]:
    """Events are sent all the while; how many there are in the end is in the list then."""
    stop, ends = threading.Event(), [first]

    def give() -> None:
        while not stop.wait(PAUSE_S):
            feed.give(lines(ends[0], ends[0] + AT_ONCE))
            ends[0] += AT_ONCE

    thread = threading.Thread(target=give, daemon=True)
    thread.start()
    try:
        yield ends
    finally:
        stop.set()
        thread.join()


def grow(setup: SetUp) -> None:
    """With a kill before anything is counted by the new number, and one when it is."""
    gateway, aggregator = setup.processes["ingest"], setup.processes["aggregate-1"]
    with growing(setup) as command:
        said(command, f"the topic has {PARTITIONS} partitions")
        gateway.kill()
        gateway.start()
        said(command, f"events go by {PARTITIONS} partitions")
        aggregator.kill()
        assert setup.status["log"]["partitions"] == PARTITIONS
        aggregator.start()
        said(command, "done")
        assert command.wait(GROWN_WITHIN_S) == 0


def test_a_log_gets_more_partitions_and_each_event_counts_once(
    tmp_path: Path, servers: Servers
) -> None:
    setup = distributed(tmp_path, servers)
    try:
        with telling(setup):
            setup.start()
            assert setup.control.ask("POST", f"{V3}/meters", METER).status == 201
            with feeding(setup, "--batch", "50") as feed:
                feed.give(lines(0, BEFORE))
                feed.take_half(BEFORE)
                with producing(feed, BEFORE) as ends:
                    grow(setup)
                (events,) = ends
                feed.give(lines(0, AGAIN))
                feed.finish()
            judge(setup, events)
    finally:
        setup.kill()


def judge(setup: SetUp, events: int) -> None:
    """Each event counts once, in all partitions, and the audit agrees."""

    def is_counted() -> bool:
        status = setup.status
        account = status["account"]
        return bool(status["caught_up"] and account["new"] == events)

    until("every event counts", GROWN_WITHIN_S, is_counted)
    status = setup.status
    assert status["log"]["growth"] is None
    held = [one["end"] - one["begin"] for one in status["partitions"]]
    assert len(held) == PARTITIONS
    assert all(held), "events went to all of them"
    account = status["account"]
    assert account["conflict"] == 0
    assert account["duplicate"] >= AGAIN
    usage = setup.control.ask("POST", f"{V3}/meters/units/query", {"granularity": "P1D"}).json
    assert [row["value"] for row in usage["data"]] == [str(events * (events - 1) // 2)]
    audit = subprocess.run(
        [str(PROGRAM), "audit", "--server", setup.control.url],
        cwd=setup.folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert audit.returncode == 0, audit.stdout + audit.stderr
