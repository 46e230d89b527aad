"""Which rows are kept a second time, ordered along the log (pure).

Tallies are ordered by time. What is newest in the log lies at the newest times, but for late
events: their rows lie anywhere. So the rows of what was appended long after its time are also kept
in tables of their own, ordered along the log. Then the newest slices are found without reading all
of history.
"""

from collections.abc import Sequence
from typing import TypeVar

from meterline.limits import LATE_ROW_MS, SLICE_SPAN_MS
from meterline.usage.rows import MemberRow, TallyRow
from meterline.window import MINUTE_MS

_Row = TypeVar("_Row", TallyRow, MemberRow)


def late_before(append_ms: int) -> int:
    """The minute before which rows of a slice are late, from the append time of any of its records.

    It is the same for all records of a slice, and never lower for a later slice of its partition.
    """
    span_ms = append_ms // SLICE_SPAN_MS * SLICE_SPAN_MS
    return max(0, span_ms - LATE_ROW_MS) // MINUTE_MS


def late_rows(rows: Sequence[_Row], before: int) -> list[_Row]:
    """Those of a slice's rows that are late."""
    return [row for row in rows if row.window < before]
