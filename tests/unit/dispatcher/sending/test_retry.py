"""Retries: delays with jitter, Retry-After honoured in full up to a cap, an end."""

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.sending.retry import GiveUp, RetryAt, RetryPolicy, decide, retry_after_ms
from meterline.delivery import Answer, AttemptOutcome

NOW = 1_770_000_000_000
POLICY = RetryPolicy((0, 5, 300), patience_s=0)
LONG = RetryPolicy((0, 5), every_s=100, patience_s=1_000)
draws = st.floats(0, 1, exclude_max=True)


def refused(status: int = 500, retry_after: str | None = None) -> Answer:
    return Answer(AttemptOutcome.REFUSED, 10, status, retry_after=retry_after)


@given(st.integers(1, 2), draws)
def test_delays_are_those_of_the_policy_within_the_jitter(attempt: int, draw: float) -> None:
    verdict = decide(POLICY, attempt, NOW, refused(), NOW, draw)
    assert isinstance(verdict, RetryAt)
    delay_ms = POLICY.delays_s[attempt] * 1_000
    assert abs(verdict.at_ms - NOW - delay_ms) <= 0.2 * delay_ms


def test_the_delays_of_the_product_are_seconds() -> None:
    verdict = decide(RetryPolicy(), 2, NOW, refused(), NOW, 0.5)
    assert verdict == RetryAt(NOW + 5 * 60_000)


@given(st.integers(3, 100), draws)
def test_after_the_last_attempt_it_is_given_up(attempt: int, draw: float) -> None:
    verdict = decide(POLICY, attempt, NOW, refused(), NOW, draw)
    assert verdict == GiveUp(f"given up after {attempt} attempts")


@given(st.integers(2, 100), st.integers(0, 2_000), draws)
def test_further_attempts_follow_at_even_distances_and_none_after_the_patience(
    attempt: int, age_s: int, draw: float
) -> None:
    verdict = decide(LONG, attempt, NOW - age_s * 1_000, refused(), NOW, draw)
    if isinstance(verdict, GiveUp):
        assert age_s + 1.2 * LONG.every_s >= LONG.patience_s
        assert verdict.reason == f"given up after {attempt} attempts"
    else:
        assert abs(verdict.at_ms - NOW - LONG.every_s * 1_000) <= 0.2 * LONG.every_s * 1_000
        assert verdict.at_ms <= NOW + (LONG.patience_s - age_s) * 1_000


@given(st.integers(0, 10**6), draws)
def test_the_first_attempts_are_made_however_old_a_delivery_is(age_s: int, draw: float) -> None:
    # it may have waited for its turn, or for its report to be resumed, longer than any patience
    verdict = decide(LONG, 1, NOW - age_s * 1_000, refused(), NOW, draw)
    assert isinstance(verdict, RetryAt)


def test_a_delivery_is_tried_for_a_week() -> None:
    since_ms, now_ms, attempts = NOW, NOW, 1
    while True:
        verdict = decide(RetryPolicy(), attempts, since_ms, refused(), now_ms, 0.5)
        if isinstance(verdict, GiveUp):
            break
        now_ms, attempts = verdict.at_ms, attempts + 1
    assert attempts == 13
    assert 6 <= (now_ms - since_ms) / 86_400_000 <= 7


@given(st.integers(1, 200), draws)
def test_gone_is_gone_at_once(attempt: int, draw: float) -> None:
    verdict = decide(POLICY, attempt, NOW, refused(410), NOW, draw)
    assert isinstance(verdict, GiveUp)
    assert verdict.gone


@given(st.integers(0, 10**12), draws)
def test_retry_after_moves_an_attempt_away_up_to_the_cap_and_never_nearer(
    seconds: int, draw: float
) -> None:
    plain = decide(POLICY, 1, NOW, refused(), NOW, draw)
    asked = decide(POLICY, 1, NOW, refused(429, str(seconds)), NOW, draw)
    assert isinstance(plain, RetryAt)
    assert isinstance(asked, RetryAt)
    assert asked.at_ms >= plain.at_ms
    assert asked.at_ms >= NOW + min(seconds * 1_000, 86_400_000)
    assert asked.at_ms <= NOW + 1.2 * 86_400_000 + 1


@pytest.mark.parametrize(
    ("header", "expected_ms"),
    [
        (None, 0),
        ("120", 120_000),
        (" 7 ", 7_000),
        ("-5", 0),
        ("soon", 0),
        ("", 0),
        ("²", 0),
        ("9" * 400, 999_999_999_000),
        (formatdate(NOW / 1000 + 90, usegmt=True), 90_000),
        (formatdate(NOW / 1000 - 90, usegmt=True), 0),
        ("Wed, 99 Feb 2026 99:00:00 GMT", 0),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", 0),
        ("Mon, 01 Jan 2024 99999999999999999999:00:00 GMT", 0),
        ("Mon, 01 Jan 2024 00:00:00 +999999999999", 0),
    ],
)
def test_both_forms_of_retry_after(header: str | None, expected_ms: int) -> None:
    assert retry_after_ms(header, NOW) == expected_ms
