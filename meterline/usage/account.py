"""The account: what became of every event, by hour, source and type, and per meter.

received = new + duplicate + conflict + invalid; new = matched + unmatched; and per meter, matched =
counted + rejected, once all of it is counted. Hours are those of the append to the log.
"""

from dataclasses import dataclass
from typing import NamedTuple

from meterline.meter import Meter


@dataclass(frozen=True, slots=True)
class AccountQuery:
    """The account of one namespace for what was appended in [from_ms, to_ms), whole hours.

    `meters` are those that there are now; an event is matched where one of them takes its type and
    counts from before its time. What could not be read belongs to no namespace; it is there only
    where `unowned` says so.
    """

    namespace: str
    from_ms: int
    to_ms: int
    meters: tuple[Meter, ...] = ()
    unowned: bool = False


class AccountLine(NamedTuple):
    """What became of the events of an hour, a source and a type."""

    hour: int  # since 1970 UTC
    source: str
    type: str
    new: int
    matched: int  # of the new ones
    duplicate: int
    conflict: int
    invalid: int

    @property
    def received(self) -> int:
        """Every event has exactly one verdict."""
        return self.new + self.duplicate + self.conflict + self.invalid


class MeterAccount(NamedTuple):
    """What a meter made of the new events: `matched` is counted in the raw events, `counted` and
    `rejected` in its tallies.
    """

    revision: int
    matched: int
    counted: int
    rejected: int
