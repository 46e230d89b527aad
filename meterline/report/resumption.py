"""What becomes of what a report owes when it is resumed."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

NOT_ASKED_FOR: Final = "the report was resumed without it; ask for it by hand if it is wanted"


class Owed(StrEnum):
    """What is sent of it; the rest is recorded as skipped and cancelled, and can be had by hand.

    A failed delivery is owed, too, while its bytes are kept. A cancelled one is not.
    """

    ALL = "all"  # a run of every window missed, every delivery that has not arrived
    NEWEST = "newest"  # those of the newest window
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Resumed:
    """What a report owes now that it is resumed, and what it owes no more. Runs are those that are
    not made yet.
    """

    runs: int = 0
    runs_skipped: int = 0
    deliveries: int = 0
    deliveries_cancelled: int = 0

    def __str__(self) -> str:
        return (
            f"runs owed {self.runs}, skipped {self.runs_skipped};"
            f" deliveries owed {self.deliveries}, cancelled {self.deliveries_cancelled}"
        )
