"""What identifies a row of each table of the simulated usage store, and which of two wins."""

from collections.abc import Callable
from typing import Any, Final

from meterline.event import is_pseudonym
from meterline.usage import RejectedRow

Identity = tuple[Any, ...]
IDENTITIES: Final[dict[str, Callable[[Any], Identity]]] = {
    "events": lambda row: row[:4],
    "rejects": lambda row: row[:4],
    "seen": lambda row: row[:4],
    "tallies": lambda row: row[:7],
    "members": lambda row: row,
    "rejected": lambda row: row[:5],
    "accounts": lambda row: row[:3],
    "late_tallies": lambda row: row[:7],
    "late_members": lambda row: row,
}
VERSIONS: Final = {"tallies": 7, "late_tallies": 7, "accounts": 3}


def counted_without_data(there: Any, row: Any) -> bool:
    """Whether a rejected value under a name, which came back after its subject was erased, is now
    that of an event without data, under a pseudonym (docs/decisions/0064).
    """
    if not (isinstance(there, RejectedRow) and is_pseudonym(row.subject)):
        return False
    return not is_pseudonym(there.subject) and (row.reason, row.value) == ("missing", "")
