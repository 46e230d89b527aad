"""What identifies a row of each table of the simulated usage store, and which of two wins."""

from collections.abc import Callable, Collection
from typing import Any, Final

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
STAGES: Final = (
    ("events", "rejects", "seen"),
    ("tallies", "members", "rejected", "late_tallies", "late_members"),
    ("accounts",),
)
VERSIONS: Final = {"tallies": 7, "late_tallies": 7, "accounts": 3}


def one_is_left(there: Any, row: Any, pseudonyms: Collection[tuple[str, str]]) -> bool:
    """Whether of two rows of a rejected value one came back under a name that was erased, and the
    other is that of its event without data, under the pseudonym (docs/decisions/0064).
    """
    if not isinstance(there, RejectedRow) or there.window != row.window:
        return False
    return any(
        (named.subject, left.subject) in pseudonyms and left.value == ""
        for named, left in ((there, row), (row, there))
    )
