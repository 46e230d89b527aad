"""When a delivery is tried again: a decision from the answer, without clock and without dice of
its own.
"""

from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

from meterline.limits import RETRY_AFTER_MAX_S, RETRY_DELAYS_S, RETRY_JITTER
from meterline.report_ports import Answer

_GONE = 410


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Delays before each attempt, the first included, so their number is that of the attempts."""

    delays_s: tuple[float, ...] = RETRY_DELAYS_S
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
    policy: RetryPolicy, attempt: int, answer: Answer, now_ms: int, draw: float
) -> RetryAt | GiveUp:
    """What follows the failure of attempt number `attempt` (from 1); `draw` is uniform in [0, 1).

    A `Retry-After` is honoured in full up to the cap of the policy: it moves an attempt further
    away, never nearer.
    """
    if answer.status == _GONE:
        return GiveUp(
            "the receiver answered 410: nobody will take deliveries there any more", gone=True
        )
    if attempt >= len(policy.delays_s):
        return GiveUp(f"given up after {attempt} attempts")
    delay_ms = 1_000 * policy.delays_s[attempt] * (1 + policy.jitter * (2 * draw - 1))
    asked_ms = min(retry_after_ms(answer.retry_after, now_ms), 1_000 * policy.retry_after_max_s)
    # later than asked for, so that a thousand deliveries do not come back in one moment
    return RetryAt(now_ms + round(max(delay_ms, asked_ms * (1 + policy.jitter * draw))))


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
