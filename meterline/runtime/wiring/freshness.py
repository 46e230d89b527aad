"""By which meters the freshness of an installation is told (pure)."""

from meterline.limits import NEWER_METERS_WITHIN_MS


class WaitedFor:
    """The revision that claims have to know.

    Workers take some minutes to read what a new meter counts in their open slices. All other meters
    are as fresh as before meanwhile, and what is filled in has metrics of its own. So a newer
    revision in force is waited for from `NEWER_METERS_WITHIN_MS` on: a worker that never takes it
    on shows then.
    """

    def __init__(self) -> None:
        self._since_ms: dict[int, int] = {}  # by revision: when it was seen to be in force

    def revision(self, in_force: int, now_ms: int) -> int:
        """The newest that was seen to be in force so long ago, 0 where there is none. `in_force` is
        the newest one now. If that is older, the other was deleted, and this one was there before.
        """
        self._since_ms.setdefault(in_force, now_ms)
        latest_ms = now_ms - NEWER_METERS_WITHIN_MS
        old = (it for it, since_ms in self._since_ms.items() if since_ms <= latest_ms)
        newest = max(old, default=0)
        self._since_ms = {it: since_ms for it, since_ms in self._since_ms.items() if it >= newest}
        return min(newest, in_force)
