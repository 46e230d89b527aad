"""Deliveries at even distances: the rule, and the sender that keeps it on a clock that jumps."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dispatcher.sending.attempt import SendTerms
from dispatcher.sending.rate import RateLimit
from dispatcher.sending.sender import DeliverySender
from meterline import limits
from meterline.delivery import Answer, AttemptEnd, AttemptOutcome, ClaimedDelivery, Due, SendGrant
from tests.simulation.couriers import SECRET, Plainly
from tests.simulation.network import Time
from tests.simulation.virtual_loop import VirtualLoop

HERE, THERE = ("default", "x"), ("default", "y")


@given(
    st.floats(0.1, 500),
    st.lists(st.integers(0, 3_000), min_size=1, max_size=60),
)
def test_turns_are_never_nearer_than_the_pace_and_none_waits_for_nothing(
    per_second: float, pauses_ms: list[int]
) -> None:
    pace, now_ms, turns = RateLimit(per_second), 1_000_000, []
    for pause_ms in pauses_ms:
        now_ms += pause_ms
        free = pace.slots([HERE], now_ms)[HERE]
        for _ in range(min(free, 5)):
            wait_ms = pace.take(HERE, now_ms)
            assert 0 <= wait_ms <= limits.RATE_AHEAD_MS
            turns.append(now_ms + wait_ms)
    apart_ms = 1_000 / per_second
    for before, later in pairwise(turns):
        assert later - before >= apart_ms - 1  # rounded to milliseconds
    # within any second no more than the pace, but for the one that begins it
    for start in turns:
        assert sum(start <= turn < start + 1_000 for turn in turns) <= per_second + 2


def test_an_endpoint_does_not_wait_for_another() -> None:
    pace = RateLimit(1)
    assert [pace.take(HERE, 0) for _ in range(3)] == [0, 1_000, 2_000]
    assert pace.take(THERE, 0) == 0
    assert pace.slots([HERE, THERE], 0) == {HERE: 0, THERE: 0}
    assert pace.slots([HERE, THERE], 2_500) == {HERE: 1, THERE: 1}


def test_without_a_pace_nothing_waits() -> None:
    pace = RateLimit()
    assert pace.slots([HERE], 0) == {}
    assert [pace.take(HERE, 0) for _ in range(3)] == [0, 0, 0]


class Owed:
    """Deliveries that are due to one endpoint, and the receiver at its end. `at_ms` is when posts
    came.
    """

    def __init__(self, count: int, time: Time) -> None:
        self.left = [f"d{number}" for number in range(count)]
        self.recorded: list[str] = []
        self.at_ms: list[int] = []
        self.count = count
        self.done = asyncio.Event()
        self._time = time

    async def due(self, _now_ms: int) -> list[Due]:
        return [Due("r", "http://x")] if self.left else []

    async def claim_deliveries(
        self, grants: Sequence[SendGrant], _now_ms: int, _lease_until_ms: int
    ) -> list[ClaimedDelivery]:
        many = sum(one.count for one in grants)
        taken, self.left = self.left[:many], self.left[many:]
        return [
            ClaimedDelivery(
                name, "run", "r", "default", 1, 0, 0, "http://x", (SECRET,), None, b"{}"
            )
            for name in taken
        ]

    async def give_back(self, claimed_deliveries: Sequence[ClaimedDelivery], _now_ms: int) -> None:
        self.left += [claimed.delivery_id for claimed in claimed_deliveries]

    async def record(self, ends: Sequence[AttemptEnd], _now_ms: int, _terms: object) -> None:
        self.recorded += [end.attempt.delivery_id for end in ends]
        if len(self.recorded) == self.count:
            self.done.set()

    async def send(self, _url: str, _body: bytes, _headers: Mapping[str, str]) -> Answer:
        self.at_ms.append(self._time.now_ms())
        await asyncio.sleep(0.005)
        return Answer(AttemptOutcome.DELIVERED, 5, 200)


def sent_at_ms(count: int, per_second: float | None) -> list[int]:
    """When so many deliveries to one endpoint begin, at a pace."""
    loop = VirtualLoop()

    async def work() -> list[int]:
        time = Time(loop)
        owed: Any = Owed(count, time)
        outgoing = DeliverySender(
            owed, owed, Plainly(), time, SendTerms(per_second=per_second), 0.02
        )
        working = asyncio.create_task(outgoing.run())
        await owed.done.wait()
        outgoing.stop()
        await working
        assert len(set(owed.recorded)) == len(owed.recorded) == count
        found: list[int] = owed.at_ms
        return found

    try:
        return loop.run_until_complete(work())
    finally:
        loop.end()


def test_deliveries_to_one_endpoint_keep_the_pace() -> None:
    at_ms = sent_at_ms(100, per_second=40)
    apart_ms = [later - before for before, later in pairwise(at_ms)]
    assert min(apart_ms) >= 1_000 / 40 - 1, "never nearer"
    assert at_ms[-1] - at_ms[0] <= 1_000 * 99 / 40 + 100, "none waits for nothing"


def test_control_without_a_pace_they_come_in_bursts() -> None:
    """The test above must be able to fail."""
    at_ms = sent_at_ms(100, per_second=None)
    assert min(later - before for before, later in pairwise(at_ms)) == 0
    assert at_ms[-1] - at_ms[0] < 1_000
