"""Partitions that stand still although the log goes on.

When partitions move between workers, Faust is known to drop what it had fetched and not handed on;
a record that nothing follows is then never brought. The log is asked, and it is read from there.
"""

from collections.abc import Collection
from typing import Final

from meterline.event import Log
from meterline.limits import SILENT_AFTER_S, SILENT_BESIDE_OTHERS_AFTER_S, STALLED_AFTER_S

_SILENT_MS: Final = SILENT_AFTER_S * 1_000
_BESIDE_OTHERS_MS: Final = SILENT_BESIDE_OTHERS_AFTER_S * 1_000
_STALLED_MS: Final = STALLED_AFTER_S * 1_000


class LagWatch:
    """By the clock that it is told. Asks the log at most once in SILENT_AFTER_S of a partition that
    stands, and never of one that moves.

    Where the clock was turned, or the process was stopped for a while, nobody knows how long a
    partition stands: that is counted anew.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        # offset, since when it stands there with something behind it, when the log was asked
        self._stands: dict[int, tuple[int, int, int]] = {}
        self._received_ms: int | None = None
        self._looked_ms: int | None = None

    def received(self, now_ms: int) -> None:
        """A record came, of whichever partition."""
        self._received_ms = now_ms

    async def behind(self, number: int, next_offset: int, now_ms: int) -> int | None:
        """The end of the log where a partition stands before it and should be read from there;
        else None. Raises `RuntimeError` where that did not help: a new process is the cure. Raises
        `Unavailable`.
        """
        self._look(now_ms)
        offset, since_ms, asked_ms = self._stands.get(number, (-1, now_ms, now_ms))
        if next_offset != offset:
            self._stands[number] = (next_offset, now_ms, now_ms)
            return None
        busy = self._received_ms is not None and now_ms - self._received_ms <= _SILENT_MS
        if now_ms - asked_ms <= (_BESIDE_OTHERS_MS if busy else _SILENT_MS):
            return None
        end = await self._log.end(number)
        if end <= offset:
            self._stands[number] = (offset, now_ms, now_ms)
            return None
        if now_ms - since_ms > _STALLED_MS:
            raise RuntimeError(f"partition {number} is stuck at {offset}, but the log has more")
        self._stands[number] = (offset, since_ms, now_ms)
        return end

    def _look(self, now_ms: int) -> None:
        passed_ms = 0 if self._looked_ms is None else now_ms - self._looked_ms
        if not 0 <= passed_ms <= _BESIDE_OTHERS_MS:  # looks come many times a second
            self.reset()
            self._received_ms = None
        self._looked_ms = now_ms

    def forget(self, numbers: Collection[int]) -> None:
        """Partitions that are others' now."""
        for number in numbers:
            self._stands.pop(number, None)

    def reset(self) -> None:
        """Who waits for a store or for the log does not stand still."""
        self._stands.clear()
