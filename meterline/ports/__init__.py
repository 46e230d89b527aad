"""What all ports have in common: their errors, the clock, and where measurements and
traces go. Each room has
the ports of its nouns in its own `ports`; each port has one contract suite over all its adapters
(tests/contract).

Every method that writes is durable when it returns, unless it says otherwise, and may be called
again with the same arguments with the same effect. Errors of the world are raised as `Unavailable`;
a step never swallows one.
"""

from typing import Protocol

from meterline.ports import declared as metrics
from meterline.ports.metric import OTHER, SILENT, Kind, Label, Metric, Recorder, Tell
from meterline.ports.trace import (
    TRACEPARENT,
    TRACEPARENT_CHARS,
    TRACESTATE,
    UNTRACED,
    Span,
    TraceContext,
    Tracer,
    Work,
    is_sampled,
    links_of,
    parse_traceparent,
    trace_headers,
)


class Unavailable(Exception):
    """Something outside did not answer or refused for now. What was asked may or may not have
    happened.
    """


class ChangedMeanwhile(Unavailable):
    """What was read changed while it was read: nothing is wrong, ask again at once."""


class OutdatedMeters(Unavailable):
    """What was counted by old meters cannot be taken any more: count it again by newer ones."""


class StoreLost(Unavailable):
    """A store answers, but does not hold what was written to it: no answer may rest on it.

    The text says what is missing, and what an operator can do.
    """


class SeenDamaged(Unavailable):
    """A seen store cannot be read. It is discarded and rebuilt: nothing is lost."""


class Unsuitable(Exception):
    """What is found outside does not fit the settings, or is held by another process.

    The text says what to do; trying again does not help.
    """


class Clock(Protocol):
    """Wall time; only shells and composition read it, rules take instants as arguments."""

    def now_ms(self) -> int:
        """Unix milliseconds."""
        ...


class AccessRefused(Unavailable):
    """A server answers, but not to this user, password or database: a person must correct it."""
