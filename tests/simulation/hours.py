"""Which hours of the simulated usage store are read from blocks."""

from collections.abc import Sequence
from typing import Any

from meterline.meter import Meter, revision_at
from meterline.usage import Coverage, Hidden, UsageQuery
from meterline.window import MINUTE_MS


class Hours:
    """Which hours of a query are read from blocks: those that one revision answers as a whole."""

    def __init__(self, query: UsageQuery, first: int, end: int, coverage: Coverage | None) -> None:
        self._meter = query.meter
        self._span = (first, end)
        self._coverage = coverage
        self._known: dict[tuple[int, int], bool] = {}

    def have(self, row: Any) -> bool:
        """Whether blocks have what this row of minutes says."""
        coverage = self._coverage
        if coverage is None or row.log != coverage.log:
            return False
        return row.slice < coverage.ends.get(row.partition, 0) and self.whole(row)

    def whole(self, row: Any) -> bool:
        """Whether the hour of a row is read as a whole."""
        begin = row.window // 60 * 60
        key = (row.revision, begin)
        if key not in self._known:
            first, end = self._span
            within = first <= begin and begin + 60 <= end
            self._known[key] = within and all(
                answers(self._meter, row._replace(window=minute))
                for minute in range(begin, begin + 60)
            )
        return self._known[key]


def answers(meter: Meter, row: Any) -> bool:
    """Whether a row is of the revision that answers its window."""
    if meter.before is None:
        return bool(row.revision == meter.revision)
    return revision_at(meter, row.window * MINUTE_MS).revision == int(row.revision)


def is_hidden(row: Any, hidden: Hidden) -> bool:
    """Whether an erasure keeps a row of a slice from being read."""
    if row.revision not in hidden.revisions:
        return False
    return row.subject in hidden.pseudonyms or any(
        row.subject == name and row.log == log and row.slice < _end(ends, row.partition)
        for name, log, ends in hidden.erased
    )


def _end(ends: Sequence[int], partition: int) -> int:
    """As the store has it: 0 of a partition that the log got since."""
    return ends[partition] if partition < len(ends) else 0
