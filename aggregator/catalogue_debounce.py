"""When a worker looks for a newer catalogue (pure; docs/architecture.md, "Meters that change").

Taking one on reads something of each open slice. So changes that follow each other are taken
together: from one to the next there is as much time as the last one took.
"""

from meterline.limits import CATALOGUE_PAUSE_MS_MAX, CATALOGUE_POLL_MS


def passed(now_ms: int, since_ms: int, pause_ms: int) -> bool:
    """Whether a pause is over. A clock that was set back ends it: else what is due would wait for
    the clock to come to where it was.
    """
    return not 0 <= now_ms - since_ms < pause_ms


class CatalogueDebounce:
    """Asked before each look at the catalogue, told after it."""

    def __init__(self) -> None:
        self._asked_ms = 0
        self._begun_ms: int | None = None  # of the one that is on its way
        self._settled_ms = self._pause_ms = 0

    def due(self, now_ms: int, *, adopting: bool) -> bool:
        """Whether the catalogue may be looked at. While one is on its way, there is no need to."""
        if adopting:
            return False
        if self._begun_ms is not None:
            took_ms = min(max(0, now_ms - self._begun_ms), CATALOGUE_PAUSE_MS_MAX)
            self._begun_ms, self._settled_ms, self._pause_ms = None, now_ms, took_ms
        if not passed(now_ms, self._asked_ms, CATALOGUE_POLL_MS):
            return False
        return passed(now_ms, self._settled_ms, self._pause_ms)

    def looked(self, now_ms: int, *, adopting: bool) -> None:
        """What came of it: a newer one is on its way, or there was none."""
        self._asked_ms = now_ms
        if adopting:
            self._begun_ms = now_ms
