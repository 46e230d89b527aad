"""Steps that send: claim what is due, sign and post one delivery, record what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dispatcher.fairness import allot
from dispatcher.retry import GiveUp, RetryPolicy, decide
from dispatcher.signing import signed_headers
from meterline import limits
from meterline.endpoint import basic_authorization
from meterline.report_ports import (
    Answer,
    AttemptEnd,
    Parcel,
    ReportStore,
    SecretBox,
    WebhookSender,
)
from meterline.run import Attempt, AttemptOutcome, DeliveryMove


@dataclass(frozen=True, slots=True)
class SendTerms:
    """What sending is bounded by."""

    retry: RetryPolicy = field(default_factory=RetryPolicy)
    in_flight_max: int = limits.DELIVERIES_IN_FLIGHT_MAX
    endpoint_in_flight_max: int = limits.ENDPOINT_IN_FLIGHT_MAX
    lease_ms: int = limits.DELIVERY_LEASE_S * 1_000


@dataclass(frozen=True, slots=True)
class Sent:
    """A parcel that was tried, how that ended, and whether its endpoint is gone (410)."""

    parcel: Parcel
    end: AttemptEnd
    gone: bool = False


async def claim_due(
    reports: ReportStore, terms: SendTerms, in_flight: Mapping[str, int], now_ms: int
) -> list[Parcel]:
    """Claim what may be sent now, within the caps; `in_flight` counts by endpoint. To be sent
    at once: the leases run.
    """
    if sum(in_flight.values()) >= terms.in_flight_max:
        return []
    due = await reports.due(now_ms)
    allotments = allot(due, in_flight, terms.in_flight_max, terms.endpoint_in_flight_max)
    parcels: list[Parcel] = []
    for it in allotments:
        parcels += await reports.claim_deliveries(
            it.report_id, now_ms, now_ms + terms.lease_ms, it.count
        )
    return parcels


async def deliver(
    parcel: Parcel,
    sender: WebhookSender,
    box: SecretBox,
    policy: RetryPolicy,
    now_ms: int,
    draw: float,
) -> Sent:
    """Sign the stored bytes as of now, post them, and judge the answer. Never raises for the
    receiver's doings.
    """
    try:
        headers = _headers(parcel, box, now_ms)
    except ValueError as error:
        reason = f"not sent: a secret of the report cannot be opened ({error})"
        answer = Answer(AttemptOutcome.UNREACHED, 0, reason=reason)
    else:
        answer = await sender.send(parcel.endpoint, parcel.body, headers)
    return judged(parcel, answer, policy, now_ms, draw)


def judged(parcel: Parcel, answer: Answer, policy: RetryPolicy, now_ms: int, draw: float) -> Sent:
    """What an answer makes of an attempt and its delivery."""
    move, next_ms, reason, gone = DeliveryMove.CONFIRM, None, answer.reason, False
    if answer.outcome is not AttemptOutcome.DELIVERED:
        tries = parcel.attempt - parcel.attempts_before
        verdict = decide(policy, tries, answer, now_ms + answer.duration_ms, draw)
        if isinstance(verdict, GiveUp):
            move, gone = DeliveryMove.GIVE_UP, verdict.gone
            reason = "; ".join(part for part in (answer.reason, verdict.reason) if part)
        else:
            move, next_ms = DeliveryMove.RETRY, verdict.at_ms
    attempt = Attempt(
        delivery_id=parcel.delivery_id,
        number=parcel.attempt,
        started_at_ms=now_ms,
        outcome=answer.outcome,
        duration_ms=answer.duration_ms,
        status=answer.status,
        reason=reason,
        answer=answer.body[: limits.RESPONSE_BYTES_KEPT],
        next_attempt_at_ms=next_ms,
    )
    return Sent(parcel, AttemptEnd(attempt, move), gone)


async def record(reports: ReportStore, sent: Sequence[Sent], now_ms: int) -> None:
    """Record attempts together, and park the endpoints that are gone: what they are owed is
    kept.
    """
    await reports.record([it.end for it in sent], now_ms)
    gone = {(it.parcel.namespace, it.parcel.endpoint): it for it in sent if it.gone}
    for (namespace, endpoint), it in gone.items():
        await reports.park_endpoint(namespace, endpoint, it.end.attempt.reason, now_ms)


def _headers(parcel: Parcel, box: SecretBox, now_ms: int) -> dict[str, str]:
    secrets = [box.open(sealed) for sealed in parcel.signing_secrets_sealed]
    headers = {
        "Content-Type": "application/json",
        **signed_headers(parcel.delivery_id, secrets, parcel.body, now_ms),
    }
    if parcel.user_info_sealed is not None:
        headers["Authorization"] = basic_authorization(box.open(parcel.user_info_sealed))
    return headers
