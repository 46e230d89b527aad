"""Traces of what is reported: the trace of an event ends with the delivery that reports it.

Which events a delivery reports is asked of the usage store: once for each meter and window in each
process, one question at a time, and no longer than a moment. Where that is not known, deliveries
are sent untraced, or traced alone.
"""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec
import structlog

from meterline.delivery import AttemptEnd, AttemptOutcome, ClaimedDelivery
from meterline.event import EventTraces, instant_of
from meterline.limits import (
    TRACE_LOOK_S,
    TRACED_BODY_BYTES_MAX,
    TRACED_RUNS_REMEMBERED_MAX,
)
from meterline.meter import Meter
from meterline.ports import UNTRACED, Span, TraceContext, Tracer, Unavailable, Work
from meterline.report import Run

_log: Final = structlog.get_logger("dispatcher")
_UNREADABLE: Final = (ValueError, RecursionError)


class _Asked(msgspec.Struct, rename={"from_": "from"}):
    """Of a body, what it reports."""

    from_: str
    to: str
    subject: str


class _Meter(msgspec.Struct):
    eventType: str  # noqa: N815 - as it is sent


class _Body(msgspec.Struct):
    query: _Asked
    meter: _Meter


class Question(NamedTuple):
    """Of which events traces are asked for."""

    namespace: str
    event_type: str
    from_ms: int
    to_ms: int


_decode: Final = msgspec.json.Decoder(_Body).decode
K = TypeVar("K")
V = TypeVar("V")
BySubject = Mapping[str, Sequence[TraceContext]]


class ReportTraces:
    """Spans of runs and of attempts. `events` says which traces the reported events belong to."""

    def __init__(self, tracer: Tracer = UNTRACED, events: EventTraces | None = None) -> None:
        self._tracer = tracer
        self._events = events
        # The oldest of both are forgotten. Reports on one meter ask the same question.
        self._known: OrderedDict[Question, asyncio.Task[BySubject]] = OrderedDict()
        self._runs: OrderedDict[str, TraceContext] = OrderedDict()
        self._turn = asyncio.Semaphore(1)  # whoever counts and reports has the store for the rest

    @property
    def on(self) -> bool:
        """See `Tracer`."""
        return self._tracer.on

    def now_ns(self) -> int:
        """See `Tracer`."""
        return self._tracer.now_ns()

    async def decided(self, run: Run, meter: Meter, since_ns: int) -> None:
        """A run was made, since then, and is decided. Never raises for the world."""
        question = Question(meter.namespace, meter.event_type, run.from_ms, run.to_ms)
        links = [it for found in (await self._traced(question)).values() for it in found]
        span = self._tracer.begin(Work.RUN, links=links, since_ns=since_ns)
        if span is None:
            return
        span.set("meterline.run_id", run.id)
        span.set("meterline.report_id", run.report_id)
        _remember(self._runs, run.id, span.context)
        span.end()

    async def attempt(self, claimed: ClaimedDelivery) -> Span | None:
        """An attempt begins: in the trace of an event that it reports, linked to those of others
        and to its run; where none is known, it is sampled by the ratio. Never raises.
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

    async def _of_delivery(self, claimed: ClaimedDelivery) -> Sequence[TraceContext]:
        if len(claimed.body) > TRACED_BODY_BYTES_MAX:
            return ()
        try:
            body = _decode(claimed.body)
            from_ms, to_ms = instant_of(body.query.from_), instant_of(body.query.to)
        except _UNREADABLE:
            return ()
        question = Question(claimed.namespace, body.meter.eventType, from_ms, to_ms)
        found = await self._traced(question)
        return found.get(body.query.subject, ())

    def _traced(self, question: Question) -> asyncio.Future[BySubject]:
        """The answer; asked once, however many runs and deliveries wait for it."""
        asking = self._known.get(question)
        if asking is None:
            asking = asyncio.create_task(self._ask(question))
            _remember(self._known, question, asking)
        return asyncio.shield(asking)

    async def _ask(self, question: Question) -> BySubject:
        found: dict[str, list[TraceContext]] = defaultdict(list)
        if self._events is None:
            return found
        try:
            async with asyncio.timeout(TRACE_LOOK_S), self._turn:
                for subject, context in await self._events.traced(*question):
                    if context not in found[subject]:
                        found[subject].append(context)
        except (Unavailable, TimeoutError) as error:
            _log.debug("traces", action="unavailable", reason=str(error))
        except Exception:  # noqa: BLE001 - a trace must not keep a delivery from being sent
            _log.exception("traces", action="failed")
        return found


def ended(span: Span, end: AttemptEnd) -> None:
    """An attempt ended like this. Its reason may name an address: it is not told here."""
    attempt = end.attempt
    if attempt.status is not None:
        span.set("http.response.status_code", attempt.status)
    span.set("meterline.outcome", attempt.outcome.value)
    delivered = attempt.outcome is AttemptOutcome.DELIVERED
    span.end("" if delivered else attempt.outcome.value)


def _remember(kept: OrderedDict[K, V], name: K, value: V) -> None:
    kept[name] = value
    if len(kept) > TRACED_RUNS_REMEMBERED_MAX:
        kept.popitem(last=False)
