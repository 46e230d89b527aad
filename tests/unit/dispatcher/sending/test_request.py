"""The headers of a delivery, as they are given to whoever sends it."""

from collections.abc import Mapping

import pytest

from dispatcher.sending.request import Sealed, send_signed
from meterline.backends.secrets import FernetSecretBox
from meterline.delivery import Answer, AttemptOutcome, headers_text
from meterline.ports import TraceContext
from tests.unit.dispatcher.conftest import SECRET

CONTEXT = TraceContext(1, 2, sampled=True, state="a=b")
OWN = {"TraceParent": "the report's", "tracestate": "c=d", "X-Own": "1"}


class Sender:
    """`WebhookSender` that keeps what it is given."""

    def __init__(self) -> None:
        self.headers: Mapping[str, str] = {}

    async def send(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        assert (url, body) == ("https://r.example.com", b"{}")
        self.headers = headers
        return Answer(AttemptOutcome.DELIVERED, 1, 200)

    async def close(self) -> None:
        """Nothing is open."""


async def of_traces(trace: TraceContext | None) -> dict[str, str]:
    box, sender = FernetSecretBox("k" * 32), Sender()
    sealed = Sealed((box.seal(SECRET),), None, box.seal(headers_text(OWN)), trace)
    await send_signed(sender, box, "https://r.example.com", "d", b"{}", sealed, 1_000)
    assert sender.headers["X-Own"] == "1"
    return {name: it for name, it in sender.headers.items() if name.lower().startswith("trace")}


@pytest.mark.parametrize(
    ("trace", "sent"),
    [
        (CONTEXT, {"traceparent": CONTEXT.traceparent, "tracestate": "a=b"}),
        (TraceContext(1, 2, sampled=True), {"traceparent": CONTEXT.traceparent}),
        (None, {"TraceParent": "the report's", "tracestate": "c=d"}),
    ],
)
async def test_a_trace_takes_the_place_of_the_reports_own_headers_for_one(
    trace: TraceContext | None, sent: dict[str, str]
) -> None:
    assert await of_traces(trace) == sent
