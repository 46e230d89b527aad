"""Receivers that fail for some deliveries: nobody waits for another. The real steps over a real
store; time is an argument, so an hour takes seconds.
"""

import heapq
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest

from dispatcher.courier import SendTerms, claim_due, judged
from dispatcher.fairness import Caps, Load
from meterline import limits
from meterline.endpoint_health import HealthTerms, Sign
from meterline.run import AttemptOutcome, Run
from meterline.sending import Address, Answer, Parcel
from tests.unit.dispatcher.conftest import Desk
from tests.unit.dispatcher.sending import NOW_MS, made

SUBJECTS = 1_000
TOOK_MS = 5
HOUR_MS = 3_600_000
OK = Answer(AttemptOutcome.DELIVERED, TOOK_MS, 200)
FAULT = Answer(AttemptOutcome.REFUSED, TOOK_MS, 500, "answered 500")
BUSY = Answer(AttemptOutcome.REFUSED, TOOK_MS, 429, "answered 429")
AWAY = Answer(AttemptOutcome.REFUSED, TOOK_MS, 503, "answered 503")
UNREACHED = Answer(AttemptOutcome.UNREACHED, TOOK_MS, None, "no connection")
Receiver = Callable[[int, int, int], Answer]  # subject's number, instant, attempt


@dataclass(slots=True)
class Lane:
    """What one dispatcher has in hand; the loop of `dispatcher.outgoing` without its sockets."""

    under_way: list[tuple[int, int, Parcel, int]] = field(default_factory=list)
    answered: set[Address] = field(default_factory=set)

    def load(self) -> Load:
        claimed = Counter(parcel.address for _, _, parcel, _ in self.under_way)
        return Load(claimed=claimed, under_way=len(self.under_way), proven=self.answered)


@dataclass(slots=True)
class Told:
    """What came of it: when each subject was taken, and all attempts."""

    taken_at_ms: dict[int, int] = field(default_factory=dict)
    attempts: list[tuple[int, int]] = field(default_factory=list)  # instant, subject
    at_once_max: int = 0


def number_of(parcel: Parcel) -> int:
    _, _, rest = parcel.body.partition(b'"subject":"customer ')
    return int(rest[:5])


@dataclass(slots=True)
class Trial:
    """A desk, a receiver, dispatchers, and a clock that jumps to what happens next."""

    desk: Desk
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
        for parcel in await claim_due(self.desk.reports, self.terms, lane.load(), now_ms):
            number = number_of(parcel)
            answer = self.receiver(number, now_ms, parcel.attempt)
            self._count += 1
            self.told.attempts.append((now_ms, number))
            end_ms = now_ms + answer.duration_ms
            heapq.heappush(lane.under_way, (end_ms, self._count, parcel, now_ms))
        at_once = sum(len(lane.under_way) for lane in self.lanes)
        self.told.at_once_max = max(self.told.at_once_max, at_once)

    async def _end(self, lane: Lane, now_ms: int) -> None:
        ended = []
        while lane.under_way and lane.under_way[0][0] <= now_ms:
            end_ms, _, parcel, began_ms = heapq.heappop(lane.under_way)
            answer = self.receiver(number_of(parcel), began_ms, parcel.attempt)
            sent = judged(parcel, answer, self.terms.retry, began_ms, next(self.draws))
            ended.append(sent.end)
            if answer.outcome is AttemptOutcome.DELIVERED:
                self.told.taken_at_ms.setdefault(number_of(parcel), end_ms)
            if sent.end.heard is not None and sent.end.heard.sign not in (Sign.OUT, Sign.THROTTLED):
                lane.answered.add(parcel.address)
        if ended:
            await self.desk.reports.record(ended, now_ms, self.terms.health)


def _draws(seed: int) -> Iterator[float]:
    dice = random.Random(seed)
    while True:
        yield dice.random()


def orders(share: float, count: int) -> dict[str, set[int]]:
    """The sick ones of so many, in each order of subjects that the issue names."""
    sick = round(share * count)
    every = [round(place * count / sick) for place in range(sick)]
    cluster = [place for place in range(count) if (place // 50) % 10 < round(10 * share)]
    return {
        "first": set(range(sick)),
        "last": set(range(count - sick, count)),
        "alternating": set(every),
        "clustered": set(cluster[:sick]) or {0},
    }


def sick_with(sick: set[int], answer: Answer) -> Receiver:
    return lambda number, _at, _attempt: answer if number in sick else OK


async def trial(desk: Desk, receiver: Receiver, count: int, lanes: int = 1) -> Trial:
    desk.send_terms = SendTerms()
    report = await desk.report("http://127.0.0.1:9/hook")
    run: Run = await made(desk, report, [f"customer {number:05}" for number in range(count)])
    await desk.reports.plan(report, [], NOW_MS + 30 * 24 * HOUR_MS)
    assert run.manifest is not None
    assert run.manifest.deliveries == count
    return Trial(desk, desk.send_terms, receiver, [Lane() for _ in range(lanes)])


def plain_ms(count: int) -> int:
    """How long a plain client with the same concurrency takes for so many, each tried once."""
    return -(-count // limits.ENDPOINT_IN_FLIGHT_MAX) * TOOK_MS


@pytest.mark.parametrize("share", [0.01, 0.3, 0.7, 0.9])
@pytest.mark.parametrize("order", ["first", "last", "alternating", "clustered"])
async def test_healthy_customers_do_not_wait_for_sick_ones(
    desk: Desk, share: float, order: str
) -> None:
    sick = orders(share, SUBJECTS)[order]
    healthy = SUBJECTS - len(sick)
    at_work = await trial(desk, sick_with(sick, FAULT), SUBJECTS)
    told = await at_work.run(NOW_MS + HOUR_MS, lambda it: len(it.taken_at_ms) == healthy)
    assert set(told.taken_at_ms) == set(range(SUBJECTS)) - sick
    took_ms = max(told.taken_at_ms.values()) - NOW_MS
    assert took_ms <= 2 * plain_ms(SUBJECTS), took_ms / plain_ms(SUBJECTS)


async def test_control_an_endpoint_that_is_out_after_three_faults_starves_the_healthy(
    desk: Desk,
) -> None:
    """The rule as it was: the test above must be able to fail."""
    sick = orders(0.3, SUBJECTS)["alternating"]
    at_work = await trial(desk, sick_with(sick, FAULT), SUBJECTS)
    at_work.terms = replace(at_work.terms, caps=replace(Caps(), faults=3))
    healthy = SUBJECTS - len(sick)
    told = await at_work.run(
        NOW_MS + 10 * plain_ms(SUBJECTS), lambda it: len(it.taken_at_ms) == healthy
    )
    assert len(told.taken_at_ms) < healthy / 2


@pytest.mark.parametrize("answer", [UNREACHED, AWAY, FAULT], ids=["unreached", "503", "500"])
async def test_an_outage_of_an_hour_costs_few_attempts_and_its_end_is_noticed_soon(
    desk: Desk, answer: Answer
) -> None:
    count, back_ms = 2_000, NOW_MS + HOUR_MS
    at_work = await trial(desk, lambda _n, at_ms, _a: OK if at_ms >= back_ms else answer, count)
    told = await at_work.run(back_ms + 120_000, lambda it: len(it.taken_at_ms) == count)
    assert len(told.taken_at_ms) == count
    assert sum(at_ms < back_ms for at_ms, _ in told.attempts) <= 200
    assert max(told.taken_at_ms.values()) <= back_ms + 60_000
    assert told.at_once_max <= limits.ENDPOINT_IN_FLIGHT_MAX


async def test_each_that_fails_once_is_taken_at_its_retry(desk: Desk) -> None:
    count = 400
    at_work = await trial(desk, lambda _n, _at, attempt: FAULT if attempt == 1 else OK, count)
    told = await at_work.run(NOW_MS + HOUR_MS, lambda it: len(it.taken_at_ms) == count)
    assert len(told.taken_at_ms) == count
    assert len(told.attempts) == 2 * count
    # the first retry is five seconds after the first attempt, give or take a fifth
    assert max(told.taken_at_ms.values()) - NOW_MS <= 60_000


async def test_a_receiver_that_takes_fifty_a_second_gets_them(desk: Desk) -> None:
    count, room = 500, [50.0, float(NOW_MS)]

    def limited(_number: int, at_ms: int, _attempt: int) -> Answer:
        room[0] = min(50.0, room[0] + (at_ms - room[1]) * 0.05)
        room[1] = at_ms
        if room[0] < 1:
            return BUSY
        room[0] -= 1
        return OK

    asked: dict[tuple[int, int], Answer] = {}

    def once(number: int, at_ms: int, attempt: int) -> Answer:
        return asked.setdefault((number, attempt), limited(number, at_ms, attempt))

    at_work = await trial(desk, once, count)
    told = await at_work.run(NOW_MS + HOUR_MS, lambda it: len(it.taken_at_ms) == count)
    assert len(told.taken_at_ms) == count
    assert len(told.attempts) <= 2 * count


@pytest.mark.parametrize("lanes", [2, 3])
async def test_several_dispatchers_share_a_sick_receiver(desk: Desk, lanes: int) -> None:
    sick = orders(0.5, SUBJECTS)["first"]
    at_work = await trial(desk, sick_with(sick, FAULT), SUBJECTS, lanes)
    healthy = SUBJECTS - len(sick)
    told = await at_work.run(NOW_MS + HOUR_MS, lambda it: len(it.taken_at_ms) == healthy)
    assert max(told.taken_at_ms.values()) - NOW_MS <= 2 * plain_ms(SUBJECTS)
    assert len({number for _, number in told.attempts}) == SUBJECTS


async def test_those_that_time_out_leave_the_others_their_turns(desk: Desk) -> None:
    """503 for a third: what is said of the endpoint is soon known to be said of some only."""
    count = 300
    sick = {number for number in range(count) if number % 3 == 0}
    at_work = await trial(desk, sick_with(sick, AWAY), count)
    healthy = count - len(sick)
    told = await at_work.run(NOW_MS + HOUR_MS, lambda it: len(it.taken_at_ms) == healthy)
    assert len(told.taken_at_ms) == healthy
    assert max(told.taken_at_ms.values()) - NOW_MS <= 30_000


def test_the_terms_are_those_of_the_product() -> None:
    assert SendTerms().health == HealthTerms(silence_ms=SendTerms().health.silence_ms)
