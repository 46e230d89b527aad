"""A tracer that keeps what it is told, for steps that are tested without OpenTelemetry."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from meterline.ports import Span, TraceContext, Work, is_sampled, links_of


@dataclass(slots=True)
class Page:
    """A span as it was told."""

    work: Work
    context: TraceContext
    parent: TraceContext | None
    links: list[TraceContext]
    since_ns: int | None
    name: str = ""
    attributes: dict[str, str | int] = field(default_factory=dict)
    ended: bool = False
    failure: str = ""
    until_ns: int | None = None

    def set(self, name: str, value: str | int) -> None:
        self.attributes[name] = value

    def rename(self, name: str) -> None:
        self.name = name

    def end(self, failure: str = "", until_ns: int | None = None) -> None:
        assert not self.ended, "once"
        self.ended, self.failure, self.until_ns = True, failure, until_ns


class Book:
    """`Tracer`: every span is kept, in the order in which they began. Time is a count."""

    on = True

    def __init__(self, ratio: float = 0.0) -> None:
        self.ratio = ratio
        self.pages: list[Page] = []
        self._numbers = count(1)

    def now_ns(self) -> int:
        return next(self._numbers)

    def begin(
        self,
        work: Work,
        parent: TraceContext | None = None,
        links: Sequence[TraceContext] = (),
        since_ns: int | None = None,
    ) -> Span | None:
        linked = links_of(links)
        if not is_sampled(parent, linked, self.ratio, 0.5):
            return None
        number = next(self._numbers)
        trace_id = number << 64 if parent is None else parent.trace_id
        page = Page(work, TraceContext(trace_id, number, sampled=True), parent, linked, since_ns)
        self.pages.append(page)
        return page

    def ended(self, work: Work) -> list[Page]:
        return [page for page in self.pages if page.work is work and page.ended]
