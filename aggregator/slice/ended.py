"""A slice that has ended, on its way to its seal (pure)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from aggregator.slice.open_slice import OpenSlice
from meterline.usage import AccountRow, Counted

Holdings = tuple[Mapping[str, Counted], AccountRow | None]


class Difference(NamedTuple):
    """What the usage store holds of a slice, and what was written of it."""

    stored: Holdings
    expected: tuple[Mapping[str, Counted], AccountRow]


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Ended:
    """A slice that has ended and is not sealed yet: nothing is taken into it any more."""

    slice: OpenSlice
    append_ms: int  # running maximum at its end
    append_ms_before: int  # and as it was when it began
