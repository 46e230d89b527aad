"""Test deliveries: signed like any other, booked by nobody, judged in words."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from dispatcher.sending.hints import verdict
from dispatcher.sending.test_delivery import Trials
from meterline.backends.clock import SystemClock
from meterline.delivery import Answer, AttemptOutcome, SealedHeaders
from meterline.report import Trial
from tests.unit.dispatcher.conftest import START_MS, Desk, Mailbox
from tests.unit.dispatcher.sending.steps import NOW_MS, claimed, made, posted

Start = Callable[[], Awaitable[Mailbox]]
ID = "test_01m7zmf4ya7d2sq292v0w9jpt8"


async def tried(desk: Desk, url: str, user_info: str | None = None) -> Trial:
    report = await desk.report(url, user_info=user_info)
    trials = Trials(desk.reports, desk.sender, desk.box, SystemClock())
    return await trials.try_out(report, desk.meter, ID)


async def test_a_test_delivery_is_signed_and_says_no_usage(desk: Desk, mailbox: Start) -> None:
    receiver = await mailbox()
    trial = await tried(desk, receiver.url, "me:hidden")
    (post,) = receiver.posts  # it was verified
    assert (post.id, post.body) == (ID, trial.body)
    assert post.headers["authorization"] == "Basic bWU6aGlkZGVu"
    members = post.members
    assert (members["type"], members["usage"]) == ("report.meter", [])
    assert members["query"]["subject"] == "meterline-test"  # type: ignore[index]
    assert members["run"]["id"] == ID  # type: ignore[index]
    assert members["run"]["trigger"] == "test"  # type: ignore[index]
    assert trial.answer.outcome is AttemptOutcome.DELIVERED
    assert trial.verdict.startswith("It arrived: the receiver answered 200 after ")
    assert await desk.reports.due(START_MS * 2) == []


async def test_a_test_delivery_has_the_headers_of_a_delivery(desk: Desk, mailbox: Start) -> None:
    receiver = await mailbox()
    own = {"Authorization": "Bearer t", "X-Tenant": "acme", "content-TYPE": "text/plain"}
    report = await desk.report(receiver.url, headers=own)
    await Trials(desk.reports, desk.sender, desk.box, SystemClock()).try_out(report, desk.meter, ID)
    await made(desk, report, ["acme"])
    parcels = await claimed(desk, NOW_MS)
    await posted(desk, parcels, NOW_MS, recorded=True)
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


async def test_headers_that_cannot_be_read_are_told(desk: Desk, mailbox: Start) -> None:
    receiver = await mailbox()
    report = await desk.report(receiver.url)
    broken = replace(report, headers=SealedHeaders(("X-A",), desk.box.seal("[1]")))
    trials = Trials(desk.reports, desk.sender, desk.box, SystemClock())
    trial = await trials.try_out(broken, desk.meter, ID)
    assert trial.verdict.startswith("Not sent: a secret of the report cannot be opened")
    assert receiver.posts == []


async def test_a_rotated_secret_signs_as_well(desk: Desk, mailbox: Start) -> None:
    receiver = await mailbox()
    report = await desk.report(receiver.url)
    now_ms = SystemClock().now_ms()
    await desk.reports.rotate_secret(report.id, desk.box.seal("whsec_" + "eA" * 16), 10**6, now_ms)
    found = await desk.reports.report("default", report.id)
    assert found is not None
    trials = Trials(desk.reports, desk.sender, desk.box, SystemClock())
    trial = await trials.try_out(found, desk.meter, ID)
    assert trial.answer.status == 200  # the receiver knows the one from before
    closed = replace(found, signing_secret_sealed=b"sealed under another key")
    assert "cannot be opened" in (await trials.try_out(closed, desk.meter, ID)).verdict


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "has it the signing secret of this report"),
        (401, "put user:password@ into the report's URL"),
        (302, "redirects are not followed"),
        (404, "Is the path of the report's URL right?"),
        (410, "park every report to this URL"),
        (500, "look into its own log"),
        (418, "The receiver answered 418; expected is 2xx."),
    ],
)
async def test_a_refusal_is_explained(desk: Desk, mailbox: Start, status: int, said: str) -> None:
    receiver = await mailbox()
    receiver.answers = [status]
    trial = await tried(desk, receiver.url)
    assert trial.answer.status == status
    assert said in trial.verdict


async def test_no_connection_is_explained(desk: Desk) -> None:
    trial = await tried(desk, "http://127.0.0.1:9/hook")
    assert trial.answer.outcome is AttemptOutcome.UNREACHED
    assert trial.verdict == (
        "No connection: Connection refused. Can the report's URL be reached from where Meterline"
        " runs?"
    )
    trial = await tried_elsewhere(desk, "http://10.0.0.1/hook")
    assert trial.answer.outcome is AttemptOutcome.FORBIDDEN
    assert "webhook_networks_allowed" in trial.verdict


async def tried_elsewhere(desk: Desk, url: str) -> Trial:
    report = await desk.report(url, "elsewhere")
    trials = Trials(desk.reports, desk.sender, desk.box, SystemClock())
    return await trials.try_out(report, desk.meter, ID)


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
    assert words.lower().startswith(f"{reason.lower()}. can the report's url be reached")
