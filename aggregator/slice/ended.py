"""A slice that has ended, on its way to its seal (pure)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from aggregator.slice.open_slice import OF_EVENTS, OpenSlice
from meterline.usage import AccountRow, Counted

Holdings = tuple[Mapping[str, Counted], AccountRow | None]


class Difference(NamedTuple):
    """What the usage store holds of a slice, and what was written of it."""

    stored: Holdings
    expected: tuple[Mapping[str, Counted], AccountRow]

    @property
    def is_of_meters(self) -> bool:
        """Whether events and their verdicts are all there: what differs was counted of them."""
        (stored, account), (expected, due) = self.stored, self.expected
        return account == due and all(stored.get(it) == expected.get(it) for it in OF_EVENTS)


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Ended:
    """A slice that has ended and is not sealed yet: nothing is taken into it any more."""

    slice: OpenSlice
    append_ms: int  # running maximum at its end
    append_ms_before: int  # and as it was when it began
