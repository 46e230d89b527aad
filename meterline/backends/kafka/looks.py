"""How recently brokers said how many partitions a topic has (pure).

A broker that leads a partition behind a mark knows of the growth: it was asked before the mark was
appended, or it was elected since then. So whoever tells success asks the leader that took the
record in, after it did; or did so soon before, by two clocks. The clock of this machine may stand
still together with everything that runs on it. That of the leader, which append times are of, may
step back, or be another one's. Each is enough to notice what the other one does not.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Look(NamedTuple):
    """A question to a broker: when it was asked, and which records had come to the log by then: by
    partition, the append time of the last one.
    """

    at_s: float
    appended_ms: Mapping[int, int]


class Looks:
    """What brokers were asked, and when, where a look is good for `known_s` seconds."""

    def __init__(self, known_s: float) -> None:
        self._known_s = known_s
        self._appended_ms: dict[int, int] = {}
        self._last: dict[int, Look] = {}

    def appended(self, partition: int, append_ms: int | None) -> None:
        """A record came to the log; None where the broker does not say when."""
        if append_ms is not None:
            self._appended_ms[partition] = append_ms

    def begun(self, at_s: float) -> Look:
        """A question, before it is asked."""
        return Look(at_s, dict(self._appended_ms))

    def ended(self, broker: int, look: Look) -> None:
        """A broker has answered."""
        self._last[broker] = look

    def is_recent(self, at_s: float) -> bool:
        """Whether some broker was asked a moment ago, by the clock of this machine."""
        return any(self._is_near(look, at_s) for look in self._last.values())

    def holds(self, broker: int, partition: int, append_ms: int | None, at_s: float) -> bool:
        """Whether a record that came to the log at `append_ms` did so soon after this broker was
        asked, or before.
        """
        look = self._last.get(broker)
        if look is None or append_ms is None or not self._is_near(look, at_s):
            return False
        before_ms = look.appended_ms.get(partition)
        return before_ms is not None and abs(append_ms - before_ms) <= 1_000 * self._known_s

    def _is_near(self, look: Look, at_s: float) -> bool:
        return 0 <= at_s - look.at_s <= self._known_s
