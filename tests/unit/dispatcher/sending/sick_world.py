"""The rig of a dispatcher, a receiver that is a function, and a clock that jumps: the real steps
over a real store, so that an hour takes seconds.
"""

import heapq
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from dispatcher.sending.attempt import SendTerms, claim_due, judged
from dispatcher.sending.fairness import Load
from meterline import limits
from meterline.delivery import Address, Answer, AttemptOutcome, ClaimedDelivery, EndpointSignal
from meterline.report import Run
from tests.unit.dispatcher.conftest import Rig
from tests.unit.dispatcher.sending.steps import NOW_MS, made

TOOK_MS: Final = 5
HOUR_MS: Final = 3_600_000
OK: Final = Answer(AttemptOutcome.DELIVERED, TOOK_MS, 200)
FAULT: Final = Answer(AttemptOutcome.REFUSED, TOOK_MS, 500, "answered 500")
BUSY: Final = Answer(AttemptOutcome.REFUSED, TOOK_MS, 429, "answered 429")
AWAY: Final = Answer(AttemptOutcome.REFUSED, TOOK_MS, 503, "answered 503")
UNREACHED: Final = Answer(AttemptOutcome.UNREACHED, TOOK_MS, None, "no connection")
Receiver = Callable[[int, int, int], Answer]  # subject's number, instant, attempt


@dataclass(slots=True)
class Lane:
    """What one dispatcher has in hand; as `dispatcher.sending.sender` without sockets."""

    under_way: list[tuple[int, int, ClaimedDelivery, int]] = field(default_factory=list)
    answered: set[Address] = field(default_factory=set)

    def load(self) -> Load:
        claimed = Counter(claimed.address for _, _, claimed, _ in self.under_way)
        return Load(claimed=claimed, under_way=len(self.under_way), proven=self.answered)


@dataclass(slots=True)
class Told:
    """What came of it: when each subject was taken, and all attempts."""

    taken_at_ms: dict[int, int] = field(default_factory=dict)
    attempts: list[tuple[int, int]] = field(default_factory=list)  # instant, subject
    at_once_max: int = 0
    ramp: list[tuple[int, int, int]] = field(default_factory=list)  # instant, taken, at once


def number_of(claimed: ClaimedDelivery) -> int:
    _, _, rest = claimed.body.partition(b'"subject":"customer ')
    return int(rest[:5])


@dataclass(slots=True)
class SentTest:
    """A rig, a receiver, dispatchers, and a clock that jumps to what happens next."""

    rig: Rig
    terms: SendTerms
    receiver: Receiver
    lanes: list[Lane] = field(default_factory=lambda: [Lane()])
    told: Told = field(default_factory=Told)
    draws: Iterator[float] = field(default_factory=lambda: _draws(7))
    _count: int = 0

    async def run(self, until_ms: int, done: Callable[[Told], bool]) -> Told:
        now_ms = NOW_MS
        while now_ms <= until_ms and not done(self.told):
            for lane in self.lanes:
                await self._end(lane, now_ms)
            for lane in self.lanes:
                await self._claim(lane, now_ms)
            ends = [lane.under_way[0][0] for lane in self.lanes if lane.under_way]
            # a dispatcher looks again every second, as with `idle_s`
            now_ms = min([*ends, now_ms + 1_000])
        return self.told

    async def _claim(self, lane: Lane, now_ms: int) -> None:
        for claimed in await claim_due(self.rig.reports, self.terms, lane.load(), now_ms):
            number = number_of(claimed)
            answer = self.receiver(number, now_ms, claimed.attempt)
            self._count += 1
            self.told.attempts.append((now_ms, number))
            end_ms = now_ms + answer.duration_ms
            heapq.heappush(lane.under_way, (end_ms, self._count, claimed, now_ms))
        at_once = sum(len(lane.under_way) for lane in self.lanes)
        self.told.at_once_max = max(self.told.at_once_max, at_once)
        self.told.ramp.append((now_ms, len(self.told.taken_at_ms), at_once))

    async def _end(self, lane: Lane, now_ms: int) -> None:
        ended = []
        while lane.under_way and lane.under_way[0][0] <= now_ms:
            end_ms, _, claimed, began_ms = heapq.heappop(lane.under_way)
            answer = self.receiver(number_of(claimed), began_ms, claimed.attempt)
            sent = judged(claimed, answer, self.terms.retry, began_ms, next(self.draws))
            ended.append(sent.end)
            if answer.outcome is AttemptOutcome.DELIVERED:
                self.told.taken_at_ms.setdefault(number_of(claimed), end_ms)
            if sent.end.observed is not None and sent.end.observed.signal not in (
                EndpointSignal.OUT,
                EndpointSignal.THROTTLED,
            ):
                lane.answered.add(claimed.address)
        if ended:
            await self.rig.reports.record(ended, now_ms, self.terms.health)


def _draws(seed: int) -> Iterator[float]:
    dice = random.Random(seed)
    while True:
        yield dice.random()


def sick_with(sick: Collection[int], answer: Answer) -> Receiver:
    return lambda number, _at, _attempt: answer if number in sick else OK


async def sent_test(rig: Rig, receiver: Receiver, count: int, lanes: int = 1) -> SentTest:
    rig.send_terms = SendTerms()
    report = await rig.report("http://127.0.0.1:9/hook")
    run: Run = await made(rig, report, [f"customer {number:05}" for number in range(count)])
    await rig.reports.plan(report, [], NOW_MS + 30 * 24 * HOUR_MS)
    assert run.manifest is not None
    assert run.manifest.deliveries == count
    return SentTest(rig, rig.send_terms, receiver, [Lane() for _ in range(lanes)])


def plain_ms(count: int) -> int:
    """How long a plain client with the same concurrency takes for so many, each tried once."""
    return -(-count // limits.ENDPOINT_IN_FLIGHT_MAX) * TOOK_MS
