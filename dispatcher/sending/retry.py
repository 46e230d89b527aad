"""When a delivery is retried, and when it is given up. Time and random values are arguments."""

from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

from meterline.delivery import Answer
from meterline.limits import (
    RETRY_AFTER_MAX_S,
    RETRY_DELAYS_S,
    RETRY_EVERY_S,
    RETRY_JITTER,
    RETRY_PATIENCE_S,
)

_GONE = 410


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Delays before each of the first attempts, the very first included. These are made in any
    case; more follow at even distances, until the patience with the delivery ends.
    """

    delays_s: tuple[float, ...] = RETRY_DELAYS_S
    every_s: float = RETRY_EVERY_S
    patience_s: float = RETRY_PATIENCE_S  # 0: no attempts but those of `delays_s`
    jitter: float = RETRY_JITTER  # of the delay, both ways
    retry_after_max_s: float = RETRY_AFTER_MAX_S


@dataclass(frozen=True, slots=True)
class RetryAt:
    """Try again at this instant, not before."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """No further attempt. `gone`: the receiver said that nobody will ever be there (410)."""

    reason: str
    gone: bool = False


def decide(
    policy: RetryPolicy, attempt: int, since_ms: int, answer: Answer, now_ms: int, draw: float
) -> RetryAt | GiveUp:
    """What follows the failure of attempt number `attempt` (from 1) of a delivery that was made,
    or last replayed, at `since_ms`; `draw` is uniform in [0, 1).

    A `Retry-After` is honoured in full up to the cap of the policy: it moves an attempt further
    away, never nearer. What is asked for above the cap is the cap: a little later is no later.
    """
    if answer.status == _GONE:
        return GiveUp(
            "the receiver answered 410 (gone): its reports are parked until resumed", gone=True
        )
    listed = attempt < len(policy.delays_s)
    delay_s = policy.delays_s[attempt] if listed else policy.every_s
    delay_ms = 1_000 * delay_s * (1 + policy.jitter * (2 * draw - 1))
    cap_ms = 1_000 * policy.retry_after_max_s
    # later than asked for, so that a thousand deliveries do not come back in one moment
    later = 1 + policy.jitter * draw
    asked_ms = min(retry_after_ms(answer.retry_after, now_ms) * later, cap_ms)
    at_ms = now_ms + round(max(delay_ms, asked_ms))
    if not listed and at_ms > since_ms + 1_000 * policy.patience_s:
        return GiveUp(f"given up after {attempt} attempts")
    return RetryAt(at_ms)


def retry_after_ms(header: str | None, now_ms: int) -> int:
    """Milliseconds that a `Retry-After` header asks for (RFC 9110 section 10.2.3); 0 where it
    says nothing.
    """
    if header is None:
        return 0
    text = header.strip()
    if text.isascii() and text.isdigit():
        return int(text[:9]) * 1_000
    try:
        moment = parsedate_to_datetime(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        asked_ms = round(moment.timestamp() * 1_000)
    except (ValueError, OverflowError, TypeError):  # the last two: absurd numbers
        return 0
    return max(0, asked_ms - now_ms)
