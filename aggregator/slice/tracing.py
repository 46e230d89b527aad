"""Traces of events that are counted: each trace goes on where its events are durable in the usage
store, and a flush is linked to the traces that it holds.
"""

from collections.abc import Sequence
from typing import NamedTuple

from meterline.event import NEEDLE, Event, Record, Unreadable, traces_of
from meterline.limits import TRACE_LINKS_MAX
from meterline.ports import UNTRACED, TraceContext, Tracer, Work


class Traced(NamedTuple):
    """A trace that an event in a record belongs to, and when the record was taken in."""

    context: TraceContext
    taken_ns: int
    partition: int
    offset: int


class CountedTraces:
    """Traces between the reading of a record and the flush that makes it durable. What is read
    again is traced again. Beyond `TRACE_LINKS_MAX` in one flush, events are counted untraced.
    """

    def __init__(self, tracer: Tracer = UNTRACED) -> None:
        self.tracer = tracer
        self._taken: list[Traced] = []

    def take_in(self, record: Record, items: Sequence[Event | Unreadable]) -> None:
        """A record was taken in."""
        if not self.tracer.on or NEEDLE not in record.value:
            return
        room = TRACE_LINKS_MAX - len(self._taken)
        if room:
            texts = (it.text for it in items if isinstance(it, Event))
            now_ns = self.tracer.now_ns()
            for context in traces_of(texts, room):
                self._taken.append(Traced(context, now_ns, record.partition, record.offset))

    def take_out(self) -> list[Traced]:
        """Those of the flush that begins."""
        taken, self._taken = self._taken, []
        return taken

    def tell(self, flushed: Sequence[Traced], began_ns: int, events: int) -> None:
        """A flush, begun then, is durable. Its span ends before those of the traces that lead to
        it.
        """
        if not flushed:
            return
        flush = self.tracer.begin(
            Work.FLUSH, links=[it.context for it in flushed], since_ns=began_ns
        )
        links = []
        if flush is not None:
            flush.set("meterline.events", events)
            links = [flush.context]
            flush.end()
        for it in flushed:
            span = self.tracer.begin(Work.COUNT, it.context, links, it.taken_ns)
            if span is not None:
                span.set("meterline.partition", it.partition)
                span.set("meterline.offset", it.offset)
                span.end()
