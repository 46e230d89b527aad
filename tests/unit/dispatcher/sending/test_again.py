"""Sent again, and signed anew: replays and rotations of secrets, to real receivers."""

import base64

import pytest
from svix.webhooks import Webhook, WebhookVerificationError

from meterline.delivery import DeliveryState
from meterline.report import RunState
from tests.unit.dispatcher.conftest import SECRET, Rig
from tests.unit.dispatcher.sending.steps import (
    NOW_MS,
    SUBJECTS,
    Mailboxes,
    arrived,
    by_id,
    claimed,
    is_ended,
    made,
    posted,
    real_now_ms,
    the_run,
    until,
    working,
)


async def test_during_a_rotation_old_and_new_secret_verify_and_after_it_only_the_new(
    rig: Rig, mailbox: Mailboxes
) -> None:
    box = await mailbox()
    box.secret = None  # the test verifies by itself
    report = await rig.report(box.url)
    run = await made(rig, report, ["acme"])
    fresh = "whsec_" + base64.b64encode(b"n" * 24).decode()
    rotated_ms = NOW_MS
    await rig.reports.rotate_secret(report.id, rig.box.seal(fresh), 1_000, rotated_ms)
    headers = []
    for now_ms in (rotated_ms, rotated_ms + 999, rotated_ms + 1_000):
        claimed_deliveries = await claimed(rig, now_ms)
        await posted(rig, claimed_deliveries, now_ms, recorded=True)
        headers.append((box.posts[-1].headers, box.posts[-1].body))
        await rig.reports.replay("default", claimed_deliveries[0].delivery_id, now_ms)
    for sent, body in headers[:2]:
        assert len(sent["svix-signature"].split(" ")) == 2
        assert sent["svix-signature"] == sent["webhook-signature"]
        for secret in (fresh, SECRET):
            Webhook(secret).verify(body, sent)
        # the new one first: a receiver that looks at one signature only finds it
        first = {**sent, "svix-signature": sent["svix-signature"].split(" ")[0]}
        Webhook(fresh).verify(body, first)
    sent, body = headers[2]
    Webhook(fresh).verify(body, sent)
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(body, sent)
    assert len({body for _, body in headers}) == 1
    assert (await the_run(rig, run)).state is RunState.DELIVERING


async def test_a_replay_sends_identical_bytes_under_the_same_id_with_all_retries_before_it(
    rig: Rig, mailbox: Mailboxes
) -> None:
    box = await mailbox()
    box.answers = [500] * 4
    run = await made(rig, await rig.report(box.url), ["acme"])
    async with working(rig) as dispatcher:
        await until(lambda: is_ended(rig, run))
        (delivery,) = await rig.reports.deliveries(run.id, 10)
        assert (delivery.state, delivery.attempts) == (DeliveryState.FAILED, 4)
        box.answers = [500] * 3  # all retries but one
        await rig.reports.replay("default", delivery.id, real_now_ms())
        dispatcher.wake()
        await until(lambda: is_ended(rig, run))
    (delivery,) = await rig.reports.deliveries(run.id, 10)
    assert (delivery.state, delivery.attempts) == (DeliveryState.DELIVERED, 8)
    assert (await the_run(rig, run)).state is RunState.SUCCEEDED
    assert len(box.posts) == 8
    (bodies,) = by_id(box.posts).values()
    assert len(bodies) == 1
    assert {post.headers["svix-id"] for post in box.posts} == {delivery.id}


async def test_what_was_delivered_can_be_sent_again(rig: Rig, mailbox: Mailboxes) -> None:
    box = await mailbox()
    run = await made(rig, await rig.report(box.url), SUBJECTS)
    async with working(rig) as dispatcher:
        await until(lambda: is_ended(rig, run))
        before = [(post.id, post.body) for post in box.posts]
        listed = await rig.reports.deliveries(run.id, 10)
        await rig.reports.replay("default", listed[1].id, real_now_ms())
        dispatcher.wake()
        await until(lambda: arrived(box, 4))
        await until(lambda: is_ended(rig, run))
    assert (box.posts[3].id, box.posts[3].body) in before
    found = await the_run(rig, run)
    assert (found.state, found.delivered) == (RunState.SUCCEEDED, 3)
