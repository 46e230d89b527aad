"""A receiver that fails half of the time, and dispatchers that are killed on the way: everything is
delivered, with one body under each id.

All runs go to one URL, as to a billing system. `METERLINE_TEST_RUNS` says
how many; `make receivers` makes a thousand and prints what came of them.
"""

import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from meterline import limits
from meterline.window import MINUTE_MS, parse_instant, rfc3339
from tests.faults.labels import LEASE_VARIABLE
from tests.journey.bad_receiver import BadReceiver, receiving_badly
from tests.journey.client import Server
from tests.journey.deadline import until
from tests.journey.processes import role_process
from tests.services.local import free_port

V3: Final = "/api/v3/metering"
RUNS: Final = int(os.environ.get("METERLINE_TEST_RUNS", "12"))
SHORT: Final = RUNS < 100  # as in CI, which waits neither for many starts nor for the last retries
SUBJECTS: Final = 8
SEED: Final = 20_260_201
KILLS: Final = 1 if SHORT else 3
FIRST: Final = "2026-02-01T00:00:00Z"
WITHIN_S: Final = 120.0 + RUNS
REPORT: Final = f"{V3}/reports/usage"
HASTE: Final = 1_000  # the delays of retries and probes are those of the product, divided by it
LONGEST_S: Final = 1.8 if SHORT else limits.RETRY_DELAYS_S[-1]
PACE: Final = {
    LEASE_VARIABLE: "4",
    "METERLINE_PRODUCE_DEADLINE_MS": "500",
    "METERLINE_CLOCK_SKEW_MS": "0",
    "METERLINE_GRACE_MS": "500",
    "METERLINE_FLUSH_INTERVAL_MS": "200",
    "METERLINE_DELIVERY_TIMEOUT_S": "1",
    "METERLINE_RETRY_DELAYS_S": str(
        [min(delay_s / HASTE, LONGEST_S) for delay_s in limits.RETRY_DELAYS_S]
    ),
    "METERLINE_PROBE_PAUSE_S": str(limits.PROBE_PAUSE_S / HASTE),
}


@pytest.mark.timeout(WITHIN_S * 2)
def test_all_is_delivered_with_one_body_under_each_id(tmp_path: Path) -> None:
    port = free_port()
    settings = {"METERLINE_DATA_DIR": str(tmp_path / "data"), **PACE}
    process = role_process("up", ["up"], tmp_path / "up", port, settings)
    # the product with shorter leases: what a killed dispatcher held is free after four seconds
    process.command = [sys.executable, "-m", "tests.faults.process", "up"]
    process.environment["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])
    with receiving_badly(SEED) as bad:
        try:
            process.start()
            api = Server(process.url)
            filled(api)
            bad.secrets["/usage"] = reported(api, f"{bad.url}/usage")
            began_s = time.monotonic()
            runs = [asked(api, number) for number in range(RUNS)]
            for kill in range(1, KILLS + 1):
                arrived(bad, RUNS * SUBJECTS * kill // (KILLS + 1))
                process.kill()
                process.start()
            ended = [until("a run ends", WITHIN_S, partial(end_of, api, run)) for run in runs]
            took_s = time.monotonic() - began_s
            pulled = everything(api)
        finally:
            process.kill()
    assert {(run["state"], run["delivered"]) for run in ended} == {("succeeded", SUBJECTS)}
    assert bad.unverified == []
    assert all(bad.hurts[kind] for kind in ("status", "drop", "sleep")), dict(bad.hurts)
    assert len(pulled) == RUNS * SUBJECTS
    assert bad.booked == pulled.keys(), "nothing is missing, and nothing came that is not listed"
    assert {name: set(bodies) for name, bodies in bad.came.items()} == {
        name: {body} for name, body in pulled.items()
    }
    attempts, hurts = sum(map(len, bad.came.values())), dict(sorted(bad.hurts.items()))
    sys.stdout.write(
        f"{RUNS} runs to one URL, {len(pulled)} deliveries, {attempts} attempts, hurts {hurts},"
        f" {KILLS} kills: all delivered once booked, {took_s:.0f} s\n"
    )


def arrived(bad: BadReceiver, count: int) -> None:
    """So many deliveries are booked."""
    until("some arrive", WITHIN_S, lambda: len(bad.booked) >= count)


def filled(api: Server) -> None:
    """A meter with usage in each window."""
    meter = {"key": "tokens", "name": "Tokens", "event_type": "prompt", "aggregation": "sum"}
    api.made(f"{V3}/meters", {**meter, "value_property": "$.n"})
    first_ms = parse_instant(FIRST)
    events = [
        {
            "specversion": "1.0",
            "id": f"{minute}.{subject}",
            "source": "test",
            "type": "prompt",
            "subject": f"s{subject}",
            "time": rfc3339(first_ms + minute * MINUTE_MS),
            "data": {"n": minute * SUBJECTS + subject + 1},
        }
        for minute in range(RUNS)
        for subject in range(SUBJECTS)
    ]
    for first in range(0, len(events), 1_000):
        batch = events[first : first + 1_000]
        until("the gateway takes events", WITHIN_S, partial(taken, api, batch))


def reported(api: Server, url: str) -> str:
    """A report; the secret that signs."""
    report = {
        "slug": "usage",
        "meter_id_or_key": "tokens",
        "type": "webhook",
        "schedule": {"interval": "1d", "start_at": FIRST},
        "endpoint": {"url": url},
    }
    return str(api.made(f"{V3}/reports", report)["signing_secret"])


def taken(api: Server, events: list[Any]) -> bool:
    """Whether the gateway took them, which a busy machine may be too slow for at first."""
    media = {"Content-Type": "application/cloudevents-batch+json"}
    answer = api.ask("POST", f"{V3}/events", events, media)
    assert answer.status in {202, 503}, answer
    return answer.status == 202


def asked(api: Server, number: int) -> str:
    """The path of a run of a minute."""
    from_ms = parse_instant(FIRST) + number * MINUTE_MS
    window = {"from": rfc3339(from_ms), "to": rfc3339(from_ms + MINUTE_MS)}
    return f"{REPORT}/runs/{api.made(f'{REPORT}/runs', window)['id']}"


def end_of(api: Server, run: str) -> Any:
    """A run that has ended."""
    found = api.get(run).json
    return found if "ended_at" in found else None


def everything(api: Server) -> dict[str, bytes]:
    """The bodies of all deliveries, by id."""
    found: dict[str, bytes] = {}
    path, after = f"{REPORT}/pull?page[size]=100", ""
    while after is not None:
        page = api.get(f"{path}&page[after]={after}" if after else path).json
        found |= {one["id"]: one["body"].encode() for one in page["data"]}
        after = page["meta"]["page"]["next"]
    return found
