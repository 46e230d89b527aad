"""The request of a delivery, real or a test: one function, so that a test shows what is sent."""

from dataclasses import dataclass
from typing import Final

from dispatcher.sending.signing import signed_headers
from meterline.delivery import (
    Answer,
    AttemptOutcome,
    SecretBox,
    WebhookSender,
    basic_authorization,
    headers_of,
)
from meterline.ports import TRACEPARENT, TRACESTATE, TraceContext, trace_headers

_OF_TRACES: Final = frozenset({TRACEPARENT, TRACESTATE})


@dataclass(frozen=True, slots=True)
class Sealed:
    """What a report keeps sealed for its deliveries: the secrets that sign, `user:password` of its
    URL, its own headers. And the trace that a request belongs to, if any.
    """

    signing_secrets: tuple[bytes, ...]
    user_info: bytes | None
    headers: bytes | None
    trace: TraceContext | None = None


async def send_signed(
    sender: WebhookSender,
    box: SecretBox,
    endpoint: str,
    delivery_id: str,
    body: bytes,
    sealed: Sealed,
    now_ms: int,
) -> Answer:
    """What came of posting a body, signed as of now. Nothing is sent where something sealed cannot
    be opened or read: that is a fault of ours.
    """
    try:
        headers = _headers(delivery_id, body, sealed, box, now_ms)
    except ValueError as error:
        reason = f"not sent: a secret of the report cannot be decrypted ({error})"
        return Answer(AttemptOutcome.UNREACHED, 0, reason=reason, of_receiver=False)
    return await sender.send(endpoint, body, headers)


def _headers(
    delivery_id: str, body: bytes, sealed: Sealed, box: SecretBox, now_ms: int
) -> dict[str, str]:
    """The headers to send a body with, signed as of now: the report's own, and ours, which prevail.
    The report's `traceparent` and `tracestate` give way together to those of a trace. Raises
    `ValueError` where something sealed cannot be opened or read.
    """
    secrets = [box.open(it) for it in sealed.signing_secrets]
    headers = {
        **({} if sealed.headers is None else headers_of(box.open(sealed.headers))),
        "Content-Type": "application/json",
        **signed_headers(delivery_id, secrets, body, now_ms),
    }
    if sealed.trace is not None:
        headers = {name: it for name, it in headers.items() if name.lower() not in _OF_TRACES}
        headers |= trace_headers(sealed.trace)
    if sealed.user_info is not None:
        headers["Authorization"] = basic_authorization(box.open(sealed.user_info))
    return headers
