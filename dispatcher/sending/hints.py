"""What came of a test delivery, in words: what is wrong, and what to do about it (pure)."""

from typing import Final

from meterline.delivery import Answer, AttemptOutcome

_SIGNATURE: Final = (
    "Where it verifies signatures: has it the signing secret of this report, does it verify the raw"
    " bytes before it parses them, and is its clock right to within five minutes?"
)
_CREDENTIALS: Final = (
    f"{_SIGNATURE} Where it asks for a password: put user:password@ into the report's URL."
)
_BY_STATUS: Final = {
    400: _SIGNATURE,
    401: _CREDENTIALS,
    403: _CREDENTIALS,
    404: "Is the path of the report's URL right?",
    405: "Does it take POST at the path of the report's URL?",
    410: "Deliveries that are answered so park every report to this URL.",
    411: "It must take a body with a length.",
    413: "It must take bodies of some megabytes.",
    415: "It must take Content-Type: application/json.",
    429: "It wants fewer requests; deliveries wait as long as its Retry-After says.",
}
_SERVER_ERROR: Final = 500


def verdict(answer: Answer) -> str:
    """One or two sentences for the report's owner."""
    if answer.outcome is AttemptOutcome.DELIVERED:
        return f"It arrived: the receiver answered {answer.status} after {answer.duration_ms} ms."
    told = f"{answer.reason[:1].upper()}{answer.reason[1:]}."
    return f"{told} {_what_to_do(answer)}".strip()


def _what_to_do(answer: Answer) -> str:
    if answer.outcome is AttemptOutcome.FORBIDDEN:
        return (
            "Only public addresses are dialled, and networks that the operator has put into"
            " webhook_networks_allowed."
        )
    if answer.status is None:
        return "Can the report's URL be reached from where Meterline runs?"
    if answer.status >= _SERVER_ERROR:
        return "It failed by itself: look into its own log."
    return _BY_STATUS.get(answer.status, "")
