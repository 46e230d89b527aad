"""Traces of what is reported: the trace of an event ends with the delivery that reports it.

Which events a delivery reports is asked beside the work (`dispatcher.trace_questions`). Where that
is not known in a moment, deliveries are sent untraced, or traced alone.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import msgspec

from dispatcher.trace_questions import Asking, Question, TraceQuestions, given_up, remember
from meterline.delivery import AttemptEnd, AttemptOutcome, ClaimedDelivery
from meterline.event import EventTraces, instant_of
from meterline.limits import TRACE_TASKS_MAX, TRACE_WAIT_S, TRACED_BODY_BYTES_MAX
from meterline.meter import Meter
from meterline.ports import UNTRACED, Span, TraceContext, Tracer, Work
from meterline.report import Run

_UNREADABLE: Final = (ValueError, RecursionError)


class _Asked(msgspec.Struct, rename={"from_": "from"}):
    """Of a body, what it reports."""

    from_: str
    to: str
    subject: str


class _Meter(msgspec.Struct):
    eventType: str  # noqa: N815 - as it is sent


class _Run(msgspec.Struct):
    revision: int


class _Body(msgspec.Struct):
    query: _Asked
    meter: _Meter
    run: _Run


_decode: Final = msgspec.json.Decoder(_Body).decode


class ReportTraces:
    """Spans of runs and of attempts. `events` says which traces the reported events belong to."""

    def __init__(self, tracer: Tracer = UNTRACED, events: EventTraces | None = None) -> None:
        self._tracer = tracer
        self._questions = TraceQuestions(events)
        self._runs: OrderedDict[str, TraceContext] = OrderedDict()
        self._telling: dict[str, asyncio.Task[None]] = {}  # by run

    @property
    def on(self) -> bool:
        """See `Tracer`."""
        return self._tracer.on

    def now_ns(self) -> int:
        """See `Tracer`."""
        return self._tracer.now_ns()

    def decided(self, run: Run, meter: Meter, since_ns: int) -> None:
        """A run was made, since then, and is decided. Its span is told once it is known what it is
        linked to: nobody waits for that. Never raises.
        """
        until_ns = self._tracer.now_ns()
        question = Question(meter.namespace, meter.event_type, run.from_ms, run.to_ms, run.revision)
        if run.revision > 1:
            self._questions.forget(question)
        asking = self._questions.ask(question)
        if asking is None or len(self._telling) >= TRACE_TASKS_MAX:
            self._tell(run, question, since_ns, until_ns)
            return

        async def tell(asking: Asking) -> None:
            await asyncio.wait((asking.task,))
            self._tell(run, question, since_ns, until_ns)

        self._telling[run.id] = task = asyncio.create_task(tell(asking))
        task.add_done_callback(lambda _: self._telling.pop(run.id, None))

    def _tell(self, run: Run, question: Question, since_ns: int, until_ns: int) -> None:
        links = [it for found in self._questions.known(question).values() for it in found]
        span = self._tracer.begin(Work.RUN, links=links, since_ns=since_ns)
        if span is None:
            return
        span.set("meterline.run_id", run.id)
        span.set("meterline.report_id", run.report_id)
        remember(self._runs, run.id, span.context)
        span.end(until_ns=until_ns)

    async def attempt(self, claimed: ClaimedDelivery) -> Span | None:
        """An attempt begins: in the trace of an event that it reports, linked to those of others
        and to its run; where none is known, it is sampled by the ratio. Never raises.

        A question that was asked less than `TRACE_WAIT_S` ago is waited for until then.
        """
        if not self._tracer.on:
            return None
        since_ns = self._tracer.now_ns()
        own = list(await self._of_delivery(claimed))
        run = self._runs.get(claimed.run_id)
        parent, links = (own[0], own[1:]) if own else (run, [])
        if run is not None and parent is not run:
            links.append(run)
        span = self._tracer.begin(Work.DELIVER, parent, links, since_ns)
        if span is not None:
            span.set("meterline.run_id", claimed.run_id)
            span.set("meterline.delivery_id", claimed.delivery_id)
            span.set("http.request.method", "POST")
            span.set("http.request.resend_count", claimed.attempt - 1)
        return span

    async def close(self) -> None:
        """Give up what is asked: runs whose links are not known yet have no span."""
        await given_up(set(self._telling.values()))
        await self._questions.close()

    async def _of_delivery(self, claimed: ClaimedDelivery) -> Sequence[TraceContext]:
        if len(claimed.body) > TRACED_BODY_BYTES_MAX:
            return ()
        try:
            body = _decode(claimed.body)
            from_ms, to_ms = instant_of(body.query.from_), instant_of(body.query.to)
        except _UNREADABLE:
            return ()
        question = Question(
            claimed.namespace, body.meter.eventType, from_ms, to_ms, body.run.revision
        )
        asking = self._questions.ask(question)
        if asking is not None:
            await self._wait(asking, claimed.run_id)
        return self._questions.known(question).get(body.query.subject, ())

    async def _wait(self, asking: Asking, run_id: str) -> None:
        left_s = asking.since_s + TRACE_WAIT_S - asyncio.get_running_loop().time()
        if left_s > 0:
            telling = self._telling.get(run_id)  # the run's span comes with the answer
            await asyncio.wait((asking.task, *([telling] if telling else ())), timeout=left_s)


def ended(span: Span, end: AttemptEnd) -> None:
    """An attempt ended like this. Its reason may name an address: it is not told here."""
    attempt = end.attempt
    if attempt.status is not None:
        span.set("http.response.status_code", attempt.status)
    span.set("meterline.outcome", attempt.outcome.value)
    delivered = attempt.outcome is AttemptOutcome.DELIVERED
    span.end("" if delivered else attempt.outcome.value)
