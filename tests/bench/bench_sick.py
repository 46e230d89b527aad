"""How long healthy customers wait where the receiver fails for others.

The product is one process (`meterline up`, its own settings of sending), the receiver another. It
answers 500 for a share of 1,000 customers, in an order, and takes the rest. Each round measures how
long after the first POST the last healthy delivery was taken: for a plain aiohttp client that posts
the same bodies once each, as many at once, in the order of the customers; then for a report with a
run of its own. Each trial has a URL of its own, of which nothing is known.

Beside the ratio stands the time from the request for the run to the first POST: the product makes
the run from the usage, and the plain client has its bodies. It is no part of the ratio.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

import aiohttp

from dispatcher.sending.signing import load, signed_headers
from meterline import limits
from meterline.window import MINUTE_MS, parse_instant, rfc3339
from tests.bench.sick_receiver import SUBJECT, SUBJECTS
from tests.journey.client import Server
from tests.journey.deadline import until
from tests.journey.processes import role_process
from tests.services.local import free_port
from tests.unit.dispatcher.conftest import SECRET
from tests.unit.dispatcher.sending.sick_orders import ORDERS

V3: Final = "/api/v3/metering"
SHARES: Final = (0.01, 0.3, 0.7, 0.9)
ANSWERS_MS: Final = (0, 5)
ROUNDS: Final = 3
WANTED: Final = 2
WITHIN_S: Final = 600
FROM: Final = "2026-02-01T00:00:00Z"
# Usage is there soon; sending is as it comes.
PACE: Final = {
    "METERLINE_PRODUCE_DEADLINE_MS": "500",
    "METERLINE_CLOCK_SKEW_MS": "0",
    "METERLINE_GRACE_MS": "500",
    "METERLINE_FLUSH_INTERVAL_MS": "200",
}


def say(words: str) -> None:
    """A line at once."""
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


@contextmanager
def sick_receiver() -> Iterator[Server]:
    """A receiver, and how to ask it."""
    command = [sys.executable, "-m", "tests.bench.sick_receiver"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield Server(f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.communicate()


@contextmanager
def product() -> Iterator[Server]:
    """The product, with usage of each customer in one minute."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {"METERLINE_DATA_DIR": str(Path(folder) / "data"), **PACE}
        process = role_process("up", ["up"], Path(folder) / "up", free_port(), settings)
        try:
            process.start()
            api = Server(process.url)
            fill(api)
            yield api
        finally:
            process.kill()


def fill(api: Server) -> None:
    """A meter and its usage."""
    meter = {"key": "tokens", "name": "Tokens", "event_type": "prompt", "aggregation": "sum"}
    api.made(f"{V3}/meters", {**meter, "value_property": "$.n"})
    events = [
        {
            "specversion": "1.0",
            "id": f"{number}",
            "source": "bench",
            "type": "prompt",
            "subject": SUBJECT % number,
            "time": FROM,
            "data": {"n": number + 1},
        }
        for number in range(SUBJECTS)
    ]
    media = {"Content-Type": "application/cloudevents-batch+json"}

    def taken() -> bool:
        return api.ask("POST", f"{V3}/events", events, media).status == 202

    until("the gateway takes events", WITHIN_S, taken)


def reported(api: Server, slug: str, url: str) -> float:
    """Make a report and ask for its run; when it was asked for, in seconds."""
    report = {
        "slug": slug,
        "meter_id_or_key": "tokens",
        "type": "webhook",
        "schedule": {"interval": "1d", "start_at": FROM},
        "endpoint": {"url": url},
    }
    api.made(f"{V3}/reports", report)
    window = {"from": FROM, "to": rfc3339(parse_instant(FROM) + MINUTE_MS)}
    asked_s = time.monotonic()
    api.made(f"{V3}/reports/{slug}/runs", window)
    return asked_s


def told(receiver: Server, path: str, healthy: int) -> dict[str, float]:
    """What the receiver says of a path when all healthy ones were taken."""

    def done() -> dict[str, float] | None:
        of_path: dict[str, float] | None = receiver.get("/told").json.get(path)
        return of_path if of_path is not None and of_path["taken"] == healthy else None

    return until(f"{healthy} healthy deliveries of {path}", WITHIN_S, done)


def bodies_of(api: Server, slug: str) -> list[bytes]:
    """The bodies of a report's deliveries, in the order of their customers."""
    found: list[bytes] = []
    path, after = f"{V3}/reports/{slug}/pull?page[size]=100", ""
    while after is not None:
        page: Any = api.get(f"{path}&page[after]={after}" if after else path).json
        found += [one["body"].encode() for one in page["data"]]
        after = page["meta"]["page"]["next"]
    assert len(found) == SUBJECTS
    return sorted(found, key=lambda body: str(json.loads(body)["query"]["subject"]))


async def post_plainly(url: str, bodies: list[bytes]) -> None:
    """Each once, signed, as many at once as the product has under way to one URL."""
    left = iter(enumerate(bodies))
    async with aiohttp.ClientSession() as session:

        async def post_all() -> None:
            for number, body in left:
                headers = signed_headers(f"dlv_{number}", [SECRET], body, int(time.time() * 1_000))
                headers["Content-Type"] = "application/json"
                async with session.post(url, data=body, headers=headers) as response:
                    await response.read()

        await asyncio.gather(*(post_all() for _ in range(limits.ENDPOINT_IN_FLIGHT_MAX)))


class Bench:
    """The two of them, and how many trials were."""

    def __init__(self, api: Server, receiver: Server) -> None:
        """Get the bodies; what a first run costs is paid."""
        self._api = api
        self._receiver = receiver
        self._trials = 0
        reported(api, "warm", f"{receiver.url}/0/first/0/warm")
        told(receiver, "/0/first/0/warm", SUBJECTS)
        self._bodies = bodies_of(api, "warm")

    def ratio(self, share: float, order: str, answer_ms: int) -> tuple[float, float, float, float]:
        """Of one round: the ratio, both times, and how long the run was in the making."""
        self._trials += 1
        healthy = SUBJECTS - round(share * SUBJECTS)
        path = f"/{share}/{order}/{answer_ms}/{self._trials}"
        asyncio.run(post_plainly(f"{self._receiver.url}{path}-plain", self._bodies))
        plain = told(self._receiver, f"{path}-plain", healthy)
        asked_s = reported(self._api, f"r{self._trials}", f"{self._receiver.url}{path}")
        ours = told(self._receiver, path, healthy)
        # the retries of its sick ones are no part of the next round
        paused = self._api.ask("POST", f"{V3}/reports/r{self._trials}/pause")
        assert paused.status == 200, paused
        return (
            ours["took_s"] / plain["took_s"],
            ours["took_s"],
            plain["took_s"],
            ours["first_s"] - asked_s,
        )


def main() -> None:
    """Print the table; takes about five minutes."""
    load()  # or the first round pays for it
    worst = 0.0
    with sick_receiver() as receiver, product() as api:
        bench = Bench(api, receiver)
        say(
            f"# last healthy one of {SUBJECTS}, {limits.ENDPOINT_IN_FLIGHT_MAX} at once, median of"
            f" {ROUNDS} rounds: meterline / a plain client"
        )
        for answer_ms in ANSWERS_MS:
            for share in SHARES:
                for order in ORDERS:
                    rounds = [bench.ratio(share, order, answer_ms) for _ in range(ROUNDS)]
                    ratio, ours_s, plain_s, made_s = (
                        median(column) for column in zip(*rounds, strict=True)
                    )
                    worst = max(worst, ratio)
                    say(
                        f"answers in {answer_ms} ms, 500 for {share:4.0%} {order:12}"
                        f" {ours_s:6.2f} s / {plain_s:6.2f} s = {ratio:5.2f}"
                        f"   (the run was made in {made_s:.2f} s)"
                    )
    say(f"worst ratio {worst:.2f} (at most {WANTED})")


if __name__ == "__main__":
    main()
