"""Lines about a fault that repeats: some are written each minute, and how many were left out.

While a store is away, each request could write a line, and clients of servers write many a second.
They would fill a disk, and hide what else happens.
"""

import logging
import sys
import threading
from collections.abc import Callable, Hashable, MutableMapping
from typing import Any, Final

import structlog

from meterline.limits import LOG_REPEAT_S, LOG_REPEATS_KNOWN_MAX, LOG_REPEATS_MAX

LEFT_OUT: Final = "left_out"
_OF_FAULTS: Final = frozenset({"warning", "error", "critical"})
# Two lines that differ in nothing else are of one fault.
_OF_ONE_LINE: Final = frozenset(
    {"request", "trace_id", "where", "delivery", "wait_s", "seconds", "exc_info"}
)


class Repeats:
    """Which lines are left out. A line that is new in a minute is written."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s  # asked by any thread
        self._known: dict[Hashable, tuple[float, int]] = {}  # since when, and how many
        # Clients of servers write lines from threads of their own. A thread may come back while it
        # holds it: what the collector ends within may write a line, such as a task that is lost.
        self._lock = threading.RLock()

    def admit(self, line: Hashable) -> int | None:
        """How many lines like this one were left out until now; None: leave it out, too."""
        with self._lock:
            return self._admitted(line, self._now_s())

    def _admitted(self, line: Hashable, now_s: float) -> int | None:
        since_s, number = self._known.get(line, (now_s, 0))
        if number and 0 <= now_s - since_s < LOG_REPEAT_S:  # a clock may be set back
            self._known[line] = since_s, number + 1
            return 0 if number < LOG_REPEATS_MAX else None
        self._known.pop(line, None)
        if len(self._known) >= LOG_REPEATS_KNOWN_MAX:
            del self._known[next(iter(self._known))]  # the one that began first
        self._known[line] = now_s, 1
        return max(0, number - LOG_REPEATS_MAX)


def sparing(repeats: Repeats) -> structlog.types.Processor:
    """For lines of our own; it stands before what adds the time."""

    def processor(
        _logger: Any, _method: str, fields: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        if fields["level"] in _OF_FAULTS:
            facts = {name: repr(it) for name, it in fields.items() if name not in _OF_ONE_LINE}
            left_out = repeats.admit((*sorted(facts.items()), _raised(fields.get("exc_info"))))
            if left_out is None:
                raise structlog.DropEvent
            if left_out:
                fields[LEFT_OUT] = left_out
        return fields

    return processor


def _raised(exc_info: Any) -> str:
    """The exception that a line tells of; "" where it tells of none."""
    if isinstance(exc_info, BaseException):
        return repr(exc_info)
    return repr(sys.exc_info()[1]) if exc_info else ""


class Sparing(logging.Filter):
    """The same, for lines of libraries."""

    def __init__(self, repeats: Repeats) -> None:
        super().__init__()
        self._repeats = repeats

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is written."""
        text = record.getMessage()
        left_out = self._repeats.admit((record.name, record.levelno, text))
        if left_out:
            record.msg, record.args = f"{text} ({LEFT_OUT}={left_out})", ()
        return left_out is not None
