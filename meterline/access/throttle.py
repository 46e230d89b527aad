"""How much a caller may ask for (contract section 8): token buckets, and the headers that tell.

A plan has up to two limits: `requests` of any kind, and `events` taken in. Each caller has a bucket
for each. A bucket holds the quota and fills up by it evenly over the window; so an idle caller may
send the whole quota at once, and a steady one its share of it all the time.

The headers are those of draft-ietf-httpapi-ratelimit-headers-11: `RateLimit-Policy` says what the
limits are, `RateLimit` what is left (`r`) and in how many seconds the whole quota is there again
(`t`). After a refusal `t` is the wait itself: `Retry-After` must not be earlier.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Final

from meterline.access.access import DEFAULT_PLAN, Principal
from meterline.limits import LIMIT_QUOTA_MAX, LIMIT_WINDOW_S_MAX, LIMITED_MAX
from meterline.problem import Problem, ProblemType

HEADER_NAMES: Final = ("RateLimit-Policy", "RateLimit")


class Limited(StrEnum):
    """What is limited; the name of the policy in the headers."""

    REQUESTS = "requests"
    EVENTS = "events"


@dataclass(frozen=True, slots=True)
class Policy:
    """At most `quota` units in a window of `window_s` seconds, on average."""

    name: str
    quota: int
    window_s: int

    def __post_init__(self) -> None:
        assert 1 <= self.quota <= LIMIT_QUOTA_MAX, "settings are judged at start"
        assert 1 <= self.window_s <= LIMIT_WINDOW_S_MAX, "as the quota"

    def shared(self, shares: int) -> "Policy":
        """The part of one of `shares` gateways; at least one unit."""
        return Policy(self.name, max(1, self.quota // shares), self.window_s)


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of asking a bucket for some units.

    `remaining` whole units are left and `reset_s` seconds are to go until it is full. Refused: it
    holds enough after `retry_after_s`; None: it never does, more was asked for than its quota.
    """

    ok: bool
    remaining: int
    reset_s: int
    retry_after_s: int | None = None


class Bucket:
    """The units of one caller under one policy. Full at first.

    Counted in whole numbers of 1 / (1,000 x window_s) of a unit, so nothing is lost by rounding: in
    each millisecond it fills by `quota` of them.
    """

    __slots__ = ("_at_ms", "_level", "_unit", "policy")

    def __init__(self, policy: Policy, now_ms: int) -> None:
        self.policy = policy
        self._unit = 1_000 * policy.window_s
        self._level = policy.quota * self._unit
        self._at_ms = now_ms

    def take(self, cost: int, now_ms: int) -> Taken:
        """Take `cost` units, all or none. A clock that was set back fills nothing."""
        self._fill(now_ms)
        short = cost * self._unit - self._level
        if short <= 0:
            self._level = -short
            return Taken(ok=True, remaining=self._level // self._unit, reset_s=self._reset_s())
        possible = cost <= self.policy.quota
        return Taken(
            ok=False,
            remaining=self._level // self._unit,
            reset_s=self._reset_s(),
            retry_after_s=_ceil(short, 1_000 * self.policy.quota) if possible else None,
        )

    def look(self, now_ms: int) -> Taken:
        """How it stands; takes nothing."""
        return self.take(0, now_ms)

    def _fill(self, now_ms: int) -> None:
        if now_ms > self._at_ms:
            gained = (now_ms - self._at_ms) * self.policy.quota
            self._level = min(self.policy.quota * self._unit, self._level + gained)
            self._at_ms = now_ms

    def _reset_s(self) -> int:
        return _ceil(self.policy.quota * self._unit - self._level, 1_000 * self.policy.quota)


def _ceil(part: int, whole: int) -> int:
    return -(-part // whole)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a caller is told, and the refusal, if it is one."""

    headers: Mapping[str, str]
    problem: Problem | None = None


Plans = Mapping[str, tuple[Policy, ...]]
"""The policies of each plan by its name; at most one for each of `Limited`."""


class Throttle:
    """The buckets of all callers of one process.

    `shares` is the number of processes that share each limit: every one takes its part of it. Of
    more than `limited_max` callers, those idle for longest are forgotten, which fills their
    buckets.
    """

    def __init__(self, plans: Plans, shares: int = 1, limited_max: int = LIMITED_MAX) -> None:
        self._plans = {
            name: tuple(policy.shared(shares) for policy in policies)
            for name, policies in plans.items()
        }
        self._policies = {name: policy_header(policies) for name, policies in self._plans.items()}
        self._strictest = min(self._plans, key=lambda name: _rates(self._plans[name]), default=None)
        self._limited_max = limited_max
        # by caller and plan (a key may be given another one); the longest idle first
        self._buckets: dict[tuple[str, str], tuple[Bucket, ...]] = {}

    def take(
        self, principal: Principal, limited: Limited, cost: int, now_ms: int
    ) -> Decision | None:
        """Take `cost` units of a caller; None where no limit applies to it.

        A cost beyond the whole quota is body-too-large, with words: it would be refused for ever.
        """
        plan = self._plan_of(principal)
        if plan is None or not self._plans[plan]:
            return None
        buckets = self._buckets_of(principal, plan, now_ms)
        states = []
        problem = None
        for bucket in buckets:
            mine = bucket.policy.name == limited
            taken = bucket.take(cost, now_ms) if mine else bucket.look(now_ms)
            if not taken.ok:
                problem = _refusal(plan, bucket.policy, cost, taken)
            states.append((bucket.policy.name, taken))
        headers = {"RateLimit-Policy": self._policies[plan], "RateLimit": state_header(states)}
        return Decision(headers, problem)

    def _plan_of(self, principal: Principal) -> str | None:
        """The plan that applies. In place of one that the settings no longer have it is the default
        one, or else the strictest: a plan that is taken away must not take the limits with it.
        """
        if principal.plan in self._plans:
            return principal.plan
        if DEFAULT_PLAN in self._plans:
            return DEFAULT_PLAN
        return None if principal.plan in (None, DEFAULT_PLAN) else self._strictest

    def _buckets_of(self, principal: Principal, plan: str, now_ms: int) -> tuple[Bucket, ...]:
        caller = (principal.key_id or principal.author, plan)
        found = self._buckets.pop(caller, None)
        if found is None:
            if len(self._buckets) >= self._limited_max:
                del self._buckets[next(iter(self._buckets))]
            found = tuple(Bucket(policy, now_ms) for policy in self._plans[plan])
        self._buckets[caller] = found
        return found


def _rates(policies: tuple[Policy, ...]) -> tuple[float, ...]:
    """Units a second of each kind, requests first: a kind without a limit has no end of them."""
    rates = {policy.name: policy.quota / policy.window_s for policy in policies}
    return tuple(rates.get(kind.value, inf) for kind in Limited)


def policy_header(policies: tuple[Policy, ...]) -> str:
    """The value of `RateLimit-Policy`: a list of names with quota and window in seconds."""
    return ", ".join(f'"{policy.name}";q={policy.quota};w={policy.window_s}' for policy in policies)


def state_header(states: list[tuple[str, Taken]]) -> str:
    """The value of `RateLimit`: a list of names with what remains, and for how many seconds."""
    return ", ".join(
        f'"{name}";r={taken.remaining};t={taken.retry_after_s or taken.reset_s}'
        for name, taken in states
    )


def _refusal(plan: str, policy: Policy, cost: int, taken: Taken) -> Problem:
    allowed = f"plan {plan!r} allows {policy.quota} {policy.name} in {policy.window_s} s"
    if taken.retry_after_s is None:
        detail = f"{cost} {policy.name} in one request, and {allowed}: send fewer at once."
        return Problem(ProblemType.BODY_TOO_LARGE, detail)
    wait_s = taken.retry_after_s
    detail = f"Too many {policy.name}: {allowed}. Try again in {wait_s} s."
    return Problem(ProblemType.RATE_LIMITED, detail, retry_after_s=wait_s)
