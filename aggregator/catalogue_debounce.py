"""When a worker adopts a newer catalogue (pure; docs/architecture.md, "Meters that change").

Each one costs reading the open slices again. So changes are taken together: at most one in 5
seconds, and in five times what the last reading took; counting then gets four fifths of the time.
"""

from collections.abc import Mapping

from meterline.limits import (
    CATALOGUE_PAUSE_MS,
    CATALOGUE_PAUSE_MS_MAX,
    CATALOGUE_POLL_MS,
    REREADS_PER_CATALOGUE,
)


def passed(now_ms: int, since_ms: int, pause_ms: int) -> bool:
    """Whether a pause is over. A clock that was set back ends it: else what is due would wait for
    the clock to come to where it was.
    """
    return not 0 <= now_ms - since_ms < pause_ms


class CatalogueDebounce:
    """Asked before each look at the catalogue, told after it. Offsets are `next_offset`, by
    partition.
    """

    def __init__(self) -> None:
        self._asked_ms = 0
        self._changed_ms: int | None = None
        self._reread_ms: int | None = None  # None while the last reading goes on
        self._ends: dict[int, int] = {}  # what is to be reached again

    def due(self, now_ms: int, reached: Mapping[int, int]) -> bool:
        """Whether the catalogue may be looked at. Of partitions that were given up, nothing is
        waited for.
        """
        if not passed(now_ms, self._asked_ms, CATALOGUE_POLL_MS):
            return False
        if self._changed_ms is None:
            return True
        if self._reread_ms is None:
            if any(reached.get(number, end) < end for number, end in self._ends.items()):
                return passed(now_ms, self._changed_ms, CATALOGUE_PAUSE_MS_MAX)
            self._reread_ms = max(0, now_ms - self._changed_ms)
        pause_ms = max(CATALOGUE_PAUSE_MS, REREADS_PER_CATALOGUE * self._reread_ms)
        return passed(now_ms, self._changed_ms, min(pause_ms, CATALOGUE_PAUSE_MS_MAX))

    def looked(self, now_ms: int) -> None:
        """There was none that is newer."""
        self._asked_ms = now_ms

    def changed(self, now_ms: int, ends: Mapping[int, int]) -> None:
        """A newer one was taken on; partitions had been read up to `ends`."""
        self._asked_ms = self._changed_ms = now_ms
        self._reread_ms = None
        self._ends = dict(ends)
