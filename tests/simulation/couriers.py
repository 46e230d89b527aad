"""Deliveries on their way: the simulated outbox, receivers, and couriers between them."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from dispatcher.sending.attempt import SendTerms, claim_due, deliver, record
from dispatcher.sending.fairness import Load
from dispatcher.sending.retry import RetryPolicy
from meterline.delivery import (
    DELIVERY_MOVES,
    Answer,
    AttemptEnd,
    AttemptOutcome,
    ClaimedDelivery,
    DeliveryDraft,
    DeliveryMove,
    DeliveryState,
    Due,
    HealthTerms,
    SendGrant,
)
from meterline.ports import Unavailable
from meterline.report import outcome_of, run_sources, run_target
from tests.simulation.network import Net, Process
from tests.simulation.reports import Decided, ReportsState, SimulatedReports

SECRET: Final = b"whsec_" + b"bWV0ZXJsaW5lLXNpbXVsYXRpb24tc2VjcmV0"
OPEN: Final = (DeliveryState.PENDING, DeliveryState.SENDING, DeliveryState.RETRYING)
TRIES_S: Final = (0, 1, 1, 2, 2, 5, 5, 5, 10, 10, 10, 10)
TERMS: Final = SendTerms(RetryPolicy(TRIES_S, patience_s=0), lease_ms=2_000)


@dataclass(slots=True)
class Post:
    """A delivery and where it stands."""

    run_id: str
    report_id: str
    draft: DeliveryDraft
    state: DeliveryState = DeliveryState.PENDING
    attempts: int = 0
    due_at_ms: int | None = 0


class Outbox:
    """The deliveries of all decided runs."""

    def __init__(self, reports: ReportsState) -> None:
        self._reports = reports
        self.posts: dict[str, Post] = {}
        reports.appointed = self._put

    def _put(self, decided: Decided, now_ms: int) -> None:
        for draft in decided.deliveries:
            post = Post(decided.run.id, decided.run.report_id, draft, due_at_ms=now_ms)
            self.posts.setdefault(draft.id, post)

    def due(self, now_ms: int) -> list[Due]:
        found = {it.report_id: it for it in self.posts.values() if _is_due(it, now_ms)}
        return [Due(name, "http://x") for name in sorted(found)]

    def claim(
        self, grants: Sequence[SendGrant], now_ms: int, lease_until_ms: int
    ) -> list[ClaimedDelivery]:
        taken: list[Post] = []
        for one in grants:
            own = (it for it in self.posts.values() if it.report_id == one.report_id)
            taken += [it for it in own if _is_due(it, now_ms)][: one.count]
        for post in taken:
            post.state = DELIVERY_MOVES[post.state, DeliveryMove.CLAIM]
            post.attempts += 1
            post.due_at_ms = lease_until_ms
        return [
            ClaimedDelivery(
                it.draft.id, it.run_id, it.report_id, "default", it.attempts, 0, 0, "http://x",
                (SECRET,), None, it.draft.body,
            )
            for it in taken
        ]  # fmt: skip

    def record(self, ends: Sequence[AttemptEnd], now_ms: int) -> None:
        for end in ends:
            post = self.posts[end.attempt.delivery_id]
            confirms = end.move is DeliveryMove.CONFIRM
            newest = (
                end.attempt.number == post.attempts and (post.state, end.move) in DELIVERY_MOVES
            )
            if newest or confirms:
                post.state = DELIVERY_MOVES[post.state, end.move]
                retries = post.state is DeliveryState.RETRYING
                post.due_at_ms = end.attempt.next_attempt_at_ms if retries else None
                self._end_run(post.run_id, now_ms)

    def _end_run(self, run_id: str, now_ms: int) -> None:
        states = [it.state for it in self.posts.values() if it.run_id == run_id]
        move = outcome_of(states.count(DeliveryState.DELIVERED), len(states))
        kept = self._reports.runs[run_id]
        if not any(state in OPEN for state in states) and kept.run.state in run_sources(move):
            kept.run = replace(kept.run, state=run_target(move), ended_at_ms=now_ms)

    @property
    def open(self) -> bool:
        """Whether something is on its way."""
        return any(it.state in OPEN for it in self.posts.values())


def _is_due(post: Post, now_ms: int) -> bool:
    return post.due_at_ms is not None and post.due_at_ms <= now_ms


class Receivers:
    """Whoever books deliveries, and what came, by id."""

    def __init__(self, rng: Random) -> None:
        self.calm = False
        self.got: dict[str, list[bytes]] = defaultdict(list)
        self._rng = rng

    def take(self, headers: Mapping[str, str], body: bytes) -> int:
        """The status of the answer; what is refused was not booked."""
        if not self.calm and self._rng.random() < 0.1:
            return 503
        self.got[headers["webhook-id"]].append(body)
        return 204


class SimulatedSender:
    """`WebhookSender` of one dispatcher."""

    def __init__(self, receivers: Receivers, net: Net) -> None:
        self._receivers = receivers
        self._net = net

    async def send(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        try:
            status = await self._net.call(
                f"receiver.post {url}", lambda: self._receivers.take(headers, body), writes=True
            )
        except Unavailable as error:
            return Answer(AttemptOutcome.UNREACHED, 1, reason=str(error))
        good = status == 204
        outcome = AttemptOutcome.DELIVERED if good else AttemptOutcome.REFUSED
        return Answer(outcome, 1, status)

    async def close(self) -> None:
        """Nothing is held."""


class Plainly:
    """`SecretBox` without a key: secrecy is not what is looked at here."""

    def seal(self, plain: str) -> bytes:
        return plain.encode()

    def open(self, sealed: bytes) -> str:
        return sealed.decode()


class SendingReports(SimulatedReports):
    """The part of `ReportStore` that couriers ask."""

    def __init__(self, state: ReportsState, outbox: Outbox, net: Net) -> None:
        super().__init__(state, net)
        self._outbox = outbox

    async def due(self, now_ms: int) -> list[Due]:
        return await self.net.call("reports.due", lambda: self._outbox.due(now_ms))

    async def claim_deliveries(
        self, grants: Sequence[SendGrant], now_ms: int, lease_until_ms: int
    ) -> list[ClaimedDelivery]:
        assert not any(it.probe for it in grants), "endpoints of the simulation are never out"
        return await self.net.call(
            f"reports.claim_deliveries {[it.report_id for it in grants]}",
            lambda: self._outbox.claim(grants, now_ms, lease_until_ms),
            writes=True,
        )

    async def record(
        self, ends: Sequence[AttemptEnd], now_ms: int, terms: HealthTerms | None = None
    ) -> None:
        del terms  # nothing is kept of endpoints
        names = [f"{it.attempt.delivery_id} {it.move}" for it in ends]
        await self.net.call(
            f"reports.record {names}", lambda: self._outbox.record(ends, now_ms), writes=True
        )


async def send_for_ever(reports: Any, sender: Any, process: Process, rng: Random) -> None:
    """The life of a courier."""
    while True:
        with suppress(Unavailable):
            claimed_deliveries = await claim_due(reports, TERMS, Load(), process.now_ms())
            sent = [
                await deliver(it, sender, Plainly(), TERMS.retry, process.now_ms(), rng.random())
                for it in claimed_deliveries
            ]
            await record(reports, sent, process.now_ms())
        await asyncio.sleep(0.3)
