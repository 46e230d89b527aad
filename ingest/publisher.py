"""The publisher: events of many requests go into the log together; each learns when its own are in.

Each partition is a lane. While the packs of a lane are on their way to the log, what arrives for it
waits and goes next, all together: so an idle gateway waits for nothing, and a busy one fills its
packs by itself.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ingest.admission import Admitted
from ingest.packing import packs_of
from meterline.event import Log
from meterline.limits import APPEND_DEADLINE_MS, PENDING_BYTES_MAX, PRODUCE_DEADLINE_MS
from meterline.ports import SILENT, Clock, Recorder, Unavailable, metrics
from meterline.problem import Problem, ProblemType

RETRY_AFTER_S: Final = 1


@dataclass(slots=True, eq=False)
class _Request:
    """The events of one call; `lanes` counts the partitions in which they are not durable yet."""

    lanes: int
    since_ms: int
    done: asyncio.Future[None]


@dataclass(slots=True, eq=False)
class _Lane:
    """What waits for one partition, and who sends it on."""

    partition: int
    waiting: list[tuple[_Request, list[bytes]]] = field(default_factory=list)
    sender: asyncio.Task[None] | None = None


class Publisher:
    """Puts admitted events into the log.

    `waiting_ms_max` bounds how long events wait for their turn; with the log's own deadline for an
    append it makes the produce deadline, `deadline_ms`.
    """

    def __init__(
        self,
        log: Log,
        clock: Clock,
        *,
        waiting_ms_max: int = APPEND_DEADLINE_MS,
        deadline_ms: int = PRODUCE_DEADLINE_MS,
        pending_bytes_max: int = PENDING_BYTES_MAX,
        recorder: Recorder = SILENT,
    ) -> None:
        self._recorder = recorder
        self._accepted = recorder.counter(metrics.INGEST_EVENTS, "accepted")
        self._packed = recorder.observer(metrics.PACK_EVENTS)
        self._appended = recorder.observer(metrics.APPEND_SECONDS)
        self._log = log
        self._clock = clock
        self._waiting_ms_max = waiting_ms_max
        self._deadline_ms = deadline_ms
        self._pending_bytes_max = pending_bytes_max
        self._pending_bytes = 0
        self._lanes: dict[int, _Lane] = {}

    @property
    def partitions(self) -> int:
        """By how many of them events are to be admitted now."""
        return self._log.routes

    @property
    def pending_bytes(self) -> int:
        """Of events that were handed in and are not durable yet."""
        return self._pending_bytes

    async def publish(
        self,
        events: Sequence[Admitted],
        recorded_ms: int | None = None,
        partitions: int | None = None,
    ) -> None:
        """Return once every event is durable, in its own partition by `partitions` of them: the
        number that it was admitted by, else that of this moment. Where the log got more meanwhile,
        no success is told: behind a mark, events count in their own partition only.

        `recorded_ms` is the `recordedtime` of the events, where this process's clock gave it: then
        no success is told later than the produce deadline after it. Whoever claims that all that
        was recorded up to an instant is counted rests on that, and a process may stand still
        between any two steps, longer than any timeout in it would have let it
        (docs/architecture.md, "Completeness").

        Raises `Problem` (unavailable): it is not known which of the events are in the log. Sending
        them again is always safe.
        """
        if not events:
            return
        try:
            await self._publish(events, recorded_ms, partitions or self.partitions)
        except Problem as problem:
            if problem.type is ProblemType.UNAVAILABLE:
                self._recorder.count(metrics.INGEST_EVENTS, len(events), "unavailable")
            raise
        self._accepted(len(events))

    async def _publish(
        self, events: Sequence[Admitted], recorded_ms: int | None, partitions: int
    ) -> None:
        size = sum([len(text) for _, text in events])
        if self._pending_bytes + size > self._pending_bytes_max:
            detail = "Too many events are waiting to be stored. None of these was stored: retry."
            raise Problem(ProblemType.UNAVAILABLE, detail, retry_after_s=RETRY_AFTER_S)
        shares: dict[int, list[bytes]] = {}
        for partition, text in events:
            share = shares.get(partition)
            if share is None:
                shares[partition] = [text]
            else:
                share.append(text)
        loop = asyncio.get_running_loop()
        request = _Request(len(shares), self._clock.now_ms(), loop.create_future())
        self._pending_bytes += size
        for partition, texts in shares.items():
            lane = self._lanes.get(partition)
            if lane is None:
                lane = self._lanes[partition] = _Lane(partition)
            lane.waiting.append((request, texts))
            if lane.sender is None:
                lane.sender = loop.create_task(self._send(lane))
        await request.done
        self._check_routes(partitions)
        if recorded_ms is not None and self._clock.now_ms() - recorded_ms > self._deadline_ms:
            raise _problem_of(Unavailable("the events were durable only after produce_deadline_ms"))

    def _check_routes(self, partitions: int) -> None:
        """Raise `Problem` where events were appended by another number than the log has now."""
        if partitions != self.partitions:
            raise _problem_of(Unavailable("the log got more partitions meanwhile"))

    async def close(self) -> None:
        """Return when nothing is pending; call it when nothing is published any more."""
        while senders := [it.sender for it in self._lanes.values() if it.sender is not None]:
            await asyncio.wait(senders)

    async def _send(self, lane: _Lane) -> None:
        """Append what waits for a lane, until nothing does. However it ends, nobody waits on."""
        taken: list[tuple[_Request, list[bytes]]] = []
        try:
            while lane.waiting:
                taken, lane.waiting = lane.waiting, []
                oldest_ms = self._clock.now_ms() - self._waiting_ms_max
                late = [share for share in taken if share[0].since_ms < oldest_ms]
                if late:
                    self._tell(late, Unavailable("the log was busy: the events were not sent"))
                    taken = [share for share in taken if share[0].since_ms >= oldest_ms]
                if taken:
                    self._tell(taken, await self._append(lane.partition, taken))
                    taken = []
        finally:
            lane.sender = None
            left, lane.waiting = taken + lane.waiting, []
            self._tell(left, Unavailable("the append was cancelled"))

    async def _append(
        self, partition: int, taken: Sequence[tuple[_Request, list[bytes]]]
    ) -> BaseException | None:
        """What went wrong, if anything did; then it is not known which of the events are in."""
        texts = [text for _, texts in taken for text in texts]
        time_s = asyncio.get_running_loop().time
        began_s = time_s()
        error = await self._append_all(partition, texts)
        if error is None:
            self._appended(time_s() - began_s)
        elif isinstance(error, Unavailable):
            self._recorder.count(metrics.STORE_ERRORS, 1, "log")
        return error

    async def _append_all(self, partition: int, texts: Sequence[bytes]) -> BaseException | None:
        try:
            packs = packs_of(texts)
            for pack in packs:
                self._packed(pack.events)
            if len(packs) == 1:
                await self._log.append(partition, packs[0].value)
                return None
            appends = (self._log.append(partition, pack.value) for pack in packs)
            outcomes = await asyncio.gather(*appends, return_exceptions=True)
        except Exception as error:  # noqa: BLE001 - told to every request that waits
            return error
        return next((outcome for outcome in outcomes if outcome is not None), None)

    def _tell(
        self, taken: Sequence[tuple[_Request, list[bytes]]], error: BaseException | None
    ) -> None:
        for request, texts in taken:
            self._pending_bytes -= sum(map(len, texts))
            request.lanes -= 1
            if request.done.done():
                continue  # another lane failed, or the caller is gone
            if error is not None:
                request.done.set_exception(_problem_of(error))
            elif request.lanes == 0:
                request.done.set_result(None)


def _problem_of(error: BaseException) -> BaseException:
    """What a request is told of an error of the log; our own errors stay what they are. An append
    that was cancelled by whatever it waited for says nothing about the request.
    """
    if not isinstance(error, Unavailable | asyncio.CancelledError):
        return error
    problem = Problem(
        ProblemType.UNAVAILABLE,
        "The events may or may not have been stored. Send them again: duplicates are never"
        " counted.",
        retry_after_s=RETRY_AFTER_S,
    )
    problem.__cause__ = error
    return problem
