"""1,000,000 distinct values of one group-by key, from one customer, against a product in mode
`keys`: what it takes, what is refused in words, and how another namespace is served meanwhile.

`python -m tests.bench.bench_groups VALUES`. The receiver of the report runs here.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
import psutil

from tests.bench.bench_aggregator import say
from tests.bench.bench_answers import answering
from tests.journey.keyed import BATCH, EVENTS, METERS, SETTINGS, V3, Keyed
from tests.journey.receiver import Mailbox, receiving
from tests.journey.setups import embedded

VALUES: Final = 1_000_000
BATCH_EVENTS: Final = 1_000
SENDERS: Final = 4
OTHER_SUBJECTS: Final = 10  # of the same namespace, that behave
WITHIN_S: Final = 3_600.0
TRIES: Final = 100
WINDOW: Final = {"from": "2026-01-31T00:00:00Z", "to": "2026-02-01T00:00:00Z"}
METER: Final = {
    "key": "calls",
    "name": "Calls",
    "aggregation": "sum",
    "event_type": "call",
    "value_property": "$.value",
    "dimensions": {"trace": "$.trace"},
}
_Answer = tuple[int, Any]


@dataclass(slots=True)
class Guest:
    """Whoever shows one key, and how long the answers took, by what was asked."""

    http: aiohttp.ClientSession
    url: str
    key: str
    statuses: Counter[str] = field(default_factory=Counter)
    longest: dict[str, float] = field(default_factory=dict)

    async def ask(self, method: str, path: str, body: object = None, what: str = "") -> _Answer:
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        if path == EVENTS:
            headers |= BATCH
        data = None if body is None else json.dumps(body).encode()
        begun = time.perf_counter()
        async with self.http.request(method, self.url + path, data=data, headers=headers) as answer:
            text = await answer.text()
        what = what or path
        took = time.perf_counter() - begun
        self.longest[what] = max(self.longest.get(what, 0.0), took)
        self.statuses[f"{what} {answer.status}"] += 1
        return answer.status, json.loads(text) if text[:1] in ("{", "[") else text

    async def is_let_in(self) -> None:
        """A new key is known a moment later."""
        for _ in range(TRIES):
            if (await self.ask("GET", METERS, what="meters"))[0] == 200:
                return
            await asyncio.sleep(0.2)
        raise AssertionError(f"not let in: {self.statuses}")

    async def sent(self, events: list[Mapping[str, object]]) -> None:
        """A batch, again while it is refused for now."""
        for _ in range(TRIES):
            status, _answer = await self.ask("POST", EVENTS, events, "events")
            if status == 202:
                return
            await asyncio.sleep(0.2)
        raise AssertionError(f"not taken: {self.statuses}")

    async def total(self) -> tuple[str, int]:
        """Value and number of events of its meter."""
        status, found = await self.ask("POST", f"{METERS}/calls/query", {}, "query")
        assert status == 200, found
        rows = found["data"]
        return (rows[0]["value"], rows[0]["counted"]) if rows else ("0", 0)


def event(number: int, subject: str, trace: str) -> dict[str, object]:
    return {
        "specversion": "1.0",
        "id": f"{subject}-{number}",
        "source": "groups",
        "type": "call",
        "subject": subject,
        "time": "2026-01-31T09:15:00Z",
        "data": {"value": 1, "trace": trace},
    }


async def flood(guest: Guest, values: int) -> float:
    """One subject with so many values, and others with one; how long it took."""
    numbers = iter(range(0, values, BATCH_EVENTS))

    async def send() -> None:
        for first in numbers:
            some = range(first, min(first + BATCH_EVENTS, values))
            await guest.sent([event(n, "flood", f"trace-{n:09}") for n in some])

    begun = time.perf_counter()
    await guest.sent([event(0, f"other-{n}", "same") for n in range(OTHER_SUBJECTS)])
    await asyncio.gather(*(send() for _ in range(SENDERS)))
    return time.perf_counter() - begun


async def live(guest: Guest, process: psutil.Process, seen: dict[str, int]) -> None:
    """The other namespace goes on: events, queries, its status; until cancelled."""
    number = 0
    while True:
        number += 1
        await guest.sent([event(number, "neighbour", "one")])
        seen["sent"] = number
        await guest.total()
        await guest.ask("GET", "/healthz", what="healthz")
        seen["rss"] = max(seen.get("rss", 0), process.memory_info().rss)
        await asyncio.sleep(0.1)


async def counted(guest: Guest, expected: int) -> float:
    """Seconds until so many events are counted."""
    begun = time.perf_counter()
    while (await guest.total())[1] < expected:
        assert time.perf_counter() - begun < WITHIN_S, "never counted"
        await asyncio.sleep(1)
    return time.perf_counter() - begun


async def refusals(guest: Guest) -> None:
    """What is asked of so many values, and what comes back."""
    by_trace = {"group_by_dimensions": ["subject", "trace"]}
    for what, method, path, body in (
        ("rows by value", "POST", f"{METERS}/calls/query", by_trace),
        ("values, page 1", "GET", f"{METERS}/calls/dimensions/trace/values", None),
    ):
        begun = time.perf_counter()
        status, found = await guest.ask(method, path, body, what)
        took = time.perf_counter() - begun
        rows = found.get("data") if isinstance(found, dict) else found
        told = found.get("detail", "") if isinstance(found, dict) else ""
        size = len(rows) if isinstance(rows, list) else 0
        say(f"  {what}: {status} in {took:.1f} s, {size:,} rows {told}")


async def reported(guest: Guest, mailbox: Mailbox) -> None:
    """A run that is grouped by the key: the flood alone fails."""
    report = {
        "slug": "by-trace",
        "meter_id_or_key": "calls",
        "type": "webhook",
        "schedule": {"interval": "1d", "start_at": "2026-01-01T00:00:00Z"},
        "endpoint": {"url": mailbox.url},
        "query": {"group_by_dimensions": ["trace"]},
    }
    status, made = await guest.ask("POST", f"{V3}/reports", report, "report")
    assert status == 201, made
    _, told = await guest.ask("GET", f"{V3}/reports/by-trace/secret", what="secret")
    mailbox.secret = told["signing_secret"]
    status, run = await guest.ask("POST", f"{V3}/reports/by-trace/runs", WINDOW, "run")
    assert status in (201, 202), run
    begun = time.perf_counter()
    while run["state"] not in ("partly_failed", "failed", "succeeded"):
        assert time.perf_counter() - begun < WITHIN_S, run
        await asyncio.sleep(1)
        _, run = await guest.ask("GET", f"{V3}/reports/by-trace/runs/{run['id']}", what="get run")
    took = time.perf_counter() - begun
    say(f"  report by value: {run['state']} after {took:.1f} s, {run['delivered']} delivered")
    _, page = await guest.ask("GET", f"{V3}/deliveries?filter[state]=failed", what="failed")
    for one in page["data"]:
        say(f"    {one['subject']}: {one['failure']}")


async def trial(keyed: Keyed, values: int, mailbox: Mailbox) -> None:
    """The whole of it."""
    process = answering(keyed.setup)
    timeout = aiohttp.ClientTimeout(total=600)
    async with aiohttp.ClientSession(timeout=timeout) as http:
        guests = []
        for namespace in ("flooded", "other"):
            caller = keyed.created("--name", "bench", "--namespace", namespace)
            guest = Guest(http, keyed.setup.control.url, caller.token.text)
            await guest.is_let_in()
            status, made = await guest.ask("POST", METERS, METER, "meter")
            assert status == 201, made
            guests.append(guest)
        one, other = guests
        before = process.memory_info().rss >> 20
        seen: dict[str, int] = {}
        living = asyncio.create_task(live(other, process, seen))
        sending_s = await flood(one, values)
        counting_s = await counted(one, values + OTHER_SUBJECTS)
        peak = seen["rss"] >> 20
        say(f"{values:,} values sent in {sending_s:.0f} s, all counted {counting_s:.0f} s later;")
        say(f"  memory {before} MB before, {peak} MB at most; {dict(one.statuses)}")
        await refusals(one)
        await reported(one, mailbox)
        living.cancel()
        await asyncio.gather(living, return_exceptions=True)
        await counted(other, seen["sent"])
        longest = {what: f"{took:.2f} s" for what, took in other.longest.items()}
        say(f"  memory at most {seen['rss'] >> 20} MB; the other namespace: {seen['sent']} events,")
        say(f"  all counted; longest answers {longest}; {dict(other.statuses)}")


def main(values: int = VALUES) -> None:
    """In mode `keys`, embedded."""
    with tempfile.TemporaryDirectory() as folder, receiving() as receiver:
        mailbox = receiver.mailbox("groups")
        keyed = Keyed(
            embedded(Path(folder) / "embedded", SETTINGS | {"METERLINE_LOG_LEVEL": "info"})
        )
        try:
            keyed.setup.start()
            asyncio.run(trial(keyed, values, mailbox))
        finally:
            keyed.setup.kill()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
