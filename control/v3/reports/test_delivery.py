"""Test deliveries of reports, in API v3: one signed message now, and what is wrong in words."""

from typing import Annotated, NotRequired

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict
from ulid import ULID

from control.handlers import OfReports, Operation
from control.openapi.report_message import EXAMPLE
from control.shapes.optional_members import Maybe, present
from control.shapes.run import OutcomeName
from meterline.access import Scope
from meterline.delivery import AttemptOutcome
from meterline.http import json_response
from meterline.http.operation import Answer, Call
from meterline.http.shapes import InstantShown, NoParameters
from meterline.limits import RESPONSE_BYTES_KEPT
from meterline.report import TEST_SUBJECT, TEST_TRIGGER, SentTest
from meterline.window import rfc3339


class TestDeliveryShown(TypedDict):
    """What came of a test delivery."""

    delivery_id: Annotated[
        str, Field(pattern="^test_[0-9a-z]{26}$", description="In `svix-id`; no delivery has it.")
    ]
    delivered: bool
    verdict: Annotated[str, Field(description="What is wrong and what to do about it, in words.")]
    outcome: OutcomeName
    at: InstantShown
    duration_ms: int
    status: NotRequired[Annotated[Maybe[int], Field(description="Of the answer.")]]
    answer: NotRequired[Annotated[Maybe[str], Field(description="The first kilobyte of its body.")]]
    body: Annotated[str, Field(description="The text that was signed and sent.")]


class V3ReportTest(OfReports, tag="Reports"):
    """Handler of test deliveries."""

    @Operation(
        id="test-report",
        route="POST /reports/{reportId}/test",
        summary="Send a test delivery",
        description="Send one signed message to the report's endpoint now, in any state of the "
        "report. The answer says what is wrong. The message has no usage, the subject "
        f"`{TEST_SUBJECT}`, its own id, and the `run.trigger` `{TEST_TRIGGER}`: a receiver must "
        "not book it. It is sent once, not stored, and never parks a report.",
        scope=Scope.REPORTS_WRITE,
        answer=Answer(
            200,
            "What came of it; also where it did not arrive.",
            TestDeliveryShown,
            example={
                "delivery_id": "test_01m7zmf4ya7d2sq292v0w9jpt8",
                "delivered": False,
                "verdict": "TLS failed: certificate has expired. Can the report's URL be "
                "reached from where Meterline runs?",
                "outcome": "unreached",
                "at": "2026-02-01T09:00:00.120Z",
                "duration_ms": 34,
                "body": f'{{"type":"{EXAMPLE["type"]}","usage":[]}}',
            },
        ),
    )
    async def test(self, call: Call[NoParameters, None]) -> web.Response:
        """200 with what came of it; 429 where there were many just now."""
        service = self._service
        report = await self._found(call)
        meter = await service.stores.meter(report.namespace, report.meter_id)
        now_ms = service.now_ms
        await service.tests.record_test(report, now_ms, author=call.author)
        name = f"test_{ULID.from_timestamp(now_ms)}".lower()
        return json_response(_shown(await service.tester.try_out(report, meter, name)))


def _shown(sent_test: SentTest) -> TestDeliveryShown:
    answer = sent_test.answer
    text = answer.body[:RESPONSE_BYTES_KEPT].decode(errors="replace")
    shown: TestDeliveryShown = {
        "delivery_id": sent_test.delivery_id,
        "delivered": answer.outcome is AttemptOutcome.DELIVERED,
        "verdict": sent_test.verdict,
        "outcome": answer.outcome.value,
        "at": rfc3339(sent_test.at_ms),
        "duration_ms": answer.duration_ms,
        "status": answer.status,
        "answer": text or None,
        "body": sent_test.body.decode(),
    }
    return present(shown)
