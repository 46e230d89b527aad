"""What a trace is, and the port that steps are told to (pure): W3C Trace Context, level 1, and the
distributed tracing extension of CloudEvents (docs/decisions/0085-traces.md).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol, final

from meterline.limits import TRACE_LINKS_MAX, TRACE_STATE_CHARS_MAX

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
_SAMPLED: Final = 1  # a bit of the flags
TRACEPARENT_CHARS: Final = 55  # of version 00, which has nothing after its flags
_FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_STATE: Final = re.compile(r"[\x20-\x7e\t]+")


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A span of some trace, here or elsewhere: what its children and links name."""

    trace_id: int
    span_id: int
    sampled: bool
    state: str = ""  # of the tracing systems on the way; passed on as it came

    @property
    def trace(self) -> str:
        """The trace, as logs and pages name it: 32 hex digits."""
        return f"{self.trace_id:032x}"

    @property
    def traceparent(self) -> str:
        """As the header, and as the attribute of an event."""
        return f"00-{self.trace}-{self.span_id:016x}-{int(self.sampled):02x}"


def parse_traceparent(text: str, state: str = "") -> TraceContext | None:
    """The context that a `traceparent` names; None where it must be ignored (W3C 3.2.2).

    A higher version is read by what it has in common with version 00. A state that is too long, or
    is no printable text, is dropped alone.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    version, trace, span, flags, more = found.groups()
    if version == "ff" or (version == "00" and more is not None):
        return None
    trace_id, span_id = int(trace, 16), int(span, 16)
    if not trace_id or not span_id:
        return None
    kept = len(state) <= TRACE_STATE_CHARS_MAX and _STATE.fullmatch(state) is not None
    sampled = bool(int(flags, 16) & _SAMPLED)
    return TraceContext(trace_id, span_id, sampled, state if kept else "")


def trace_headers(context: TraceContext) -> dict[str, str]:
    """The headers that pass a context on."""
    state = {TRACESTATE: context.state} if context.state else {}
    return {TRACEPARENT: context.traceparent, **state}


def is_sampled(
    parent: TraceContext | None, links: Sequence[TraceContext], ratio: float, draw: float
) -> bool:
    """Whether a span is recorded. A child follows its parent, and what is linked follows its links,
    which are all sampled; a trace that begins here follows the ratio. `draw` is from [0, 1).
    """
    if parent is not None:
        return parent.sampled
    return bool(links) or draw < ratio


def links_of(contexts: Sequence[TraceContext]) -> list[TraceContext]:
    """Those that a span may link to: sampled, one for each trace, at most `TRACE_LINKS_MAX`."""
    first: dict[int, TraceContext] = {}
    for context in contexts:
        if context.sampled and context.trace_id not in first:
            first[context.trace_id] = context
            if len(first) == TRACE_LINKS_MAX:
                break
    return list(first.values())


class Work(Enum):
    """The steps that have spans: name and kind, in OpenTelemetry's words."""

    REQUEST = ("request", "server")
    ADMIT = ("admit events", "internal")
    APPEND = ("append to log", "producer")
    COUNT = ("count events", "consumer")
    FLUSH = ("flush", "internal")
    RUN = ("make run", "internal")
    DELIVER = ("deliver", "client")


class Span(Protocol):
    """Work under way, of a trace that is sampled. What is never ended is never exported."""

    @property
    def context(self) -> TraceContext:
        """What its children name."""
        ...

    def set(self, name: str, value: str | int) -> None:
        """An attribute: never a subject, a payload or a secret. What is long is cut."""
        ...

    def rename(self, name: str) -> None:
        """Its name, where it is known only later."""
        ...

    def end(self, failure: str = "", until_ns: int | None = None) -> None:
        """The work is done, now or then, or failed for this reason. Never waits, never raises."""
        ...


class Tracer(Protocol):
    """Where spans go. Nothing here waits, raises for the world, or keeps anything without bound."""

    @property
    def on(self) -> bool:
        """Whether anybody traces: else nothing need be looked for."""
        ...

    def now_ns(self) -> int:
        """The present, for a span that is begun later."""
        ...

    def begin(
        self,
        work: Work,
        parent: TraceContext | None = None,
        links: Sequence[TraceContext] = (),
        since_ns: int | None = None,
    ) -> Span | None:
        """Work that has begun, now or then; None where it is not sampled."""
        ...


@final
class _Untraced:
    """Where nobody traces."""

    on: Final = False

    def now_ns(self) -> int:
        """See `Tracer`."""
        return 0

    def begin(
        self,
        work: Work,  # noqa: ARG002 - as the port has it
        parent: TraceContext | None = None,  # noqa: ARG002
        links: Sequence[TraceContext] = (),  # noqa: ARG002
        since_ns: int | None = None,  # noqa: ARG002
    ) -> Span | None:
        """See `Tracer`."""
        return None


UNTRACED: Final[Tracer] = _Untraced()
