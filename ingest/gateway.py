"""The gateway: POST of events over HTTP (contract section 4.1; OpenMeter's v3).

It needs the log and nothing else: it goes on while every other part is away.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from aiohttp import web

from ingest.admission import AdmissionRules, Admitted, BodyForm, admit, body_form
from ingest.binary_mode import HTTP_PREFIX, event_text, http_attributes
from ingest.event_shape import EXAMPLE, EventBatch, EventBody
from ingest.publisher import Publisher
from ingest.tracing import admitted_of, appending
from meterline.access import Principal, Scope
from meterline.event import Event, decode_event
from meterline.http import read_body
from meterline.http.gate import Gate
from meterline.http.mounting import OLD_PREFIXES, V3_PREFIXES, mount
from meterline.http.operation import Answer, Bound, Call, Operation, bind, raw_body
from meterline.http.shapes import AnyParameters
from meterline.http.tracing import RequestTrace, current_trace
from meterline.limits import BODY_BYTES_MAX
from meterline.ports import SILENT, Clock, Recorder, metrics
from meterline.problem import Problem, ProblemType

_BODY: Final = raw_body(
    {
        BodyForm.ONE.value: EventBody,
        BodyForm.BATCH.value: EventBatch,
        BodyForm.EITHER.value: EventBody | EventBatch,
    },
    {
        BodyForm.ONE.value: EXAMPLE,
        BodyForm.BATCH.value: [EXAMPLE],
        BodyForm.EITHER.value: EXAMPLE,
    },
    BODY_BYTES_MAX,
)
_DESCRIPTION: Final = """\
A 2xx answer means that every event is durable. They are counted within seconds.
A request is accepted or refused as a whole. After 503 and network errors send the same events
again: duplicates (the same `source` and `id`) are never counted. Bodies may be compressed with
gzip.

Binary mode of CloudEvents is accepted too. Then the attributes are headers: `ce-id`, `ce-source`,
`ce-type`, `ce-subject`, `ce-specversion` and so on. `Content-Type` is `application/json`, and the
body is the data."""

INGEST: Final = Operation(
    id="ingest-metering-events",
    route="POST /events",
    tag="Events",
    summary="Send one usage event or a batch",
    description=_DESCRIPTION,
    scope=Scope.EVENTS_WRITE,
    body=_BODY,
    answer=Answer(202, "Every event is durable."),
    problems=(ProblemType.INVALID_EVENT,),
)
V1_INGEST: Final = Operation(
    id="ingestEvents",
    route="POST /v1/events",
    tag="Events",
    summary="Send one usage event or a batch",
    description=_DESCRIPTION,
    scope=Scope.EVENTS_WRITE,
    parameters=AnyParameters,
    body=_BODY,
    answer=Answer(204, "Every event is durable."),
    problems=(ProblemType.INVALID_EVENT,),
)


class Gateway:
    """Takes in events: those that are posted, and refused ones that are sent again on behalf of a
    person (`control.refusals.service.Gateway`).
    """

    def __init__(
        self,
        publisher: Publisher,
        rules: AdmissionRules,
        clock: Clock,
        gate: Gate,
        body_bytes_max: int = BODY_BYTES_MAX,
        recorder: Recorder = SILENT,
    ) -> None:
        self._recorder = recorder
        self._publisher = publisher
        self._rules = rules
        self._clock = clock
        self._gate = gate
        self._body_bytes_max = body_bytes_max

    def v3(self) -> list[Bound]:
        """What it answers below the prefixes of v3."""
        return [bind(INGEST, partial(self._post, 202))]

    def v1(self) -> list[Bound]:
        """What it answers in v1."""
        return [bind(V1_INGEST, partial(self._post, 204))]

    def judge(self, namespace: str, text: bytes) -> Event:
        """The event that a text would be. Raises `Problem` (invalid-event) with every fault."""
        now_ms = self._clock.now_ms()
        ((_, spliced),) = admit(text, BodyForm.ONE, namespace, now_ms, self._current_rules())
        return decode_event(spliced)

    def take(self, request: web.Request, principal: Principal, count: int) -> None:
        """Count events against the caller's plan. Raises `Problem` (rate-limited)."""
        try:
            self._gate.take_events(request, principal, count)
        except Problem:
            self._recorder.count(metrics.INGEST_EVENTS, count, "rate_limited")
            raise

    async def let_in(self, namespace: str, texts: Sequence[bytes]) -> None:
        """Return once all are durable. Raises `Problem`: invalid-event, then none is in; or
        unavailable, then it is not known, and sending them again is safe.
        """
        now_ms, rules = self._clock.now_ms(), self._current_rules()
        admitted = [
            one for text in texts for one in admit(text, BodyForm.ONE, namespace, now_ms, rules)
        ]
        await self._publisher.publish(admitted, now_ms, rules.partitions)

    def _current_rules(self) -> AdmissionRules:
        """The rules, by the partitions that the log has now."""
        partitions = self._publisher.partitions
        if self._rules.partitions != partitions:
            self._rules = replace(self._rules, partitions=partitions)
        return self._rules

    async def _post(self, status: int, call: Call[Any, None]) -> web.Response:
        """The answer once all is durable."""
        request, principal = call.request, call.principal
        trace = current_trace()  # None where traces are off
        since_ns = 0 if trace is None else trace.tracer.now_ns()
        try:
            admitted, recorded_ms, partitions = await self._admitted(request, principal)
        except Problem:
            self._recorder.count(metrics.INGEST_REFUSED, 1)
            raise
        if trace is not None:
            admitted_of(trace, admitted, since_ns)
        self.take(request, principal, len(admitted))
        if trace is None:
            await self._publisher.publish(admitted, recorded_ms, partitions)
        else:
            await self._publish_traced(trace, admitted, recorded_ms, partitions)
        return web.Response(status=status)

    async def _publish_traced(
        self,
        trace: RequestTrace,
        admitted: Sequence[Admitted],
        recorded_ms: int,
        partitions: int,
    ) -> None:
        span, events = appending(trace, admitted)
        try:
            await self._publisher.publish(events, recorded_ms, partitions)
        except Problem as problem:
            if span is not None:
                span.end(problem.type.slug)
            raise
        if span is not None:
            span.end()

    async def _admitted(
        self, request: web.Request, principal: Principal
    ) -> tuple[list[Admitted], int, int]:
        """The events of a request, when they were recorded, and by how many partitions."""
        form, attributes = _form_of(request)
        body = await read_body(request, self._body_bytes_max)
        if attributes:
            body = event_text(attributes, _media_type(request), body, HTTP_PREFIX)
        recorded_ms, rules = self._clock.now_ms(), self._current_rules()
        admitted = admit(body, form, principal.namespace, recorded_ms, rules)
        return admitted, recorded_ms, rules.partitions


def _form_of(request: web.Request) -> tuple[BodyForm, list[tuple[str, bytes]]]:
    """What the body holds; in binary mode, the attributes that stand in the headers."""
    if not _media_type(request).startswith("application/cloudevents"):
        attributes = http_attributes(request.raw_headers)
        if attributes:
            return BodyForm.ONE, attributes
    return body_form(request.headers.get("Content-Type")), []


def _media_type(request: web.Request) -> str:
    return request.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def routes(gateway: Gateway, gate: Gate) -> list[web.RouteDef]:
    """Where events are posted; the gate is the gateway's own."""
    return mount(gateway.v3(), V3_PREFIXES, gate) + mount(gateway.v1(), OLD_PREFIXES, gate)
