"""Traces by OpenTelemetry, sent by OTLP over HTTP: `Tracer`. Loaded only where traces are on.

Spans wait in a queue of the SDK, and a thread of it sends them. A collector that is away or slow
costs the spans, and nothing else: who begins or ends a span never waits. What is lost is counted.
"""

import logging
import random
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final, final

import structlog
from opentelemetry import trace as api
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace.propagation import set_span_in_context

from meterline import limits
from meterline.backends.clock import SystemClock
from meterline.ports import (
    SILENT,
    Recorder,
    Span,
    TraceContext,
    Work,
    is_sampled,
    links_of,
    metrics,
)

_log: Final = structlog.get_logger("traces")
_KINDS: Final = {
    "server": api.SpanKind.SERVER,
    "client": api.SpanKind.CLIENT,
    "producer": api.SpanKind.PRODUCER,
    "consumer": api.SpanKind.CONSUMER,
    "internal": api.SpanKind.INTERNAL,
}


@final
class OtlpSpan:
    """See `meterline.ports.Span`."""

    def __init__(self, tracer: "OtlpTracer", span: api.Span) -> None:
        self._tracer = tracer
        self._span = span

    @property
    def context(self) -> TraceContext:
        """See the port."""
        it = self._span.get_span_context()
        return TraceContext(it.trace_id, it.span_id, sampled=True, state=it.trace_state.to_header())

    def set(self, name: str, value: str | int) -> None:
        """See the port."""
        self._span.set_attribute(name, value)

    def rename(self, name: str) -> None:
        """See the port."""
        self._span.update_name(name)

    def end(self, failure: str = "", until_ns: int | None = None) -> None:
        """See the port."""
        if failure:
            reason = failure[: limits.TRACE_ATTRIBUTE_CHARS_MAX]
            self._span.set_status(api.Status(api.StatusCode.ERROR, reason))
        if self._tracer.admits():
            self._span.end(until_ns)


class OtlpTracer:
    """See `meterline.ports.Tracer`. For the thread that made it. It is not `on` where the standard
    variable `OTEL_SDK_DISABLED` is `true`; the log tells so.
    """

    def __init__(
        self,
        exporter: SpanExporter,
        ratio: float,
        resource: Mapping[str, str],
        recorder: Recorder = SILENT,
        *,
        clock: SystemClock | None = None,
        every_ms: int = limits.SPANS_EXPORT_EVERY_MS,
        queued_max: int = limits.SPANS_QUEUED_MAX,
        per_second_max: int = limits.SPANS_PER_SECOND_MAX,
    ) -> None:
        self._ratio = ratio
        self._recorder = recorder
        self._clock = clock or SystemClock()
        self._queued_max = queued_max
        self._per_second_max = per_second_max
        self._second, self._begun = 0, 0
        self._ended = 0
        self._telling = _Telling(exporter, recorder)
        self._processor = BatchSpanProcessor(
            self._telling,
            max_queue_size=queued_max,
            schedule_delay_millis=every_ms,
            max_export_batch_size=min(limits.SPANS_EXPORTED_MAX, queued_max),
        )
        bounds = SpanLimits(
            max_span_attributes=32,
            max_links=limits.TRACE_LINKS_MAX,
            max_events=0,
            max_span_attribute_length=limits.TRACE_ATTRIBUTE_CHARS_MAX,
        )
        self._provider = TracerProvider(
            sampler=ALWAYS_ON,  # what is not sampled never comes here
            resource=Resource.create(dict(resource)),
            span_limits=bounds,
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(self._processor)
        self._tracer = self._provider.get_tracer("meterline")
        self.on: Final = not isinstance(self._tracer, api.NoOpTracer)
        if not self.on:
            _log.warning("traces", action="disabled", reason="OTEL_SDK_DISABLED is set")

    def now_ns(self) -> int:
        """See the port."""
        return self._clock.now_ns()

    def begin(
        self,
        work: Work,
        parent: TraceContext | None = None,
        links: Sequence[TraceContext] = (),
        since_ns: int | None = None,
    ) -> Span | None:
        """See the port."""
        linked = links_of(links)
        draw = random.random()  # noqa: S311 - of a sample
        if not is_sampled(parent, linked, self._ratio, draw) or not self._has_room():
            return None
        name, kind = work.value
        context = None
        if parent is not None:
            context = set_span_in_context(api.NonRecordingSpan(_theirs(parent)))
        span = self._tracer.start_span(
            name,
            context=context,
            kind=_KINDS[kind],
            links=[api.Link(_theirs(it)) for it in linked],
            start_time=since_ns,
        )
        if not span.is_recording():
            return None  # its ids are 0 or its parent's, and no event may carry them
        return OtlpSpan(self, span)

    def _has_room(self) -> bool:
        """Callers decide what is sampled, so they must not decide how much."""
        second = self._clock.now_ms() // 1_000
        if second != self._second:
            self._second, self._begun = second, 0
        self._begun += 1
        if self._begun <= self._per_second_max:
            return True
        self._recorder.count(metrics.TRACE_SPANS, 1, "dropped")
        return False

    def admits(self) -> bool:
        """Whether one more may wait to be sent; it is counted."""
        if self._ended - self._telling.done >= self._queued_max:
            self._recorder.count(metrics.TRACE_SPANS, 1, "dropped")
            return False
        self._ended += 1
        return True

    def close(self) -> None:
        """Send what waits, for a moment; call it in a thread. What is not sent then is lost."""
        timeout_ms = round(limits.SPANS_STOP_S * 1_000)
        closing = threading.Thread(target=self._shut_down, args=(timeout_ms,), daemon=True)
        closing.start()
        closing.join(limits.SPANS_STOP_S + 1)

    def _shut_down(self, timeout_ms: int) -> None:
        batches: Any = self._processor._batch_processor  # noqa: SLF001 - the only way to a bound
        batches.shutdown(timeout_millis=timeout_ms)


def _theirs(context: TraceContext) -> api.SpanContext:
    return api.SpanContext(
        context.trace_id,
        context.span_id,
        is_remote=True,
        trace_flags=api.TraceFlags(int(context.sampled)),
        trace_state=api.TraceState.from_header([context.state]) if context.state else None,
    )


class _Telling(SpanExporter):
    """Counts what is sent and what is not, and tells the log when that changes: once, not for each
    try.
    """

    def __init__(self, exporter: SpanExporter, recorder: Recorder) -> None:
        self._exporter = exporter
        self._recorder = recorder
        self._away = False
        self.done = 0  # spans that wait no more

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """In the thread of the SDK."""
        try:
            result = self._exporter.export(spans)
        except Exception as error:  # noqa: BLE001 - the thread must go on, whatever it is
            result, reason = SpanExportResult.FAILURE, type(error).__name__
        else:
            reason = "the collector does not take them"
        self.done += len(spans)
        sent = result is SpanExportResult.SUCCESS
        outcome = "exported" if sent else "failed"
        self._recorder.count(metrics.TRACE_SPANS, len(spans), outcome)
        if sent and self._away:
            _log.info("traces", action="resumed")
        elif not sent and not self._away:
            _log.warning("traces", action="unavailable", reason=reason)
        self._away = not sent
        return result

    def shutdown(self) -> None:
        """See `SpanExporter`."""
        self._exporter.shutdown()


def exporter_to(url: str) -> SpanExporter:
    """What sends to a collector. It also reads the standard variables
    `OTEL_EXPORTER_OTLP_HEADERS`, `_CERTIFICATE`, `_CLIENT_KEY`, `_CLIENT_CERTIFICATE` and
    `_COMPRESSION`; the SDK reads `OTEL_RESOURCE_ATTRIBUTES`.
    """
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # it tells each try; see above
    return OTLPSpanExporter(endpoint=url, timeout=limits.SPANS_EXPORT_S)
