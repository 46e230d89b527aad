"""The ports of meters: the catalogue, and the revisions of meters as people see and move them.

The rules of `meterline.ports` hold here too.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

from meterline.access import AGGREGATOR, COMMAND
from meterline.meter.meter import (
    Catalogue,
    FoldedRevisions,
    ListedMeter,
    Meter,
    MeterChange,
    MeterDraft,
    NewestRevisions,
)
from meterline.meter.revision import MeterRevision


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

    async def request_switch(
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


class CatalogueStore(Protocol):
    """Meters and their revisions. Every change of what is measured makes a new version of the
    catalogue; other words of a meter (name, description, labels) do not.

    `author` is a `Principal.author`: each change is recorded with it, in its own transaction
    (`meterline.access.change`). A call that finds nothing to do records none.
    """

    async def catalogue(self) -> Catalogue:
        """All revisions that are folded at the newest version, over all namespaces, in order."""
        ...

    async def catalogue_version(self) -> int:
        """The newest version; cheap, asked every second."""
        ...

    async def folded_revisions(self) -> FoldedRevisions:
        """The numbers of what `catalogue` has; cheap, for who asks often and needs no more."""
        ...

    async def newest_revisions(self) -> NewestRevisions:
        """The same as `catalogue` says of its revisions; cheap, however many meters there are."""
        ...

    async def newest_in_force(self, made_until_ms: int) -> int:
        """The newest revision in force that was made at this time or before; 0 where there is none.
        Cheap, too.
        """
        ...

    async def create_meter(
        self,
        namespace: str,
        draft: MeterDraft,
        now_ms: int,
        *,
        author: str = COMMAND,
        from_settings: bool = False,
    ) -> Meter:
        """A new meter; raises `Problem`: conflict where the key is taken, rate limited where the
        meters of the namespace changed too often in the last minute.
        """
        ...

    async def update_meter(
        self,
        namespace: str,
        id_or_key: str,
        change: MeterChange,
        now_ms: int,
        *,
        author: str = COMMAND,
    ) -> Meter:
        """The meter in force, its words as changed. What is measured changes by a new revision,
        which waits until it is filled in; one that waits already is replaced.

        Raises `Problem`: bad request with all faults of the definition asked for; not found;
        conflict (defined in the settings file, or a report groups by a dimension that would go).
        """
        ...

    async def put_settings_meters(
        self, namespace: str, drafts: Sequence[MeterDraft], now_ms: int
    ) -> list[Meter]:
        """Create meters of the settings file, or change them where they differ, like an update;
        else leave them: all of these or none. As they are now. The author is `settings`.
        """
        ...

    async def release_settings_meters(
        self, namespace: str, named: Collection[str], now_ms: int
    ) -> list[Meter]:
        """Meters of the settings file whose keys it does not name any more become meters like
        others, with the same usage: these, as they were. The author is `settings`.
        """
        ...

    async def delete_meter(
        self, namespace: str, id_or_key: str, now_ms: int, *, author: str = COMMAND
    ) -> None:
        """Delete logically; raises `Problem`: not found, or conflict (in use, or defined in the
        settings file).
        """
        ...

    async def meter(self, namespace: str, id_or_key: str) -> Meter | None:
        """A live meter by id (wins) or key."""
        ...

    async def meters(
        self,
        namespace: str,
        *,
        ids: Collection[str] | None = None,
        event_types: Collection[str] | None = None,
    ) -> list[Meter]:
        """Live meters of a namespace by creation: of these ids, and those that count, or ever
        counted, events of these types; None: all.
        """
        ...

    async def listed_meters(self, namespace: str) -> list[ListedMeter]:
        """All live meters of a namespace by creation; cheap, also where they are very many."""
        ...

    async def deleted_meters(self, namespace: str, limit: int) -> list[Meter]:
        """Deleted meters of a namespace, the last deleted first."""
        ...

    async def filling(self) -> list[int]:
        """Revisions that wait until they are filled in, of all namespaces, the oldest first."""
        ...

    async def switch_filled(
        self, revision: int, now_ms: int, *, author: str = AGGREGATOR
    ) -> Meter | None:
        """Put a revision that is filled in in force; the meter, or None where it does not wait
        (any more). What it supersedes leaves the catalogue, unless a report is on the meter.
        """
        ...

    async def retire(self, now_ms: int) -> set[int]:
        """Take superseded revisions that nobody needs any more out of the catalogue."""
        ...
