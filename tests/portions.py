"""Usage in portions, for stores of tests that answer whole, and what runs say of rows at hand."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from meterline.delivery import DeliveryDraft
from meterline.meter import Meter
from meterline.report import (
    Figures,
    Gathering,
    Report,
    ReportFilter,
    Run,
    Scene,
    Statement,
    SubjectUsage,
    statements,
)
from meterline.report.filter import EVERYTHING
from meterline.usage import UsageQuery, UsageRow


class InPortions(ABC):
    """`meterline.usage.SubjectUsageStore` over `usage`."""

    __slots__ = ()

    @abstractmethod
    async def usage(self, query: UsageQuery) -> list[UsageRow]:
        """All rows, without a look at the conditions on subjects."""

    async def usage_by_subject(
        self, query: UsageQuery, rows_max: int
    ) -> AsyncIterator[list[UsageRow]]:
        """The rows whose subjects meet the conditions."""
        whole = await self.usage(replace(query, subjects=(), other_subjects=False))
        found = [row for row in whole if query.has_subject(row.subject or "")]
        rows = sorted(found, key=lambda row: (row.subject or "", row.groups))
        for start in range(0, len(rows), rows_max):
            yield rows[start : start + rows_max]

    async def usage_sum(self, query: UsageQuery) -> tuple[int, int]:
        """Of those rows."""
        whole = await self.usage(replace(query, subjects=(), other_subjects=False))
        values = [row.value for row in whole if query.has_subject(row.subject or "")]
        return len(values), sum(values)


def gathered(
    run: Run, filter_: ReportFilter, rows: Sequence[UsageRow]
) -> tuple[list[SubjectUsage], Figures]:
    """What subjects say, of rows in any order."""
    gathering = Gathering(run, filter_, keeps_rows=True)
    said = gathering.add(sorted(rows, key=lambda row: (row.subject or "", row.groups)))
    return said + gathering.end(), gathering.figures


def first_statements(
    run: Run, rows: Sequence[UsageRow], filter_: ReportFilter = EVERYTHING
) -> list[Statement]:
    """What a first run says."""
    return statements(gathered(run, filter_, rows)[0], {})


def drafts(
    report: Report,
    meter: Meter,
    run: Run,
    said: Sequence[Statement],
    sequence_first: int,
    complete_until_ms: int,
) -> list[DeliveryDraft]:
    """The deliveries of a run."""
    scene = Scene(report, meter, run, complete_until_ms, len(said))
    return [scene.draft(it, n + 1, sequence_first + n) for n, it in enumerate(said)]


def values_among(rows: Sequence[UsageRow], limit: int, offset: int) -> tuple[list[str], int]:
    """`ports.UsageStore.usage_values` from the rows of the same query."""
    found = sorted({row.groups[0][1] if row.groups else row.subject or "" for row in rows})
    return found[offset : offset + limit], len(found)
