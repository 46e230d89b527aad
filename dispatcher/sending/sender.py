"""The half of the dispatcher's shell that sends: claims, posts, records."""

import asyncio
import random
from collections import Counter
from typing import Final
from urllib.parse import urlsplit

import structlog

from dispatcher import tracing
from dispatcher.loop import Loop, wait
from dispatcher.sending import attempt
from dispatcher.sending.attempt import SendTerms, Sent
from dispatcher.sending.fairness import Load
from dispatcher.sending.prefetch import Answered, Waiting
from dispatcher.sending.rate import RateLimit
from dispatcher.tracing import ReportTraces
from meterline import limits
from meterline.delivery import (
    Address,
    ClaimedDelivery,
    DeliveryMove,
    EndpointChange,
    EndpointSignal,
    SecretBox,
    WebhookSender,
)
from meterline.ports import SILENT, Clock, Recorder, Unavailable, metrics
from meterline.report import ReportStore
from meterline.window import Backoff, rfc3339

_log: Final = structlog.get_logger("dispatcher")
_OUTCOMES: Final = {
    DeliveryMove.CONFIRM: "delivered",
    DeliveryMove.RETRY: "retrying",
    DeliveryMove.GIVE_UP: "failed",
}


class DeliverySender:
    """Sends what is due until it is stopped."""

    def __init__(
        self,
        reports: ReportStore,
        sender: WebhookSender,
        box: SecretBox,
        clock: Clock,
        terms: SendTerms,
        idle_s: float,
        recorder: Recorder = SILENT,
        traces: ReportTraces | None = None,
    ) -> None:
        self._recorder = recorder
        self._traces = traces or ReportTraces()
        self._reports = reports
        self._sender = sender
        self._box = box
        self._clock = clock
        self._terms = terms
        self._idle_s = idle_s
        self._claiming = Loop("send", idle_s)
        self._claimed: Counter[Address] = Counter()  # and not recorded yet
        self._claimed_bytes = 0
        self._waiting = Waiting()
        self._under_way: Counter[Address] = Counter()
        self._answered = Answered()
        self._outs: Counter[Address] = Counter()  # in a row, of what is claimed
        self._faults: Counter[Address] = Counter()  # in a row, of first tries of what is claimed
        self._rate_limit = RateLimit(terms.per_second)
        self._posts: set[asyncio.Task[None]] = set()
        self._sent: list[Sent] = []  # to be recorded; both are bounded by what is claimed
        self._returned: list[ClaimedDelivery] = []  # to be given back
        self._record_wake = asyncio.Event()

    def wake(self) -> None:
        """Something may be due."""
        self._claiming.wake()

    def stop(self) -> None:
        """Claim nothing more; what has not begun is given back, what is under way is recorded."""
        self._return(self._waiting.all())
        self._claiming.stop()

    async def run(self) -> None:
        """Work until `stop`; returns when all that was sent is recorded."""
        recorder = asyncio.create_task(self._record_all())
        try:
            await self._claiming.run(self._claim)
            if self._posts:
                await asyncio.wait(self._posts)
        finally:
            self._claiming.stop()
            self._returned += self._waiting.all()
            self._record_wake.set()
            await recorder

    async def _claim(self) -> float:
        now_ms = self._clock.now_ms()
        self._return(self._waiting.older_than(now_ms - limits.AHEAD_WAIT_MS))
        found = await attempt.claim_due(
            self._reports, self._terms, self._load(now_ms), now_ms, self._rate_limit
        )
        for claimed in found:
            self._claimed[claimed.address] += 1
            self._claimed_bytes += len(claimed.body)
            self._waiting.add(claimed, self._clock.now_ms())
        if self._claiming.stopped:
            self._return(self._waiting.all())
        for address in self._failing():  # it was claimed before that was known
            self._return(self._waiting.of(address))
        self._begin()
        return 0 if found else self._idle_s

    def _load(self, now_ms: int) -> Load:
        for address in self._faults.keys() - self._claimed.keys():
            del self._faults[address]  # all is recorded: the store knows, and is asked after this
        roomy = self._claimed_bytes < limits.AHEAD_BYTES_MAX
        answered = self._answered.counts(now_ms) if roomy else {}
        return Load(
            claimed=dict(self._claimed),
            under_way=self._under_way.total(),
            bytes=self._claimed_bytes,
            ahead={address: self._ahead(address, count) for address, count in answered.items()},
            proven=self._answered.proven(now_ms),
            failing=self._failing(),
        )

    def _ahead(self, address: Address, answered: int) -> int:
        """How many may be claimed beyond the places: what waits is soon begun, and not given back;
        what is answered and not recorded yet keeps nothing from being claimed.
        """
        in_hand = self._under_way[address] + self._waiting.count(address)
        return limits.AHEAD_TIMES * answered + self._claimed[address] - in_hand

    def _failing(self) -> list[Address]:
        """Those that fail for all: no more is in hand until what is under way is recorded."""
        most = self._terms.caps.faults_ahead
        return [address for address, faults in self._faults.items() if faults >= most]

    def _begin(self) -> None:
        """Post what has a place now."""
        while (claimed := self._next()) is not None:
            task = asyncio.create_task(self._post_on(claimed))
            self._posts.add(task)
            task.add_done_callback(self._posts.discard)

    def _next(self) -> ClaimedDelivery | None:
        """What may begin now; it has its place."""
        claimed = self._waiting.begin(self._under_way, self._terms.caps)
        if claimed is not None:
            self._under_way[claimed.address] += 1
        return claimed

    async def _post_on(self, claimed: ClaimedDelivery | None) -> None:
        """Post a delivery, and after it what its place is for then: a task for each of them would
        cost a sixth of a post.
        """
        while claimed is not None:
            before = claimed.address
            await self._post(claimed, before)
            claimed = self._next()
            if claimed is not None and claimed.address != before:
                self._begin()  # its endpoint may have had a place of its own to give

    async def _post(self, claimed: ClaimedDelivery, address: Address) -> None:
        wait_ms = self._rate_limit.take(address, self._clock.now_ms())
        if wait_ms:
            await asyncio.sleep(wait_ms / 1_000)  # its turn in the pace of the endpoint
        draw = random.random()  # noqa: S311 - jitter of a delay
        span = await self._traces.attempt(claimed) if self._traces.on else None
        trace = None if span is None else span.context
        now_ms, retry = self._clock.now_ms(), self._terms.retry
        try:
            sent = await attempt.deliver(
                claimed, self._sender, self._box, retry, now_ms, draw, trace
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, it is an attempt that failed
            _log.exception("send", action="failed", delivery=claimed.delivery_id)
            sent = attempt.failed(claimed, error, retry, now_ms, draw)
        self._under_way[address] -= 1
        if not self._under_way[address]:
            del self._under_way[address]
        self._sent.append(sent)
        if span is not None:
            tracing.ended(span, sent.end)
        done = sent.end.attempt
        self._recorder.count(metrics.ATTEMPTS, 1, done.outcome.value)
        self._recorder.observe(metrics.ATTEMPT_SECONDS, done.duration_ms / 1_000)
        self._record_wake.set()
        self._apply(sent, address)
        if sent.end.observed is None:
            await asyncio.sleep(0)  # it may never have waited for anything: others have their turn

    def _apply(self, sent: Sent, address: Address) -> None:
        """What waits for an endpoint that is away waits in the store: nobody burns it."""
        observed = sent.end.observed
        if observed is None:
            return
        away = sent.gone or observed.signal is EndpointSignal.THROTTLED
        if observed.signal is EndpointSignal.OUT:
            self._outs[address] += 1
            away |= self._outs[address] >= limits.ENDPOINT_OUTAGES
        else:
            self._outs.pop(address, None)
        if observed.signal is EndpointSignal.FAULT:
            self._faults[address] += observed.first
            away |= self._faults[address] >= self._terms.caps.faults_ahead
        elif observed.signal is not EndpointSignal.OUT:
            self._faults.pop(address, None)
        if away:
            self._answered.forget(address)
            self._return(self._waiting.of(address))
        elif observed.signal is not EndpointSignal.OUT:
            self._answered.add(address, self._clock.now_ms())

    def _return(self, claimed_deliveries: list[ClaimedDelivery]) -> None:
        self._returned += claimed_deliveries
        if claimed_deliveries:
            self._record_wake.set()

    async def _record_all(self) -> None:
        """Record what was sent and give back what was not, all that has gathered in one
        transaction each.
        """
        backoff = Backoff(self._idle_s)
        while self._sent or self._returned or self._posts or not self._claiming.stopped:
            if not self._sent and not self._returned:
                await wait(self._record_wake, self._idle_s)
                self._record_wake.clear()
                continue
            try:
                await self._give_back()
                await self._record()
            except Unavailable as error:
                _log.warning("record", action="unavailable", reason=str(error))
                if self._claiming.stopped:
                    return  # at least once: after their leases they are sent again
                await asyncio.sleep(backoff.next_s())
                continue
            backoff.reset()

    async def _give_back(self) -> None:
        batch = self._returned[:]
        if not batch:
            return
        try:
            await self._reports.give_back(batch, self._clock.now_ms())
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001 - their leases run out
            _log.exception("return", action="failed", deliveries=len(batch))
        del self._returned[: len(batch)]
        for claimed in batch:
            self._landed(claimed)

    async def _record(self) -> None:
        batch = self._sent[:]
        if not batch:
            return
        try:
            await self._recorded(batch)
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001 - better sent twice than never again
            _log.exception("record", action="failed", deliveries=len(batch))
            for sent in batch if len(batch) > 1 else ():
                await self._record_alone(sent)
        del self._sent[: len(batch)]
        for sent in batch:
            self._landed(sent.claimed)

    async def _record_alone(self, sent: Sent) -> None:
        """One that cannot be recorded takes no others with it."""
        try:
            await self._recorded([sent])
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001 - as above
            _log.exception("record", action="failed", delivery=sent.claimed.delivery_id)

    async def _recorded(self, batch: list[Sent]) -> None:
        health = self._terms.health
        for one in await attempt.record(self._reports, batch, self._clock.now_ms(), health):
            _tell(one)
        for move, sent in Counter(it.end.move for it in batch).items():
            self._recorder.count(metrics.DELIVERIES, sent, _OUTCOMES[move])

    def _landed(self, claimed: ClaimedDelivery) -> None:
        address = claimed.address
        self._claimed_bytes -= len(claimed.body)
        self._claimed[address] -= 1
        if not self._claimed[address]:
            del self._claimed[address]
            self._outs.pop(address, None)
        self._claiming.wake()


def _tell(change: EndpointChange) -> None:
    """Why deliveries wait, and since when they do not, for whoever reads the log later. Only the
    host of the endpoint: its path and query may be secret.
    """
    host = urlsplit(change.endpoint).netloc
    since = "unknown" if change.since_ms is None else rfc3339(change.since_ms)
    fields = {"namespace": change.namespace, "host": host, "since": since, "reason": change.reason}
    if change.down:
        _log.warning("endpoint_down", **fields)
    else:
        _log.info("endpoint_up", **fields)
