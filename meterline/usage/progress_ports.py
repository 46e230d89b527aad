"""The ports of progress: the seen store of a partition, seals and completeness.

The rules of `meterline.ports` hold here too.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from meterline.event import Layout
from meterline.usage.integrity.difference import SliceDifference
from meterline.usage.rows import CatchingUp, Filling, Lacking, Seal


class SeenStore(Protocol):
    """Deduplication state of one partition, always as of a slice border."""

    @property
    def applied(self) -> int:
        """Every record below this offset is in. 0 for a new store."""
        ...

    def get_many(self, keys: Sequence[bytes]) -> list[tuple[int, int, bytes] | None]:
        """For each key (position, append_ms, check) of its latest new event, or None."""
        ...

    def apply(self, keys: bytes, applied: int) -> None:
        """Put the new events of a slice and the applied offset, in one durable batch. Keys are as
        `UsageStore.seen_keys` gives them, in order of position: append times do not step back.
        """
        ...

    def bulk(self) -> "SeenBulk":
        """Begin to take in very many keys. Nothing else may be applied until that ends."""
        ...

    def close(self) -> None:
        """Let go of the files."""
        ...

    def discard(self) -> None:
        """Let go of files that are damaged: the next opening finds a new store. Reading and
        applying raise `SeenDamaged` where that is due.
        """
        ...


class SeenBulk(Protocol):
    """Keys on their way into a seen store, beside whatever else the process does. The store is as
    it was until `finish` has returned, whenever the process is killed.
    """

    async def add(self, keys: bytes) -> None:
        """Take in keys as `UsageStore.seen_keys` gives them, all of one generation: appended within
        one multiple of the horizon. Older generations come first, lesser keys before greater ones.
        """
        ...

    async def finish(self, applied: int) -> None:
        """All that was added is in, with the applied offset: durable, as a whole."""
        ...

    def give_up(self) -> None:
        """Forget what was added, where it is not finished."""
        ...


class ProgressStore(Protocol):
    """How far the aggregator is: seals, fill marks, completeness. Small rows, all merged by the
    greatest.
    """

    async def register_log(self, log_id: str, partitions: int) -> int:
        """The number of the log with this id, given at its first registration. Raises `Problem`
        (conflict) where the partitions differ from those registered, and it does not grow.
        """
        ...

    async def layout(self, log: int) -> Layout:
        """How the log is laid out now."""
        ...

    async def begin_growth(self, log: int, layout: Layout, now_ms: int) -> None:
        """Record the last growth of a layout, before the log has these partitions; nothing happens
        where one to so many is recorded. New partitions are complete up to where their parents are:
        what comes to them is recorded later. Raises `Problem` (conflict) where a growth before it
        has not ended, the log has grown otherwise, or new offsets are not greater than counted
        ones.
        """
        ...

    async def pass_mark(self, log: int, partition: int, partitions: int, offset: int) -> None:
        """All records below the mark of a growth, at this offset, are sealed. The first one that is
        told of a partition stands.
        """
        ...

    async def marks(self, log: int) -> Mapping[tuple[int, int], int]:
        """The offsets of the marks that were passed, by partition and number of partitions."""
        ...

    async def seal(self, seal: Seal) -> None:
        """Record a sealed slice; of two with one name the greater catalogue wins. Nothing happens
        where its seal was added up with others, or a subject is erased from it: whoever seals it
        now is late. Raises `OutdatedMeters` where its catalogue is older than a closed notice of a
        revision: it may tell of its rows.
        """
        ...

    async def last_seal(self, log: int, partition: int) -> Seal | None:
        """The seal with the greatest first offset."""
        ...

    async def append_ms_before(self, log: int, partition: int, offset: int) -> int:
        """The latest append time in slices that begin before an offset, by the last of their seals;
        0 where there are none.
        """
        ...

    async def record_difference(self, difference: SliceDifference) -> bool:
        """Record that a sealed slice differed when it was counted back: the last one stands. False,
        and nothing is recorded, where a subject is erased from the slice, or was: of whoever counts
        it then, its rows differ. Nor is a table recorded that may lack minutes of the slice, since
        these are not kept any more.
        """
        ...

    async def differences_between(
        self, log: int, partition: int, first: int, end: int
    ) -> list[SliceDifference]:
        """Those of slices with a name in [first, end) that were not mended since, by name."""
        ...

    async def differing_slices(self) -> int:
        """How many slices differ and were not mended since, of all logs."""
        ...

    async def mark_mended(self, difference: SliceDifference, now_ms: int) -> None:
        """The slice was written anew, and compared. One that was found since then stays."""
        ...

    async def unfilled(self, log: int, partition: int, revision: int, limit: int) -> list[Seal]:
        """The backfill list: sealed slices folded by an older catalogue than `revision`, without
        its fill mark, by offset.
        """
        ...

    async def lacking(
        self, log: int, partition: int, revisions: Sequence[int], limit: int
    ) -> list[Lacking]:
        """What is to be filled in next, for the oldest of these revisions that lacks anything:
        slices by offset, each with all of the revisions that lack it. Revisions of a namespace from
        which a subject is being erased are left out: they are filled in from what is left. So are
        those that left the catalogue: whoever asks for them has not heard of it.
        """
        ...

    async def unsettled(self, log: int, partition: int, revisions: Sequence[int]) -> list[int]:
        """Those of these revisions that slices of the partition may have to be filled for. One
        question for all: it does not look at slices.
        """
        ...

    async def settle(self, log: int, partition: int, revisions: Sequence[int]) -> None:
        """Keep in mind up to where the slices of the partition are counted for these revisions."""
        ...

    async def begin_filling(
        self, log: int, partition: int, revisions: Sequence[int], now_ms: int
    ) -> None:
        """Keep in mind how much of the partition these revisions lack: all that is to be filled in.
        What was filled before counts on, unless all of that was done.
        """
        ...

    async def mark_filled(
        self,
        log: int,
        partition: int,
        slices: Sequence[int],
        revisions: Sequence[int],
        now_ms: int = 0,
    ) -> None:
        """Each of these slices holds the tallies of each of these revisions now."""
        ...

    async def fillings(self, log: int) -> list[Filling]:
        """How far partitions are filled in, of those for which that was ever needed."""
        ...

    async def tell_catch_ups(
        self, log: int, going: Sequence[CatchingUp], ended: Sequence[int]
    ) -> None:
        """Keep in mind how far seen stores are, and that those of other partitions are done."""
        ...

    async def catch_ups(self, log: int) -> list[CatchingUp]:
        """What was told, by partition: also by workers that ended before it was done."""
        ...

    async def complete(self, log: int, catalogue: int, until_ms: Mapping[int, int]) -> None:
        """By partition: all events recorded up to the instant are counted by this catalogue. Merges
        by the greatest.
        """
        ...

    async def complete_until(self, log: int, partitions: int, revision: int) -> int | None:
        """The instant up to which every partition is complete by a catalogue at least as new as the
        revision: so many partitions, and all that the log got since. None where one partition has
        no such claim, or a backfill of the revision is not finished.
        """
        ...

    async def completions(self, log: int, catalogue: int) -> dict[int, int]:
        """By partition, the greatest instant claimed complete by a catalogue at least as new."""
        ...

    async def flushed(self, log: int, catalogue: int, offset_ends: Mapping[int, int]) -> None:
        """By partition: everything below the offset is counted by this catalogue and can be
        queried. Merges by the greatest.
        """
        ...

    async def flushed_ends(self, log: int, catalogue: int) -> dict[int, int]:
        """By partition, the greatest end of what was counted by a catalogue at least as new."""
        ...
