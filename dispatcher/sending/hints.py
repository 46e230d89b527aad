"""The verdict on a test delivery: what is wrong, and what to do about it (pure)."""

from typing import Final

from meterline.delivery import Answer, AttemptOutcome

_SIGNATURE: Final = (
    "If it verifies signatures, check three things. It needs the signing secret of this report. It"
    " must verify the raw bytes before it parses them. Its clock must be right within five minutes."
)
_CREDENTIALS: Final = (
    f"{_SIGNATURE} If it requires a password, put user:password@ into the report's URL."
)
_BY_STATUS: Final = {
    400: _SIGNATURE,
    401: _CREDENTIALS,
    403: _CREDENTIALS,
    404: "Check the path of the report's URL.",
    405: "The receiver must accept POST at the path of the report's URL.",
    410: "If it answers a delivery with 410, every report to this URL is parked.",
    411: "The receiver must accept a body with Content-Length.",
    413: "The receiver must accept bodies of several megabytes (8 MiB at most).",
    415: "The receiver must accept Content-Type: application/json.",
    429: "It asks for fewer requests. Deliveries wait as long as its Retry-After says.",
}
_SERVER_ERROR: Final = 500


def verdict(answer: Answer) -> str:
    """One or two sentences for the report's owner."""
    if answer.outcome is AttemptOutcome.DELIVERED:
        return f"Delivered: the receiver answered {answer.status} after {answer.duration_ms} ms."
    sentence = f"{answer.reason[:1].upper()}{answer.reason[1:]}."
    return f"{sentence} {_what_to_do(answer)}".strip()


def _what_to_do(answer: Answer) -> str:
    if answer.outcome is AttemptOutcome.FORBIDDEN:
        return (
            "Deliveries only go to public addresses, and to networks in the setting"
            " webhook_networks_allowed."
        )
    if answer.status is None:
        return "Check that the machine of Meterline can reach the report's URL."
    if answer.status >= _SERVER_ERROR:
        return "The receiver failed: read its log."
    return _BY_STATUS.get(answer.status, "")
