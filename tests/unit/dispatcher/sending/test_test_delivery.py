"""Test deliveries: signed like any other, booked by nobody, judged in words."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from dispatcher.sending.hints import verdict
from dispatcher.sending.test_delivery import DeliveryTester
from meterline.backends.clock import SystemClock
from meterline.delivery import Answer, AttemptOutcome, SealedHeaders
from meterline.report import SentTest
from tests.unit.dispatcher.conftest import START_MS, Mailbox, Rig
from tests.unit.dispatcher.sending.steps import NOW_MS, claimed, made, posted

Start = Callable[[], Awaitable[Mailbox]]
ID = "test_01m7zmf4ya7d2sq292v0w9jpt8"


async def tried(rig: Rig, url: str, user_info: str | None = None) -> SentTest:
    report = await rig.report(url, user_info=user_info)
    tester = DeliveryTester(rig.reports, rig.sender, rig.box, SystemClock())
    return await tester.try_out(report, rig.meter, ID)


async def test_a_test_delivery_is_signed_and_says_no_usage(rig: Rig, mailbox: Start) -> None:
    receiver = await mailbox()
    sent_test = await tried(rig, receiver.url, "me:hidden")
    (post,) = receiver.posts  # it was verified
    assert (post.id, post.body) == (ID, sent_test.body)
    assert post.headers["authorization"] == "Basic bWU6aGlkZGVu"
    members = post.members
    assert (members["type"], members["usage"]) == ("report.meter", [])
    assert members["query"]["subject"] == "meterline-test"  # type: ignore[index]
    assert members["run"]["id"] == ID  # type: ignore[index]
    assert members["run"]["trigger"] == "test"  # type: ignore[index]
    assert sent_test.answer.outcome is AttemptOutcome.DELIVERED
    assert sent_test.verdict.startswith("Delivered: the receiver answered 200 after ")
    assert await rig.reports.due(START_MS * 2) == []


async def test_a_test_delivery_has_the_headers_of_a_delivery(rig: Rig, mailbox: Start) -> None:
    receiver = await mailbox()
    own = {"Authorization": "Bearer t", "X-Tenant": "acme", "content-TYPE": "text/plain"}
    report = await rig.report(receiver.url, headers=own)
    await DeliveryTester(rig.reports, rig.sender, rig.box, SystemClock()).try_out(
        report, rig.meter, ID
    )
    await made(rig, report, ["acme"])
    claimed_deliveries = await claimed(rig, NOW_MS)
    await posted(rig, claimed_deliveries, NOW_MS, recorded=True)
    tested, delivered = (
        {
            name: value
            for name, value in post.headers.items()
            if not name.startswith(("svix-", "webhook-")) and name != "content-length"
        }
        for post in receiver.posts
    )
    assert tested == delivered
    assert (tested["authorization"], tested["x-tenant"]) == ("Bearer t", "acme")


async def test_headers_that_cannot_be_read_are_told(rig: Rig, mailbox: Start) -> None:
    receiver = await mailbox()
    report = await rig.report(receiver.url)
    broken = replace(report, headers=SealedHeaders(("X-A",), rig.box.seal("[1]")))
    tester = DeliveryTester(rig.reports, rig.sender, rig.box, SystemClock())
    sent_test = await tester.try_out(broken, rig.meter, ID)
    assert sent_test.verdict.startswith("Not sent: a secret of the report cannot be decrypted")
    assert receiver.posts == []


async def test_a_rotated_secret_signs_as_well(rig: Rig, mailbox: Start) -> None:
    receiver = await mailbox()
    report = await rig.report(receiver.url)
    now_ms = SystemClock().now_ms()
    await rig.reports.rotate_secret(report.id, rig.box.seal("whsec_" + "eA" * 16), 10**6, now_ms)
    found = await rig.reports.report("default", report.id)
    assert found is not None
    tester = DeliveryTester(rig.reports, rig.sender, rig.box, SystemClock())
    sent_test = await tester.try_out(found, rig.meter, ID)
    assert sent_test.answer.status == 200  # the receiver knows the one from before
    closed = replace(found, signing_secret_sealed=b"sealed under another key")
    assert "cannot be decrypted" in (await tester.try_out(closed, rig.meter, ID)).verdict


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "It needs the signing secret of this report"),
        (401, "put user:password@ into the report's URL"),
        (302, "redirects are not followed"),
        (404, "Check the path of the report's URL."),
        (410, "every report to this URL is parked"),
        (500, "read its log"),
        (418, "The receiver answered 418; expected 2xx."),
    ],
)
async def test_a_refusal_is_explained(rig: Rig, mailbox: Start, status: int, said: str) -> None:
    receiver = await mailbox()
    receiver.answers = [status]
    sent_test = await tried(rig, receiver.url)
    assert sent_test.answer.status == status
    assert said in sent_test.verdict


async def test_no_connection_is_explained(rig: Rig) -> None:
    sent_test = await tried(rig, "http://127.0.0.1:9/hook")
    assert sent_test.answer.outcome is AttemptOutcome.UNREACHED
    assert sent_test.verdict == (
        "No connection: Connection refused. Check that the machine of Meterline can reach the"
        " report's URL."
    )
    sent_test = await tried_elsewhere(rig, "http://10.0.0.1/hook")
    assert sent_test.answer.outcome is AttemptOutcome.FORBIDDEN
    assert "webhook_networks_allowed" in sent_test.verdict


async def tried_elsewhere(rig: Rig, url: str) -> SentTest:
    report = await rig.report(url, "elsewhere")
    tester = DeliveryTester(rig.reports, rig.sender, rig.box, SystemClock())
    return await tester.try_out(report, rig.meter, ID)


@pytest.mark.parametrize(
    "reason",
    [
        "the host name does not resolve",
        "TLS failed: certificate has expired",
        "no whole answer within 15 s",
    ],
)
def test_what_never_answered_is_named(reason: str) -> None:
    words = verdict(Answer(AttemptOutcome.UNREACHED, 5, reason=reason))
    assert words.lower().startswith(f"{reason.lower()}. check that the machine")
