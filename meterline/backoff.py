"""Backoff: waits that double from one failure to the next, up to a bound. Every loop that tries
again waits by it.
"""

from meterline.limits import WORKER_BACKOFF_MAX_S, WORKER_BACKOFF_MIN_S


class Backoff:
    """Seconds to wait after failures in a row, the first time `first_s`."""

    def __init__(
        self, first_s: float = WORKER_BACKOFF_MIN_S, longest_s: float = WORKER_BACKOFF_MAX_S
    ) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._full_s = first_s

    def next_s(self, draw: float = 1.0) -> float:
        """The next wait. `draw`, from 0 to 1, is the part of it that is waited: a random one
        spreads those that failed together.
        """
        full_s = self._full_s
        self._full_s = min(2 * full_s, self._longest_s)
        return full_s * draw

    def reset(self) -> None:
        """Something worked."""
        self._full_s = self._first_s
