"""The shell of the dispatcher: loops around the steps, one that makes runs, one that finds late
usage, one that forgets old bytes, and what sends.
"""

import asyncio
from typing import Final
from uuid import uuid4

import structlog

from dispatcher.loop import Loop
from dispatcher.runs import planner
from dispatcher.runs.failing import Failing
from dispatcher.runs.late import LateUsage
from dispatcher.runs.planner import PlanTerms, Sources
from dispatcher.sending import signing
from dispatcher.sending.attempt import SendTerms
from dispatcher.sending.sender import DeliverySender
from meterline import limits
from meterline.delivery import SecretBox, WebhookSender
from meterline.ports import Clock, metrics

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
        self._recorder = recorder = sources.recorder
        self._sources = sources
        self._late = late
        self._clock = clock
        self._plan_terms = plan_terms
        self._sending = DeliverySender(
            sources.reports, sender, box, clock, send_terms, idle_s, recorder, sources.traces
        )
        self._idle_s = idle_s
        self._failing = Failing()
        self._planning = Loop("plan", idle_s)
        self._revising = Loop("late", idle_s)
        self._forgetting = Loop("forget", idle_s)

    def wake(self) -> None:
        """Something was made: look now rather than at the next turn."""
        self._planning.wake()
        self._sending.wake()

    def stop(self) -> None:
        """Begin to end: nothing new is claimed; what is in flight is finished and recorded."""
        for part in (self._planning, self._revising, self._forgetting, self._sending):
            part.stop()

    async def run(self) -> None:
        """Work until `stop`; returns when all that was sent is recorded."""
        await asyncio.to_thread(signing.load)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._planning.run(self._plan))
                group.create_task(self._revising.run(self._revise))
                group.create_task(self._sending.run())
                group.create_task(self._forgetting.run(self._forget))
        finally:
            await self._sources.traces.close()

    async def _plan(self) -> float:
        now_ms = self._clock.now_ms()
        terms = self._plan_terms
        found = await planner.find_due(
            self._sources.reports, now_ms, terms.catch_up_max, self._failing
        )
        made = await planner.make_runs(self._sources, terms, self._clock.now_ms, uuid4().hex)
        if not found and not made:
            return self._idle_s
        self._recorder.count(metrics.RUNS_DECIDED, made)
        _log.info("plan", action="planned", found=found, made=made)
        self._sending.wake()
        return 0

    async def _revise(self) -> float:
        """Beside the plan: runs that are due do not wait for the search for late usage."""
        asked = await self._late.turn(self._clock.now_ms())
        if asked:
            _log.info("late", action="asked", runs=asked)
            self._planning.wake()
        return self._idle_s

    async def _forget(self) -> float:
        """Remove bytes that were kept for their time, a step at a time and without haste."""
        until_ms = self._clock.now_ms() - self._plan_terms.bytes_kept_ms
        removed = await self._sources.bytes.remove_bytes(until_ms, limits.BYTES_REMOVED_MAX)
        if not removed:
            return limits.BYTES_LOOK_S
        _log.info("forget", action="removed", deliveries=removed)
        return self._idle_s
