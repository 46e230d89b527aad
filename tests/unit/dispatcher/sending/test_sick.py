"""Receivers that fail for some deliveries, or for some time: nobody waits for another."""

import os
import sys
from dataclasses import replace

import pytest
from msgspec import structs

from dispatcher.sending.attempt import SendTerms
from dispatcher.sending.fairness import Caps
from meterline import limits
from meterline.delivery import Answer, HealthTerms
from tests.unit.dispatcher.conftest import Rig
from tests.unit.dispatcher.sending.sick_orders import ORDERS, sick_ones
from tests.unit.dispatcher.sending.sick_world import (
    AWAY,
    BUSY,
    FAULT,
    HOUR_MS,
    OK,
    TOOK_MS,
    UNREACHED,
    plain_ms,
    sent_test,
    sick_with,
)
from tests.unit.dispatcher.sending.steps import NOW_MS

pytestmark = pytest.mark.standard  # hours of simulated deliveries

SUBJECTS = 1_000
DELIVERIES = int(os.environ.get("METERLINE_TEST_DELIVERIES", "2000"))  # owed in an outage


@pytest.mark.parametrize("share", [0.01, 0.3, 0.7, 0.9])
@pytest.mark.parametrize("order", ORDERS)
async def test_healthy_customers_do_not_wait_for_sick_ones(
    rig: Rig, share: float, order: str
) -> None:
    sick = sick_ones(share, order, SUBJECTS)
    healthy = SUBJECTS - len(sick)
    at_work = await sent_test(rig, sick_with(sick, FAULT), SUBJECTS)
    told = await at_work.run(NOW_MS + HOUR_MS, lambda it: len(it.taken_at_ms) == healthy)
    assert set(told.taken_at_ms) == set(range(SUBJECTS)) - sick
    took_ms = max(told.taken_at_ms.values()) - NOW_MS
    assert took_ms <= 2 * plain_ms(SUBJECTS), took_ms / plain_ms(SUBJECTS)


async def test_control_an_endpoint_that_is_out_after_three_faults_starves_the_healthy(
    rig: Rig,
) -> None:
    """The rule as it was: the test above must be able to fail."""
    sick = sick_ones(0.7, "alternating", SUBJECTS)
    at_work = await sent_test(rig, sick_with(sick, FAULT), SUBJECTS)
    at_work.terms = replace(at_work.terms, caps=replace(Caps(), faults=3))
    healthy = SUBJECTS - len(sick)
    told = await at_work.run(
        NOW_MS + 10 * plain_ms(SUBJECTS), lambda it: len(it.taken_at_ms) == healthy
    )
    assert len(told.taken_at_ms) < healthy / 2


@pytest.mark.parametrize("answer", [UNREACHED, AWAY, FAULT], ids=["unreached", "503", "500"])
async def test_an_outage_of_an_hour_costs_few_attempts_and_its_end_is_noticed_soon(
    rig: Rig, answer: Answer
) -> None:
    count, back_ms = DELIVERIES, NOW_MS + HOUR_MS
    at_work = await sent_test(rig, lambda _n, at_ms, _a: OK if at_ms >= back_ms else answer, count)
    told = await at_work.run(back_ms + 120_000, lambda it: len(it.taken_at_ms) == count)
    assert len(told.taken_at_ms) == count
    in_outage = sum(at_ms < back_ms for at_ms, _ in told.attempts)
    assert in_outage <= 200
    assert max(told.taken_at_ms.values()) <= back_ms + 60_000
    assert told.at_once_max <= limits.ENDPOINT_IN_FLIGHT_MAX
    # one probe; after the first answer two places, and one more with each further answer
    steep = [it for it in told.ramp if it[0] >= back_ms and it[2] > it[1] + 1]
    assert not steep, "more at once than the ramp allows"
    last_s = (max(told.taken_at_ms.values()) - back_ms) / 1_000
    sys.stdout.write(
        f"{count} deliveries: {in_outage} attempts in the hour, {last_s:.1f} s after it\n"
    )


async def test_each_that_fails_once_is_taken_at_its_retry(rig: Rig) -> None:
    count = 400
    at_work = await sent_test(rig, lambda _n, _at, attempt: FAULT if attempt == 1 else OK, count)
    told = await at_work.run(NOW_MS + HOUR_MS, lambda it: len(it.taken_at_ms) == count)
    assert len(told.taken_at_ms) == count
    assert len(told.attempts) == 2 * count
    # the first retry is five seconds after the first attempt, give or take a fifth
    assert max(told.taken_at_ms.values()) - NOW_MS <= 60_000


async def test_a_receiver_that_takes_fifty_a_second_gets_them(rig: Rig) -> None:
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

    at_work = await sent_test(rig, once, count)
    told = await at_work.run(NOW_MS + HOUR_MS, lambda it: len(it.taken_at_ms) == count)
    assert len(told.taken_at_ms) == count
    assert len(told.attempts) <= 2 * count


@pytest.mark.parametrize("lanes", [2, 3])
async def test_several_dispatchers_share_a_sick_receiver(rig: Rig, lanes: int) -> None:
    sick = sick_ones(0.5, "first", SUBJECTS)
    at_work = await sent_test(rig, sick_with(sick, FAULT), SUBJECTS, lanes)
    healthy = SUBJECTS - len(sick)
    told = await at_work.run(NOW_MS + HOUR_MS, lambda it: len(it.taken_at_ms) == healthy)
    assert max(told.taken_at_ms.values()) - NOW_MS <= 2 * plain_ms(SUBJECTS)
    assert len({number for _, number in told.attempts}) == SUBJECTS


@pytest.mark.parametrize(("up_s", "down_s"), [(3, 3), (10, 10), (55, 5), (60, 60)])
async def test_a_receiver_that_goes_up_and_down_is_used_while_it_is_up(
    rig: Rig, up_s: int, down_s: int
) -> None:
    """It is down at first. A client that knows when it is up has all of them taken in `at_best`."""
    count, slow = 500, structs.replace(OK, duration_ms=200)
    work_s = plain_ms(count) / TOOK_MS * 0.2
    at_best_s = work_s + down_s * (1 + int(work_s / up_s))

    def flapping(_number: int, at_ms: int, _attempt: int) -> Answer:
        return UNREACHED if (at_ms - NOW_MS) % (1_000 * (up_s + down_s)) < 1_000 * down_s else slow

    at_work = await sent_test(rig, flapping, count)
    told = await at_work.run(NOW_MS + HOUR_MS, lambda it: len(it.taken_at_ms) == count)
    assert len(told.taken_at_ms) == count
    assert (max(told.taken_at_ms.values()) - NOW_MS) / 1_000 <= 2 * at_best_s
    assert len(told.attempts) <= 1.2 * count


async def test_a_slow_receiver_has_as_many_under_way_as_a_plain_client(rig: Rig) -> None:
    count, took_ms = 200, 10_000
    at_work = await sent_test(
        rig, lambda _n, _at, _a: structs.replace(OK, duration_ms=took_ms), count
    )
    told = await at_work.run(NOW_MS + HOUR_MS, lambda it: len(it.taken_at_ms) == count)
    plainly_ms = plain_ms(count) // TOOK_MS * took_ms
    assert max(told.taken_at_ms.values()) - NOW_MS <= 1.5 * plainly_ms
    assert len(told.attempts) == count


async def test_no_answer_in_time_for_a_third_leaves_the_others_their_turns(rig: Rig) -> None:
    """Each holds a place for 15 seconds, at every attempt; a plain client waits for them once."""
    count, timeout_ms = 150, 15_000
    silent = structs.replace(UNREACHED, duration_ms=timeout_ms, reason="no answer in 15 s")
    sick = {number for number in range(count) if number % 3 == 0}
    at_work = await sent_test(rig, sick_with(sick, silent), count)
    healthy = count - len(sick)
    told = await at_work.run(NOW_MS + HOUR_MS, lambda it: len(it.taken_at_ms) == healthy)
    assert len(told.taken_at_ms) == healthy
    plainly_ms = plain_ms(len(sick)) // TOOK_MS * timeout_ms
    assert max(told.taken_at_ms.values()) - NOW_MS <= 5 * plainly_ms


async def test_503_for_a_third_leaves_the_others_their_turns(rig: Rig) -> None:
    """What is said of the endpoint is soon known to be said of some only."""
    count = 300
    sick = {number for number in range(count) if number % 3 == 0}
    at_work = await sent_test(rig, sick_with(sick, AWAY), count)
    healthy = count - len(sick)
    told = await at_work.run(NOW_MS + HOUR_MS, lambda it: len(it.taken_at_ms) == healthy)
    assert len(told.taken_at_ms) == healthy
    assert max(told.taken_at_ms.values()) - NOW_MS <= 30_000


def test_the_terms_are_those_of_the_product() -> None:
    assert SendTerms().health == HealthTerms(silence_ms=SendTerms().health.silence_ms)
