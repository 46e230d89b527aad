"""A newer catalogue on its way into the open slices of a worker (docs/architecture.md, "Meters that
change").

From the moment it begins, open slices count by the new meters as well, aside. What they took in
before is read from the usage store once it is durable there, beside counting. When no slice lacks
anything, all of them go on with the new catalogue at once. A slice that ends before is sealed by
the old one; the new meters are filled in there.
"""

from collections.abc import Iterable, Mapping

from aggregator.slice.background import Background
from aggregator.slice.open_slice import OpenSlice
from aggregator.slice.partition import Partition
from meterline.event import decode_event, is_erased, position
from meterline.limits import ADOPT_FOLDS_MAX, ADOPT_LOOKED_EVENTS, FILL_REVISIONS_MAX
from meterline.meter import Catalogue, CatalogueStore, Measures, measures_of
from meterline.usage import UsageStore


class Adoption:
    """Of one catalogue, by a worker that counts by `before` and its `measures`."""

    def __init__(
        self, usage: UsageStore, before: Catalogue, measures: Measures, catalogue: Catalogue
    ) -> None:
        self.catalogue = catalogue
        self.measures = measures_of(catalogue, measures)
        known = {meter.revision for meter in before.meters}
        fresh = tuple(meter for meter in catalogue.meters if meter.revision not in known)
        self.gone = frozenset(known - {meter.revision for meter in catalogue.meters})
        self.ahead = measures_of(Catalogue(catalogue.version, fresh), self.measures)
        self.kept_by: set[int] = set()  # partitions that ended a slice while it waited
        self._types = sorted(self.ahead)
        self._usage = usage
        self._background = Background()

    async def read(self, partitions: Iterable[Partition]) -> bool:
        """Read what the next open slice lacks, if it is durable by now; whether there was one. One
        that ended again after its seal was refused is as good as open: it will be so again. Raises
        `Unavailable`: call again, it goes on where it was.
        """
        self._background.begin()
        for partition in partitions:
            for slice_ in partition.unsealed():
                before = slice_.lacks_before
                if before is None or not (slice_ is partition.slice or slice_.refused):
                    continue
                if self.is_durable(partition, before):
                    await self._read_slice(slice_, before)
                    return True
        return False

    def is_durable(self, partition: Partition, before: int) -> bool:
        """Whether all events below an offset are in the usage store."""
        return partition.flushed_end >= before

    async def _read_slice(self, slice_: OpenSlice, before: int) -> None:
        """It may be sealed or dropped meanwhile; then what is added to it is nobody's."""
        log, number, first = slice_.id
        events = 0
        async for portion in self._usage.raw_events(log, number, [first], before, self._types):
            for event in portion:
                at = position(event.offset, event.place)
                if at <= slice_.added_to:  # a reading before this one broke off
                    continue
                slice_.spoiled |= is_erased(event.text)  # somebody else has sealed it long ago
                slice_.add_earlier(decode_event(event.text), at)
                events += 1
                if events % ADOPT_LOOKED_EVENTS == 0:
                    await self._background.give_way(now=False)
            await self._background.give_way()
        slice_.lacks_before = None


def next_catalogue(
    before: Catalogue, newest: Catalogue, events: int, folds_max: int = ADOPT_FOLDS_MAX
) -> Catalogue:
    """The one to take on while open slices have so many events: the newest, or one before it where
    that has too many new revisions (pure). All that are not newer than its version are in it, so it
    can be claimed by; the others are for the next time.
    """
    known = {meter.revision for meter in before.meters}
    fresh = [it.revision for it in newest.meters if it.revision not in known]
    most = min(FILL_REVISIONS_MAX, max(1, folds_max // max(1, events)))
    if not events or len(fresh) <= most or fresh[most - 1] <= before.version:
        return newest
    version = fresh[most - 1]
    return Catalogue(version, tuple(it for it in newest.meters if it.revision <= version))


def _lacks(partitions: Mapping[int, Partition]) -> bool:
    """Whether an open slice lacks anything of what is ahead."""
    return any(it.lacks_before is not None for it in partitions.values())


class Meters:
    """By which catalogue a worker counts, and by which it is about to."""

    def __init__(
        self, store: CatalogueStore, usage: UsageStore, folds_max: int = ADOPT_FOLDS_MAX
    ) -> None:
        self._folds_max = folds_max
        self.catalogue = Catalogue(-1, ())  # of all claims and seals
        self.measures = measures_of(self.catalogue)  # of open slices
        self._store = store
        self._usage = usage
        self._begun: Adoption | None = None  # not in the slices
        self._adopted: Catalogue | None = None  # in the slices, not known to be durable

    @property
    def version(self) -> int:
        """Of the catalogue by which open slices count."""
        return (self._adopted or self.catalogue).version

    @property
    def ahead(self) -> Measures:
        """By which open slices count as well."""
        return {} if self._begun is None else self._begun.ahead

    @property
    def gone(self) -> frozenset[int]:
        """Revisions by which open slices count no longer, once the newer catalogue is taken on."""
        return frozenset() if self._begun is None else self._begun.gone

    @property
    def is_adopting(self) -> bool:
        """Whether a newer catalogue is on its way."""
        return self._begun is not None or self._adopted is not None

    async def look(self, partitions: Mapping[int, Partition]) -> bool:
        """Begin to take on a newer catalogue, if there is one; whether one is on its way."""
        if self.is_adopting:
            return True
        if await self._store.catalogue_version() <= self.catalogue.version:
            return False
        slices = [one for it in partitions.values() for one in it.unsealed()]
        events = sum(slice_.border.events for slice_ in slices)  # what has ended may be open again
        newest = await self._store.catalogue()
        newer = next_catalogue(self.catalogue, newest, events, self._folds_max)
        self._begun = Adoption(self._usage, self.catalogue, self.measures, newer)
        for partition in partitions.values():
            partition.look_ahead(self._begun.ahead)
        if not partitions:
            self.adopt(partitions)
            self.settle()
        return True

    async def read(self, partitions: Mapping[int, Partition]) -> bool:
        """See `Adoption.read`."""
        return self._begun is not None and await self._begun.read(list(partitions.values()))

    def is_ready(self, partitions: Mapping[int, Partition]) -> bool:
        """Whether one is begun, and no open slice lacks anything of it. What has ended is sealed
        first: it is counted by the one before, and claims are by one for all.
        """
        if self._begun is None or _lacks(partitions):
            return False
        return not any(it.ended is not None for it in partitions.values())

    def come_first(self, partitions: Mapping[int, Partition]) -> bool:
        """Whether a slice ends behind a flush only: newer meters are ready, or open slices count by
        them already and claims do not. A seal is by the meters of claims.
        """
        return self._adopted is not None or self.is_ready(partitions)

    def let_end_beside(self, ending: Partition, partitions: Mapping[int, Partition]) -> bool:
        """Whether the slice that ends now may wait for its seal beside the next one. Where nothing
        but seals keeps a newer catalogue waiting, a partition is let do so once: what ends together
        holds up nothing, and the newer catalogue does not wait for ever.
        """
        if self._begun is None or _lacks(partitions):
            return True
        if ending.number in self._begun.kept_by:
            return False
        self._begun.kept_by.add(ending.number)
        return True

    def adopt(self, partitions: Mapping[int, Partition]) -> bool:
        """All open slices go on with the newer catalogue, once it is ready; whether they do. What
        they have of it now is in the next flush.
        """
        if self._begun is None or not self.is_ready(partitions):
            return False
        begun, self._begun = self._begun, None
        for partition in partitions.values():
            partition.adopt(begun.measures, begun.gone)
        self.measures, self._adopted = begun.measures, begun.catalogue
        return True

    def settle(self) -> None:
        """Everything that was taken in by then is durable: claims may follow."""
        if self._adopted is not None:
            self.catalogue, self._adopted = self._adopted, None
