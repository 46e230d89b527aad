from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.access import ANONYMOUS, Bucket, Limited, Policy, Principal, Throttle
from meterline.access.throttle import Decision, Taken, policy_header, state_header
from meterline.problem import ProblemType

NOW_MS = 1_700_000_000_000
POLICY = Policy("requests", 60, 60)  # one a second
CALLER = Principal("shop", "key:a", frozenset(), "a", "small")
PLANS = {
    "small": (Policy("requests", 2, 60), Policy("events", 100, 10)),
    "large": (Policy("events", 1_000, 1),),
    "free": (),
}

policies = st.builds(Policy, st.just("x"), st.integers(1, 10**6), st.integers(1, 86_400))
steps = st.lists(st.tuples(st.integers(0, 2_000), st.integers(-5_000, 100_000)), max_size=30)


def test_a_new_bucket_is_full_and_fills_evenly() -> None:
    bucket = Bucket(POLICY, NOW_MS)
    assert bucket.look(NOW_MS) == Taken(ok=True, remaining=60, reset_s=0)
    assert bucket.take(59, NOW_MS) == Taken(ok=True, remaining=1, reset_s=59)
    assert bucket.take(2, NOW_MS) == Taken(ok=False, remaining=1, reset_s=59, retry_after_s=1)
    assert bucket.take(2, NOW_MS + 999) == Taken(ok=False, remaining=1, reset_s=59, retry_after_s=1)
    assert bucket.take(2, NOW_MS + 1_000) == Taken(ok=True, remaining=0, reset_s=60)
    assert bucket.look(NOW_MS + 500_000) == Taken(ok=True, remaining=60, reset_s=0)


def test_a_clock_that_is_set_back_takes_nothing_away_and_gives_nothing() -> None:
    bucket = Bucket(POLICY, NOW_MS)
    bucket.take(60, NOW_MS)
    assert not bucket.take(1, NOW_MS - 3_600_000).ok
    assert not bucket.take(1, NOW_MS + 999).ok
    assert bucket.take(1, NOW_MS + 1_000).ok


def test_more_than_the_whole_quota_is_never_there() -> None:
    taken = Bucket(POLICY, NOW_MS).take(61, NOW_MS)
    assert taken == Taken(ok=False, remaining=60, reset_s=0, retry_after_s=None)


def _played(policy: Policy, moves: list[tuple[int, int]]) -> list[tuple[int, int, Taken]]:
    bucket, now_ms = Bucket(policy, NOW_MS), NOW_MS
    played = []
    for cost, passed_ms in moves:
        now_ms += passed_ms
        played.append((cost, now_ms, bucket.take(cost, now_ms)))
    return played


@given(policies, steps)
def test_never_more_is_taken_than_the_quota_and_what_came_since(
    policy: Policy, moves: list[tuple[int, int]]
) -> None:
    total, latest_ms = 0, NOW_MS
    for cost, now_ms, taken in _played(policy, moves):
        latest_ms = max(latest_ms, now_ms)
        total += cost if taken.ok else 0
        gained = (latest_ms - NOW_MS) * policy.quota / (1_000 * policy.window_s)
        assert total <= policy.quota + gained + 1e-6
        assert 0 <= taken.remaining <= policy.quota
        assert 0 <= taken.reset_s <= policy.window_s


@given(policies, steps)
def test_all_or_nothing_and_refused_only_what_is_not_there(
    policy: Policy, moves: list[tuple[int, int]]
) -> None:
    bucket, now_ms = Bucket(policy, NOW_MS), NOW_MS
    for cost, passed_ms in moves:
        now_ms += passed_ms
        before = bucket.look(now_ms).remaining
        taken = bucket.take(cost, now_ms)
        assert taken.ok == (cost <= before)
        assert taken.remaining == before - (cost if taken.ok else 0)


@given(policies, steps)
def test_after_the_wait_that_was_told_there_is_enough_and_not_much_earlier(
    policy: Policy, moves: list[tuple[int, int]]
) -> None:
    bucket, now_ms = Bucket(policy, NOW_MS), NOW_MS
    for cost, passed_ms in moves:
        now_ms += max(0, passed_ms)
        taken = bucket.take(cost, now_ms)
        if taken.retry_after_s is not None:
            early_ms = now_ms + (taken.retry_after_s - 1) * 1_000
            assert bucket.look(early_ms).remaining < cost
            now_ms += taken.retry_after_s * 1_000
            assert bucket.take(cost, now_ms).ok
        else:
            assert taken.ok or cost > policy.quota


@given(policies, st.integers(1, 10**6))
def test_it_is_full_again_when_it_was_told_so(policy: Policy, cost: int) -> None:
    bucket = Bucket(policy, NOW_MS)
    taken = bucket.take(min(cost, policy.quota), NOW_MS)
    later = bucket.look(NOW_MS + taken.reset_s * 1_000)
    assert (later.remaining, later.reset_s) == (policy.quota, 0)


@given(st.integers(1, 1_000), st.integers(1, 1_000))
def test_the_parts_of_a_limit_are_not_more_than_it(quota: int, shares: int) -> None:
    part = Policy("x", quota, 60).shared(shares)
    assert part.quota >= 1
    assert part.quota * shares <= max(quota, shares)
    assert (part.name, part.window_s) == ("x", 60)


def test_the_headers_are_lists_of_structured_fields() -> None:
    assert policy_header(PLANS["small"]) == '"requests";q=2;w=60, "events";q=100;w=10'
    told = [
        ("requests", Taken(ok=True, remaining=1, reset_s=30)),
        ("events", Taken(ok=False, remaining=7, reset_s=9, retry_after_s=3)),
    ]
    assert state_header(told) == '"requests";r=1;t=30, "events";r=7;t=3'


def _taken(throttle: Throttle, what: Limited, cost: int, who: Principal = CALLER) -> Decision:
    decision = throttle.take(who, what, cost, NOW_MS)
    assert decision is not None
    return decision


def test_both_limits_are_told_with_each_answer() -> None:
    throttle = Throttle(PLANS)
    assert _taken(throttle, Limited.REQUESTS, 1).headers == {
        "RateLimit-Policy": '"requests";q=2;w=60, "events";q=100;w=10',
        "RateLimit": '"requests";r=1;t=30, "events";r=100;t=0',
    }
    decision = _taken(throttle, Limited.EVENTS, 40)
    assert decision.headers["RateLimit"] == '"requests";r=1;t=30, "events";r=60;t=4'
    assert decision.problem is None


def test_too_much_is_refused_with_the_wait_and_takes_nothing() -> None:
    throttle = Throttle(PLANS)
    _taken(throttle, Limited.EVENTS, 40)
    decision = _taken(throttle, Limited.EVENTS, 80)
    assert decision.problem is not None
    assert decision.problem.type is ProblemType.RATE_LIMITED
    assert decision.problem.retry_after_s == 2
    assert "100 events in 10 s" in decision.problem.detail
    assert decision.headers["RateLimit"] == '"requests";r=2;t=0, "events";r=60;t=2'
    assert _taken(throttle, Limited.EVENTS, 60).problem is None


def test_what_can_never_pass_is_not_put_off() -> None:
    problem = _taken(Throttle(PLANS), Limited.EVENTS, 101).problem
    assert problem is not None
    assert problem.type is ProblemType.BODY_TOO_LARGE
    assert problem.retry_after_s is None
    assert "101 events in one request" in problem.detail
    assert "send fewer" in problem.detail


def test_a_limit_that_a_plan_lacks_does_not_apply() -> None:
    throttle = Throttle(PLANS)
    large = replace(CALLER, plan="large")
    assert _taken(throttle, Limited.REQUESTS, 10**9, large).problem is None
    assert _taken(throttle, Limited.EVENTS, 1_001, large).problem is not None


def test_callers_do_not_take_from_each_other_and_a_new_plan_is_a_new_bucket() -> None:
    throttle = Throttle(PLANS)
    _taken(throttle, Limited.EVENTS, 100)
    assert _taken(throttle, Limited.EVENTS, 1).problem is not None
    assert _taken(throttle, Limited.EVENTS, 1, replace(CALLER, key_id="b")).problem is None
    assert _taken(throttle, Limited.EVENTS, 1, replace(CALLER, plan="large")).problem is None


@pytest.mark.parametrize("who", [ANONYMOUS, replace(CALLER, plan=None), replace(CALLER, plan="-")])
def test_the_default_plan_is_for_all_that_name_none(who: Principal) -> None:
    throttle = Throttle({**PLANS, "default": (Policy("requests", 1, 1),)})
    assert _taken(throttle, Limited.REQUESTS, 1, who).problem is None
    assert _taken(throttle, Limited.REQUESTS, 1, who).problem is not None
    if who.plan is None:
        assert Throttle(PLANS).take(who, Limited.REQUESTS, 10**9, NOW_MS) is None


def test_a_plan_that_was_taken_away_does_not_take_the_limits_with_it() -> None:
    """The strictest of those that are left holds: few requests first, then few events."""
    who = replace(CALLER, plan="gone")
    assert _taken(Throttle(PLANS), Limited.REQUESTS, 3, who).problem is not None
    several = {"a": (Policy("requests", 9, 1),), "b": (Policy("requests", 8, 1),), "free": ()}
    assert _taken(Throttle(several), Limited.REQUESTS, 9, who).problem is not None
    assert Throttle({"free": ()}).take(who, Limited.REQUESTS, 10**9, NOW_MS) is None
    assert Throttle({}).take(who, Limited.REQUESTS, 10**9, NOW_MS) is None


def test_a_plan_without_limits_has_nothing_to_tell() -> None:
    who = replace(CALLER, plan="free")
    assert Throttle(PLANS).take(who, Limited.REQUESTS, 10**9, NOW_MS) is None


def test_each_gateway_grants_its_part() -> None:
    throttle = Throttle(PLANS, shares=3)
    assert _taken(throttle, Limited.EVENTS, 33).headers == {
        "RateLimit-Policy": '"requests";q=1;w=60, "events";q=33;w=10',
        "RateLimit": '"requests";r=1;t=0, "events";r=0;t=10',
    }


def test_the_longest_idle_caller_is_forgotten_first() -> None:
    throttle = Throttle(PLANS, limited_max=2)
    callers = [replace(CALLER, key_id=name) for name in "abc"]
    for caller in callers[:2]:
        _taken(throttle, Limited.EVENTS, 100, caller)
    assert _taken(throttle, Limited.EVENTS, 1, callers[0]).problem is not None
    _taken(throttle, Limited.EVENTS, 100, callers[2])
    assert _taken(throttle, Limited.EVENTS, 1, callers[0]).problem is not None
    assert _taken(throttle, Limited.EVENTS, 1, callers[1]).problem is None, "it was forgotten"


def test_a_steady_caller_gets_its_rate() -> None:
    bucket = Bucket(Policy("x", 100, 10), NOW_MS)
    bucket.take(100, NOW_MS)
    passed = [at for at in range(0, 10_001, 50) if bucket.take(1, NOW_MS + at).ok]
    assert len(passed) == 100
    assert {later - earlier for earlier, later in pairwise(passed)} == {100}
