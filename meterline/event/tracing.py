"""The trace that an event belongs to: the distributed tracing extension of CloudEvents. It is read
from the event's text as it stands in the log: what counts an event knows nothing of it.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from meterline.limits import TRACE_LINKS_MAX
from meterline.ports import TRACEPARENT, TraceContext, parse_traceparent

NEEDLE: Final = b'"traceparent"'  # in a text that may have the attribute


class _Traced(msgspec.Struct, gc=False):
    """The attributes of the extension."""

    traceparent: str | None = None
    tracestate: str | None = None


_decode: Final = msgspec.json.Decoder(_Traced).decode
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def trace_of(text: bytes) -> TraceContext | None:
    """The context that the event brings; None where it brings none that can be read."""
    if NEEDLE not in text:
        return None
    try:
        found = _decode(text)
    except _UNREADABLE:
        return None
    return parse_traceparent(found.traceparent or "", found.tracestate or "")


def traces_of(
    texts: Iterable[bytes], at_most: int = TRACE_LINKS_MAX, tries: int = 2 * TRACE_LINKS_MAX
) -> list[TraceContext]:
    """Sampled contexts of the first events that have some, each once. So many events that seem to
    have one are looked into, no more.
    """
    found: dict[TraceContext, None] = {}
    for text in texts:
        if NEEDLE in text:
            context = trace_of(text)
            if context is not None and context.sampled:
                found[context] = None
            tries -= 1
            if len(found) == at_most or not tries:
                break
    return list(found)


def with_trace(text: bytes, context: TraceContext) -> bytes:
    """The event with the attribute `traceparent`, unless it may have it by any spelling, or a
    `tracestate`, which belongs to a trace of its own. Who reads it is told of the trace; identity
    and contents are the same.
    """
    if b"traceparent" in text or b"tracestate" in text or b"\\" in text:
        return text
    return b'%b,"%b":"%b"}' % (text[:-1], TRACEPARENT.encode(), context.traceparent.encode())
