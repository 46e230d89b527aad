"""Whether the control store is older than the usage store: a copy of it that was restored alone.

Rows of a slice are written while at most one slice before it waits for its seal. So behind the last
slice that the control store knows as sealed there are two slices in the usage store at most, and
two others if the log has lost the records of these since. Where there are more, the control store
has forgotten seals, and with them revisions, runs and keys. Where it lacks less, a revision may be
among it: its number would be given again, and its rows would count for another meter. Rows of a
revision are there that the control store never numbered.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from meterline.ports import Unsuitable
from meterline.usage.integrity.comparison import BEFORE, Sealed

NEWEST_SLICES: Final = 5  # so many behind the last seal are too many


class KnownSeals(Protocol):
    """The control store's side of the comparison."""

    async def sealed(self, log: int, after: Mapping[int, int]) -> Sealed:
        """See `SealLedger`."""
        ...


class NewestSlices(Protocol):
    """The usage store's side of the comparison."""

    async def newest(self, log: int, after: Mapping[int, int]) -> Mapping[int, Sequence[int]]:
        """By partition, the last `NEWEST_SLICES` slices that have rows, by their first offsets:
        those behind the slice named there, all of a partition that is not named.
        """
        ...


class KnownRevisions(Protocol):
    """The control store's numbers of revisions: each change of a meter takes the next one."""

    async def catalogue_version(self) -> int:
        """See `CatalogueStore`."""
        ...


class NewestRevision(Protocol):
    """Of which revisions the usage store has rows."""

    async def revision_above(self, revision: int) -> int | None:
        """The greatest revision with tallies, if it is greater than this one."""
        ...


async def check_not_older(
    ledger: KnownSeals, store: NewestSlices, log: int, known: str, last: Mapping[int, int]
) -> None:
    """Raise `Unsuitable` with words where the control store has forgotten what was sealed into the
    usage store, which has the id `known`. `last` is what the control store knew before, by
    partition: only what lies behind is asked for, however old the stores are.
    """
    newest = await store.newest(log, last)
    if not any(len(slices) >= NEWEST_SLICES for slices in newest.values()):
        return
    # Others may have sealed in between: what was written by then, was sealed before but for the
    # slices that a worker holds.
    last = {one.partition: one.last for one in (await ledger.sealed(log, {})).rows}
    for partition, slices in sorted(newest.items()):
        behind = [one for one in slices if one > last.get(partition, BEFORE)]
        if len(behind) >= NEWEST_SLICES:
            end = last.get(partition)
            knows = "nothing of it" if end is None else f"it up to the slice at offset {end}"
            lacks = f"partition {partition} was counted up to the slice at offset {max(behind)}"
            raise Unsuitable(_message(lacks, knows, known))


async def check_revisions_known(
    catalogue: KnownRevisions, store: NewestRevision, known: str
) -> None:
    """Raise `Unsuitable` with words where the usage store, which has the id `known`, has rows of a
    revision that the control store has not numbered yet.
    """
    newest = await store.revision_above(await catalogue.catalogue_version())
    if newest is None:
        return
    numbered = await catalogue.catalogue_version()  # a number is given before it is counted by
    if newest > numbered:
        lacks = f"revision {newest} of a meter was counted"
        raise Unsuitable(_message(lacks, f"revisions up to {numbered}", known))


def _message(lacks: str, knows: str, known: str) -> str:
    return (
        f"the control store is older than the usage store: {lacks}, and the control store knows"
        f" {knows}. It was restored alone, or control_url leads to a copy. Nothing is answered,"
        " counted or delivered. Point control_url or data_dir to its newest state, or restore the"
        " newest backup of all three stores. If there is none, begin with an empty usage store,"
        f" and set usage_lost to {known}: everything that the log still holds is then counted again"
    )
