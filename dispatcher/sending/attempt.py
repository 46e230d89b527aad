"""Steps that send: claim what is due, sign and post one delivery, record what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from msgspec import Struct

from dispatcher.sending.fairness import Caps, Load, grant_sends
from dispatcher.sending.rate import RateLimit
from dispatcher.sending.request import Sealed, send_signed
from dispatcher.sending.retry import GiveUp, RetryPolicy, decide, retry_after_ms
from meterline import limits
from meterline.delivery import (
    Answer,
    Attempt,
    AttemptEnd,
    AttemptOutcome,
    ClaimedDelivery,
    DeliveryMove,
    EndpointChange,
    EndpointObservation,
    EndpointSignal,
    HealthTerms,
    SecretBox,
    WebhookSender,
)
from meterline.ports import TraceContext
from meterline.report import ReportStore

_SERVER_FAULT: Final = 5  # first digit of a status
# Said by what stands before a receiver, or of the receiver as a whole: not of one delivery.
_OUT: Final = frozenset({502, 503, 504})


@dataclass(frozen=True, slots=True)
class SendTerms:
    """What sending is bounded by."""

    retry: RetryPolicy = field(default_factory=RetryPolicy)
    caps: Caps = field(default_factory=Caps)
    lease_ms: int = limits.DELIVERY_LEASE_S * 1_000
    per_second: float | None = None  # to one endpoint; None: as fast as the caps let it
    probe_pause_s: float = limits.PROBE_PAUSE_S

    @property
    def health(self) -> HealthTerms:
        """What endpoints are judged by, in keeping with the retries."""
        longest_s = max(self.retry.every_s, *self.retry.delays_s)
        return HealthTerms(
            faults=self.caps.faults,
            places_max=self.caps.endpoint,
            probe_pause_ms=round(self.probe_pause_s * 1_000),
            patience_ms=round(self.retry.patience_s * 1_000),
            silence_ms=round(2_000 * longest_s),
        )


class Sent(Struct, frozen=True, gc=False):
    """A claimed delivery that was tried, how that ended, and whether its endpoint is gone (410)."""

    claimed: ClaimedDelivery
    end: AttemptEnd
    gone: bool = False


async def claim_due(
    reports: ReportStore,
    terms: SendTerms,
    load: Load,
    now_ms: int,
    rate_limit: RateLimit | None = None,
) -> list[ClaimedDelivery]:
    """Claim what may be sent now or soon, within the caps, the pace and what may be claimed ahead,
    of so many reports at once as the memory has room for. Raises `Unavailable`.
    """
    full = load.under_way >= terms.caps.total and not load.ahead_free
    if full or load.bytes >= limits.CLAIMED_BYTES_MAX:
        return []
    due = await reports.due(now_ms)
    slots = {} if rate_limit is None else rate_limit.slots({it.address for it in due}, now_ms)
    granted = grant_sends(due, load, terms.caps, now_ms, slots)[: limits.REPORTS_CLAIMED_MAX]
    if not granted:
        return []
    return await reports.claim_deliveries(granted, now_ms, now_ms + terms.lease_ms)


async def deliver(
    claimed: ClaimedDelivery,
    sender: WebhookSender,
    box: SecretBox,
    policy: RetryPolicy,
    now_ms: int,
    draw: float,
    trace: TraceContext | None = None,
) -> Sent:
    """Sign the stored bytes as of now, post them, and judge the answer. Never raises for the
    receiver's doings. `trace` goes along in the headers.
    """
    secrets = claimed.signing_secrets_sealed
    sealed = Sealed(secrets, claimed.user_info_sealed, claimed.headers_sealed, trace)
    answer = await send_signed(
        sender, box, claimed.endpoint, claimed.delivery_id, claimed.body, sealed, now_ms
    )
    return judged(claimed, answer, policy, now_ms, draw)


def failed(
    claimed: ClaimedDelivery, error: Exception, policy: RetryPolicy, now_ms: int, draw: float
) -> Sent:
    """What a fault of ours makes of an attempt: it is tried again, though not for ever."""
    reason = f"not sent: error in the dispatcher ({type(error).__name__}); see its log"
    answer = Answer(AttemptOutcome.UNREACHED, 0, reason=reason, of_receiver=False)
    return judged(claimed, answer, policy, now_ms, draw)


def judged(
    claimed: ClaimedDelivery, answer: Answer, policy: RetryPolicy, now_ms: int, draw: float
) -> Sent:
    """What an answer makes of an attempt and its delivery."""
    move, next_ms, reason, gone = DeliveryMove.CONFIRM, None, answer.reason, False
    if answer.outcome is not AttemptOutcome.DELIVERED:
        tries = claimed.attempt - claimed.attempts_before
        since_ms, ended_ms = claimed.patient_since_ms, now_ms + answer.duration_ms
        verdict = decide(policy, tries, since_ms, answer, ended_ms, draw)
        if isinstance(verdict, GiveUp):
            move, gone = DeliveryMove.GIVE_UP, verdict.gone
            reason = "; ".join(part for part in (answer.reason, verdict.reason) if part)
        else:
            move, next_ms = DeliveryMove.RETRY, verdict.at_ms
    attempt = Attempt(
        delivery_id=claimed.delivery_id,
        number=claimed.attempt,
        started_at_ms=now_ms,
        outcome=answer.outcome,
        duration_ms=answer.duration_ms,
        status=answer.status,
        reason=reason,
        answer=answer.body[: limits.RESPONSE_BYTES_KEPT],
        next_attempt_at_ms=next_ms,
    )
    return Sent(claimed, AttemptEnd(attempt, move, observed(claimed, answer, policy, now_ms)), gone)


def observed(
    claimed: ClaimedDelivery, answer: Answer, policy: RetryPolicy, now_ms: int
) -> EndpointObservation | None:
    """What an answer says of its endpoint; None where the fault is not the receiver's."""
    if not answer.of_receiver:
        return None
    ended_ms = now_ms + answer.duration_ms
    asked_ms = min(retry_after_ms(answer.retry_after, ended_ms), 1_000 * policy.retry_after_max_s)
    return EndpointObservation(
        namespace=claimed.namespace,
        endpoint=claimed.endpoint,
        signal=_signal(answer, asked_ms),
        started_at_ms=now_ms,
        at_ms=ended_ms,
        reason=answer.reason,
        retry_after_ms=round(asked_ms),
        first=claimed.attempt == claimed.attempts_before + 1,
        probe=claimed.probe,
    )


def _signal(answer: Answer, asked_ms: float) -> EndpointSignal:
    """What the end of an attempt is about (the table in `meterline.delivery.endpoint.health`)."""
    if answer.outcome is AttemptOutcome.DELIVERED:
        return EndpointSignal.TAKEN
    status = answer.status or 0
    if status == HTTPStatus.TOO_MANY_REQUESTS or asked_ms:
        return EndpointSignal.THROTTLED
    if answer.outcome is AttemptOutcome.UNREACHED or status in _OUT:
        return EndpointSignal.OUT
    return EndpointSignal.FAULT if status // 100 == _SERVER_FAULT else EndpointSignal.ANSWERED


async def record(
    reports: ReportStore, sent: Sequence[Sent], now_ms: int, terms: HealthTerms | None = None
) -> list[EndpointChange]:
    """Record attempts together, and park the endpoints that are gone: what they are owed is
    kept. Returns the endpoints that went down by this, or are up again.
    """
    changes = await reports.record([it.end for it in sent], now_ms, terms)
    gone = {(it.claimed.namespace, it.claimed.endpoint): it for it in sent if it.gone}
    for (namespace, endpoint), it in gone.items():
        await reports.park_endpoint(namespace, endpoint, it.end.attempt.reason, now_ms)
    return changes
