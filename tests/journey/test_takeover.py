"""An aggregator that is killed and comes back under its own name goes on at once (KIP-345)."""

import time
from pathlib import Path

from meterline.limits import FAUST_SESSION_TIMEOUT_S
from tests.journey.deadline import until
from tests.journey.setups import Servers, SetUp, distributed, telling

EVENTS = 200  # so that every partition has some
COUNTED_WITHIN_S = 180.0
TRIES = 3


def send(setup: SetUp, first: int) -> None:
    """Some events more."""
    events = [
        {
            "specversion": "1.0", "id": str(number), "source": "takeover", "type": "t",
            "subject": "s", "time": "2026-01-01T00:00:00Z",
        }
        for number in range(first, first + EVENTS)
    ]  # fmt: skip
    media = {"Content-Type": "application/cloudevents-batch+json"}
    answer = setup.ingest.ask("POST", "/api/v3/metering/events", events, media)
    assert answer.status == 202, answer.body


def counted(setup: SetUp, events: int, within_s: float) -> None:
    """Return when so many events count, in all partitions."""

    def are_counted() -> bool:
        status = setup.status
        account = status["account"]
        return bool(status["caught_up"] and account and account["new"] == events)

    until(f"{events} events count", within_s, are_counted)


def takeover_s(setup: SetUp, counted_before: int) -> float:
    """Kill an aggregator and start it again: how long until what is sent to every partition counts,
    from the moment at which it is ready.
    """
    one = setup.processes["aggregate-1"]
    one.kill()
    send(setup, counted_before)
    one.start()
    began_s = time.monotonic()
    counted(setup, counted_before + EVENTS, 4 * FAUST_SESSION_TIMEOUT_S)
    return time.monotonic() - began_s


def test_a_named_aggregator_has_its_partitions_again_at_once(
    tmp_path: Path, servers: Servers
) -> None:
    setup = distributed(tmp_path, servers)
    try:
        with telling(setup):
            setup.start()
            send(setup, 0)
            counted(setup, EVENTS, COUNTED_WITHIN_S)
            # Each time is short; only a machine with much else to do makes one of them long.
            taken_s = (takeover_s(setup, place * EVENTS) for place in range(1, TRIES + 1))
            assert any(one_s < FAUST_SESSION_TIMEOUT_S / 2 for one_s in taken_s)
    finally:
        setup.kill()
