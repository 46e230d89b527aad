"""The shell of the dispatcher: loops around the steps, one that makes runs, one that finds late
usage and one that sends.
"""

import asyncio
import random
from collections import Counter
from typing import Final
from uuid import uuid4

import structlog

from dispatcher import courier, planner, signing
from dispatcher.ahead import Ahead, Places
from dispatcher.courier import SendTerms, Sent
from dispatcher.late import LateUsage
from dispatcher.pace import Pace
from dispatcher.planner import PlanTerms, Sources
from meterline import limits
from meterline.ports import Clock, Unavailable
from meterline.report_ports import SecretBox, WebhookSender
from meterline.run import DeliveryMove
from meterline.sending import Address, Parcel

_log: Final = structlog.get_logger("dispatcher")


class Dispatcher:
    """Makes runs and sends deliveries until it is stopped. Several may share one store."""

    def __init__(
        self,
        sources: Sources,
        late: LateUsage,
        sender: WebhookSender,
        box: SecretBox,
        clock: Clock,
        plan_terms: PlanTerms,
        send_terms: SendTerms,
        idle_s: float = limits.DISPATCH_IDLE_S,
    ) -> None:
        self._sources = sources
        self._late = late
        self._sender = sender
        self._box = box
        self._clock = clock
        self._plan_terms = plan_terms
        self._send_terms = send_terms
        self._idle_s = idle_s
        self._stopping = False
        self._plan_wake = asyncio.Event()
        self._send_wake = asyncio.Event()
        self._late_wake = asyncio.Event()
        self._in_flight: Counter[Address] = Counter()
        self._in_flight_bytes = 0
        self._pace = Pace(send_terms.per_second)
        self._ahead = Ahead()
        self._places = Places(send_terms.caps)
        self._forget_wake = asyncio.Event()
        self._posts: set[asyncio.Task[None]] = set()
        self._sent: list[Sent] = []  # to be recorded; bounded by the places in flight
        self._sent_wake = asyncio.Event()

    def wake(self) -> None:
        """Something was made: look now rather than at the next turn."""
        self._plan_wake.set()
        self._send_wake.set()

    def stop(self) -> None:
        """Begin to end: nothing new is claimed; what is in flight is finished and recorded."""
        self._stopping = True
        self._late_wake.set()
        self._forget_wake.set()
        self.wake()

    async def run(self) -> None:
        """Work until `stop`; returns when all that was sent is recorded."""
        await asyncio.to_thread(signing.load)
        recorder = asyncio.create_task(self._record_all())
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._plan())
                group.create_task(self._revise())
                group.create_task(self._send())
                group.create_task(self._forget())
            if self._posts:
                await asyncio.wait(self._posts)
        finally:
            self._stopping = True
            self._sent_wake.set()
            await recorder

    async def _plan(self) -> None:
        pause = _Pause(self._idle_s)
        while not self._stopping:
            self._plan_wake.clear()
            try:
                made = await self._plan_once()
            except Unavailable as error:
                _log.warning("plan", action="unavailable", reason=str(error))
                await _wait(self._plan_wake, pause.longer())
                continue
            except Exception:  # noqa: BLE001 - a fault of one turn must not end the dispatcher
                _log.exception("plan", action="failed")
                await _wait(self._plan_wake, pause.longer())
                continue
            pause.reset()
            if made:
                self._send_wake.set()
            else:
                await _wait(self._plan_wake, self._idle_s)

    async def _revise(self) -> None:
        """Beside the plan: runs that are due do not wait for the search for late usage."""
        pause = _Pause(self._idle_s)
        while not self._stopping:
            self._late_wake.clear()
            wait_s = self._idle_s
            try:
                asked = await self._late.turn(self._clock.now_ms())
            except Unavailable as error:
                _log.warning("late", action="unavailable", reason=str(error))
                wait_s = pause.longer()
            except Exception:  # noqa: BLE001 - as above
                _log.exception("late", action="failed")
                wait_s = pause.longer()
            else:
                pause.reset()
                if asked:
                    _log.info("late", action="asked", runs=asked)
                    self._plan_wake.set()
            await _wait(self._late_wake, wait_s)

    async def _forget(self) -> None:
        """Remove bytes that were kept for their time, a step at a time and without haste."""
        terms = self._plan_terms
        while not self._stopping:
            wait_s = float(limits.BYTES_LOOK_S)
            try:
                until_ms = self._clock.now_ms() - terms.bytes_kept_ms
                removed = await self._sources.bytes.remove_bytes(until_ms, limits.BYTES_REMOVED_MAX)
            except Unavailable as error:
                _log.warning("forget", action="unavailable", reason=str(error))
            except Exception:  # noqa: BLE001 - as above
                _log.exception("forget", action="failed")
            else:
                if removed:
                    _log.info("forget", action="removed", deliveries=removed)
                    wait_s = self._idle_s
            await _wait(self._forget_wake, wait_s)

    async def _plan_once(self) -> int:
        now_ms = self._clock.now_ms()
        terms = self._plan_terms
        found = await planner.find_due(self._sources.reports, now_ms, terms.catch_up_max)
        made = await planner.make_runs(self._sources, terms, self._clock.now_ms, uuid4().hex)
        if found or made:
            _log.info("plan", action="planned", found=found, made=made)
        return found + made

    async def _send(self) -> None:
        pause = _Pause(self._idle_s)
        while not self._stopping:
            self._send_wake.clear()
            try:
                parcels = await courier.claim_due(
                    self._sources.reports,
                    self._send_terms,
                    self._in_flight,
                    self._clock.now_ms(),
                    self._pace,
                    self._claimed_ahead(),
                )
            except Unavailable as error:
                _log.warning("send", action="unavailable", reason=str(error))
                await _wait(self._send_wake, pause.longer())
                continue
            except Exception:  # noqa: BLE001 - a fault of one turn must not end the dispatcher
                _log.exception("send", action="failed")
                await _wait(self._send_wake, pause.longer())
                continue
            pause.reset()
            for parcel in parcels:
                self._post(parcel)
            if not parcels:
                await _wait(self._send_wake, self._idle_s)

    def _claimed_ahead(self) -> dict[Address, int]:
        if self._in_flight_bytes >= limits.AHEAD_BYTES_MAX:
            return {}
        return self._ahead.counts(self._clock.now_ms())

    def _post(self, parcel: Parcel) -> None:
        self._in_flight[parcel.address] += 1
        self._in_flight_bytes += len(parcel.body)
        now_ms = self._clock.now_ms()
        wait_ms = self._pace.take(parcel.address, now_ms)
        until_ms = now_ms + wait_ms + self._send_terms.lease_ms // limits.AHEAD_LEASE_SHARE
        task = asyncio.create_task(self._deliver(parcel, wait_ms / 1_000, until_ms))
        self._posts.add(task)
        task.add_done_callback(self._posts.discard)

    async def _deliver(self, parcel: Parcel, wait_s: float, until_ms: int) -> None:
        try:
            await asyncio.sleep(wait_s)  # its turn in the pace of the endpoint
            async with self._places.place(parcel.address):
                sent = await self._sent_of(parcel, until_ms)
        except Exception:  # noqa: BLE001 - the lease runs out and another attempt follows
            _log.exception("send", action="failed", delivery=parcel.delivery_id)
            self._landed(parcel)
            return
        self._sent.append(sent)
        self._sent_wake.set()

    async def _sent_of(self, parcel: Parcel, until_ms: int) -> Sent:
        now_ms = self._clock.now_ms()
        if self._stopping or now_ms > until_ms:
            return courier.unsent(parcel, now_ms)
        draw = random.random()  # noqa: S311 - jitter of a delay
        retry = self._send_terms.retry
        sent = await courier.deliver(parcel, self._sender, self._box, retry, now_ms, draw)
        if sent.end.move is DeliveryMove.CONFIRM:
            self._ahead.took(parcel.address, self._clock.now_ms())
        return sent

    def _landed(self, parcel: Parcel) -> None:
        self._in_flight_bytes -= len(parcel.body)
        self._in_flight[parcel.address] -= 1
        if not self._in_flight[parcel.address]:
            del self._in_flight[parcel.address]
        self._send_wake.set()

    async def _record_all(self) -> None:
        """Record what was sent, all that has gathered in one transaction; a place is free only
        then.
        """
        pause = _Pause(self._idle_s)
        while self._sent or self._posts or not self._stopping:
            if not self._sent:
                await _wait(self._sent_wake, self._idle_s)
                self._sent_wake.clear()
                continue
            batch = self._sent[:]
            try:
                await courier.record(
                    self._sources.reports, batch, self._clock.now_ms(), self._send_terms.health
                )
            except Unavailable as error:
                _log.warning("record", action="unavailable", reason=str(error))
                if self._stopping:
                    return  # at least once: after their leases they are sent again
                await asyncio.sleep(pause.longer())
                continue
            except Exception:  # noqa: BLE001 - as above: better sent twice than never again
                _log.exception("record", action="failed", deliveries=len(batch))
            pause.reset()
            del self._sent[: len(batch)]
            for sent in batch:
                self._landed(sent.parcel)


class _Pause:
    """A wait that doubles while nothing works."""

    def __init__(self, first_s: float) -> None:
        self._first_s = first_s
        self._next_s = first_s

    def longer(self) -> float:
        now_s = self._next_s
        self._next_s = min(2 * now_s, limits.WORKER_BACKOFF_MAX_S)
        return now_s

    def reset(self) -> None:
        self._next_s = self._first_s


async def _wait(event: asyncio.Event, at_most_s: float) -> None:
    try:
        async with asyncio.timeout(at_most_s):
            await event.wait()
    except TimeoutError:
        return
