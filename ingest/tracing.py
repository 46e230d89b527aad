"""Traces of events on their way into the log: a request belongs to the trace that it or its events
bring, and its first events carry it on, in their own text.
"""

from collections.abc import Sequence

from ingest.admission import Admitted
from meterline.event import traces_of, with_trace
from meterline.http.tracing import RequestTrace
from meterline.limits import TRACE_EVENTS_MAX
from meterline.ports import Span, TraceContext, Work


def admitted_of(trace: RequestTrace, admitted: Sequence[Admitted], since_ns: int) -> None:
    """The events are admitted, since then: from here on it is known which trace they are of."""
    trace.of_events(traces_of(text for _, text in admitted))
    span = trace.child(Work.ADMIT, since_ns)
    if span is not None:
        span.set("meterline.events", len(admitted))
        span.end()


def appending(
    trace: RequestTrace, admitted: Sequence[Admitted]
) -> tuple[Span | None, Sequence[Admitted]]:
    """The span of the append, and the events as they are appended: the first ones name it, unless
    they name another.
    """
    span = trace.child(Work.APPEND)
    if span is None:
        return None, admitted
    span.set("messaging.batch.message_count", len(admitted))
    span.set("meterline.partitions", len({partition for partition, _ in admitted}))
    return span, carrying(admitted, span.context)


def carrying(admitted: Sequence[Admitted], context: TraceContext) -> list[Admitted]:
    """The events, of which the first `TRACE_EVENTS_MAX` carry a context."""
    first = [
        (partition, with_trace(text, context)) for partition, text in admitted[:TRACE_EVENTS_MAX]
    ]
    return [*first, *admitted[TRACE_EVENTS_MAX:]]
