"""The shell of the dispatcher: loops around the steps, one that makes runs, one that finds late
usage, one that forgets old bytes, and what sends.
"""

import asyncio
from typing import Final
from uuid import uuid4

import structlog

from dispatcher.pause import Pause, turn, wait
from dispatcher.runs import planner
from dispatcher.runs.late import LateUsage
from dispatcher.runs.planner import PlanTerms, Sources
from dispatcher.sending import signing
from dispatcher.sending.attempt import SendTerms
from dispatcher.sending.sender import DeliverySender
from meterline import limits
from meterline.delivery import SecretBox, WebhookSender
from meterline.ports import Clock

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
        self._clock = clock
        self._plan_terms = plan_terms
        self._outgoing = DeliverySender(sources.reports, sender, box, clock, send_terms, idle_s)
        self._idle_s = idle_s
        self._stopping = False
        self._plan_wake = asyncio.Event()
        self._late_wake = asyncio.Event()
        self._forget_wake = asyncio.Event()

    def wake(self) -> None:
        """Something was made: look now rather than at the next turn."""
        self._plan_wake.set()
        self._outgoing.wake()

    def stop(self) -> None:
        """Begin to end: nothing new is claimed; what is in flight is finished and recorded."""
        self._stopping = True
        self._late_wake.set()
        self._forget_wake.set()
        self._plan_wake.set()
        self._outgoing.stop()

    async def run(self) -> None:
        """Work until `stop`; returns when all that was sent is recorded."""
        await asyncio.to_thread(signing.load)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._plan())
            group.create_task(self._revise())
            group.create_task(self._outgoing.run())
            group.create_task(self._forget())

    async def _plan(self) -> None:
        pause = Pause(self._idle_s)
        while not self._stopping:
            self._plan_wake.clear()
            made = await turn("plan", self._plan_once())
            if made is None:
                await wait(self._plan_wake, pause.longer())
                continue
            pause.reset()
            if made:
                self._outgoing.wake()
            else:
                await wait(self._plan_wake, self._idle_s)

    async def _revise(self) -> None:
        """Beside the plan: runs that are due do not wait for the search for late usage."""
        pause = Pause(self._idle_s)
        while not self._stopping:
            self._late_wake.clear()
            asked = await turn("late", self._late.turn(self._clock.now_ms()))
            if asked is None:
                await wait(self._late_wake, pause.longer())
                continue
            pause.reset()
            if asked:
                _log.info("late", action="asked", runs=asked)
                self._plan_wake.set()
            await wait(self._late_wake, self._idle_s)

    async def _forget(self) -> None:
        """Remove bytes that were kept for their time, a step at a time and without haste."""
        terms = self._plan_terms
        while not self._stopping:
            until_ms = self._clock.now_ms() - terms.bytes_kept_ms
            act = self._sources.bytes.remove_bytes(until_ms, limits.BYTES_REMOVED_MAX)
            removed = await turn("forget", act)
            if removed:
                _log.info("forget", action="removed", deliveries=removed)
            await wait(self._forget_wake, self._idle_s if removed else limits.BYTES_LOOK_S)

    async def _plan_once(self) -> int:
        now_ms = self._clock.now_ms()
        terms = self._plan_terms
        found = await planner.find_due(self._sources.reports, now_ms, terms.catch_up_max)
        made = await planner.make_runs(self._sources, terms, self._clock.now_ms, uuid4().hex)
        if found or made:
            _log.info("plan", action="planned", found=found, made=made)
        return found + made
