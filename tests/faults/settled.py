"""Reports over a history that stands still, and what their receiver must have got of them."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from tests.faults.events import SETTLED, SETTLED_MINUTES, SETTLED_MS, SETTLED_SUBJECTS
from tests.journey.client import Server
from tests.journey.receiver import Mailbox, Receiver

RUNS = 3  # of each report, of a minute each
CREATED = 201


@dataclass(frozen=True, slots=True)
class Asked:
    """A report, and the runs that it was asked for by hand."""

    slug: str
    mailbox: Mailbox
    minutes: Sequence[int]
    runs: Sequence[str]


@dataclass(slots=True)
class Rig:
    """Makes reports and asks for their runs; knows what must come of them."""

    api: Server
    receiver: Receiver
    asked: list[Asked] = field(default_factory=list)
    _judged: int = 0  # so many of them had ended, and were as they must be, when looked at last

    def ask(self, reports: int) -> None:
        """New reports, each asked for runs of its own minutes."""
        for _ in range(reports):
            number = len(self.asked)
            slug = f"settled-{number}"
            mailbox = self.receiver.mailbox(slug)
            report = self.api.made("/api/v1/reports", _definition(slug, mailbox.url))
            mailbox.secret = report["endpoint"]["signingSecret"]
            minutes = [(number * RUNS + at) % SETTLED_MINUTES for at in range(RUNS)]
            runs = [self._run(slug, minute) for minute in minutes]
            self.asked.append(Asked(slug, mailbox, minutes, runs))

    def _run(self, slug: str, minute: int) -> str:
        window = {"from": _instant(minute), "to": _instant(minute + 1)}
        made: str = self.api.made(f"/api/v1/reports/{slug}/runs", window)["id"]
        return made

    def unfinished(self) -> list[str]:
        """Runs that have not ended."""
        return [
            run
            for one in self.asked[self._judged :]
            for run in one.runs
            if not self.api.get(f"/api/v1/reports/{one.slug}/runs/{run}").json["endedAt"]
        ]

    def differences(self) -> Iterator[str]:
        """What is wrong with what came, once every run has ended. What came of earlier reports is
        judged again: a late copy must have the same bytes.
        """
        for at, one in enumerate(self.asked):
            yield from _judged(one)
            for run in one.runs if at >= self._judged else ():
                shown = self.api.get(f"/api/v1/reports/{one.slug}/runs/{run}").json
                if (shown["state"], shown["delivered"]) != ("succeeded", SETTLED_SUBJECTS):
                    yield f"{one.slug}: run {run} is {shown['state']}, {shown['delivered']} arrived"
        self._judged = len(self.asked)

    @property
    def deliveries(self) -> int:
        """How many POSTs came."""
        return sum(len(one.mailbox.delivered) for one in self.asked)


def _judged(one: Asked) -> Iterator[str]:
    """Every subject at least once, one body per id, one run per window, no gap in the sequence."""
    bodies: dict[str, set[bytes]] = defaultdict(set)
    for delivered in one.mailbox.delivered:
        bodies[delivered.id].add(delivered.body)
    yield from (f"{one.slug}: {words}" for words in one.mailbox.refused)
    yield from (
        f"{one.slug}: {name} has {len(b)} bodies" for name, b in bodies.items() if len(b) > 1
    )
    told = [json.loads(min(found)) for found in bodies.values()]
    sequence = sorted(body["run"]["sequence"] for body in told)
    if sequence != list(range(1, len(sequence) + 1)):
        yield f"{one.slug}: the sequence is {sequence}"
    by_window: dict[str, list[Any]] = defaultdict(list)
    for body in told:
        by_window[body["query"]["from"]].append(body)
    for minute, run in zip(one.minutes, one.runs, strict=True):
        found = by_window.get(_instant(minute), [])
        if {body["run"]["id"] for body in found} != {run}:
            yield f"{one.slug}: window {minute} was decided as {[b['run']['id'] for b in found]}"
        shown = sorted(
            (body["query"]["subject"], sum(Fraction(e["valueText"]) for e in body["usage"]))
            for body in found
        )
        if shown != _expected(minute):
            yield f"{one.slug}: window {minute} has {shown}, expected {_expected(minute)}"


def _expected(minute: int) -> list[tuple[str, Fraction]]:
    first = minute * SETTLED_SUBJECTS
    events = SETTLED[first : first + SETTLED_SUBJECTS]
    return sorted((one.subject, one.amount or Fraction(0)) for one in events)


def _definition(slug: str, url: str) -> dict[str, object]:
    return {
        "slug": slug,
        "meterIdOrSlug": "settled",
        "type": "webhook",
        "schedule": {"interval": "1d", "startAt": "2026-01-01T00:00:00.000Z"},
        "query": {"groupBy": ["region"]},
        "endpoint": {"url": url},
    }


def _instant(minute: int) -> str:
    moment = datetime.fromtimestamp(SETTLED_MS // 1_000 + minute * 60, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.000Z"
