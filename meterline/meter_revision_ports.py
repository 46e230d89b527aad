"""The port of the revisions of meters, as people see and move them (`meterline.meter_revision`)."""

from typing import Protocol

from meterline.change import COMMAND
from meterline.meter import MeterChange
from meterline.meter_revision import MeterRevision


class RevisionStore(Protocol):
    """Revisions of live meters. It is the catalogue's store too: a change is seen there at once,
    makes a version where what is folded changes, and is recorded with its author.
    """

    async def waiting(self, namespace: str) -> dict[str, MeterRevision]:
        """By id of the meter, the revisions that are switched once they are filled in."""
        ...

    async def listed(
        self, namespace: str, id_or_key: str, limit: int, before: int | None
    ) -> list[MeterRevision]:
        """The revisions of a meter with numbers below `before`, the newest first. Raises `Problem`
        (not found).
        """
        ...

    async def revision(self, namespace: str, id_or_key: str, number: int) -> MeterRevision:
        """One of them. Raises `Problem` (not found)."""
        ...

    async def propose(
        self,
        namespace: str,
        id_or_key: str,
        change: MeterChange,
        now_ms: int,
        *,
        author: str = COMMAND,
    ) -> MeterRevision:
        """Make a revision that is filled in and waits. Of the change, only what is measured counts.

        Raises `Problem`: bad request, also where it would measure the same; not found; conflict
        (defined in the settings file, or too many that wait).
        """
        ...

    async def ask_switch(
        self,
        namespace: str,
        id_or_key: str,
        number: int,
        effective_from_ms: int | None,
        now_ms: int,
        *,
        author: str = COMMAND,
    ) -> MeterRevision:
        """Have a revision switched once it is filled in: for all times, or from an instant on. What
        else waits for its switch is discarded.

        Raises `Problem`: bad request, not found, conflict (a report groups by a dimension that
        would go, or the revision does not wait).
        """
        ...

    async def discard(
        self, namespace: str, id_or_key: str, number: int, now_ms: int, *, author: str = COMMAND
    ) -> None:
        """Give up a revision that waits. Raises `Problem`: not found, conflict where it answered
        usage.
        """
        ...
