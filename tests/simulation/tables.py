"""What identifies a row of each table of the simulated usage store, and which of two wins."""

from collections.abc import Callable
from typing import Any, Final

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
