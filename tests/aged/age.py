"""How old an installation is, and what follows from that (pure)."""

from dataclasses import dataclass
from typing import Final

from meterline.event import DEFAULT_NAMESPACE
from meterline.limits import SLICE_SPAN_MS

NAMESPACES: Final = 100
SUBJECTS: Final = 1_000
SLICE_EVENTS: Final = 12  # fewer than namespaces: each event of a slice is a tally of its own
COUNTED_TYPE: Final = "call"  # of all events: one meter of each namespace counts it
OTHER_TYPES: Final = 50  # of all other meters: they have their share of the catalogue only


def namespace(number: int) -> str:
    """The namespace of a tenant; the first one has the default."""
    return f"tenant-{number}" if number else DEFAULT_NAMESPACE


@dataclass(frozen=True, slots=True)
class Age:
    """So many seals, in all partitions together, and so many meters. Each partition was sealed
    every `SLICE_SPAN_MS` until `end_ms`, so 1,700,000 seals of 16 partitions are a year.
    """

    seals: int
    meters: int
    partitions: int
    end_ms: int
    lacking: int = 0  # of the meters: the last ones, that lack every slice
    before: int = 0  # revisions of meters that are there before all others, and lack nothing

    @property
    def version(self) -> int:
        """The catalogue's, when all meters are made."""
        return self.before + self.meters

    @property
    def known(self) -> int:
        """The newest revision that old slices were counted with."""
        return self.version - self.lacking

    @property
    def each(self) -> int:
        """Seals of a partition, of one record each: the offset at which it goes on."""
        return self.seals // self.partitions

    @property
    def last_ms(self) -> int:
        """When the last slices ended: a border of slices, as all others."""
        return self.end_ms // SLICE_SPAN_MS * SLICE_SPAN_MS

    @property
    def begin_ms(self) -> int:
        """Append time of the first slice."""
        return self.last_ms - self.each * SLICE_SPAN_MS

    @property
    def events(self) -> int:
        """All events, of all partitions."""
        return self.each * self.partitions * SLICE_EVENTS

    def events_of(self, tenant: int) -> int:
        """The events of a tenant: event `n` of partition `p` is of tenant `n + p`, in turn."""
        all_ = self.each * SLICE_EVENTS
        firsts = ((tenant - partition) % NAMESPACES for partition in range(self.partitions))
        return sum(max(0, -(-(all_ - first) // NAMESPACES)) for first in firsts)
