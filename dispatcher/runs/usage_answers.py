"""Usage as runs ask for it, in portions, and how far the log was counted before it was asked."""

from collections.abc import AsyncIterator
from dataclasses import replace

from dispatcher.runs.waiting import Ready
from meterline.meter import answering
from meterline.report import LogEnds
from meterline.usage import ProgressStore, SubjectUsageStore, UsageQuery, UsageRow


class Answers:
    """The answer to the last question: reports on one meter and window share it, where it fits into
    one portion.
    """

    def __init__(
        self, progress: ProgressStore, usage: SubjectUsageStore, log: int, rows_max: int
    ) -> None:
        self._progress = progress
        self._usage = usage
        self._log = log
        self._rows_max = rows_max
        self._query: UsageQuery | None = None
        self._erased = 0
        self._rows: list[UsageRow] | None = None
        self._left_out: tuple[int, int] | None = None
        self.counted: LogEnds | None = None  # all below these ends is in the answer

    async def ask(self, it: Ready, erased: int = 0) -> None:
        """Turn to the question of a run. An answer of before a subject was erased is not shared:
        `erased` tells how many were (`Claim`).
        """
        same = self._query == it.query and self._erased == erased
        if same and self._rows is not None:
            return
        self._erased = erased
        self._query = self._rows = self._left_out = None
        # In this order: what is counted by now is in the answer.
        newest = max(answering(it.meter, it.run.from_ms, it.run.to_ms))
        ends = await self._progress.flushed_ends(self._log, newest)
        self.counted = LogEnds(self._log, tuple(sorted(ends.items())))
        self._query = it.query

    async def portions(self) -> AsyncIterator[list[UsageRow]]:
        """Its rows, by subject and groups."""
        assert self._query is not None, "asked before"
        if self._rows is not None:
            yield self._rows
            return
        first: list[UsageRow] = []
        count = 0
        async for rows in self._usage.usage_by_subject(self._query, self._rows_max):
            count += 1
            first = rows if count == 1 else []
            yield rows
        if count <= 1:
            self._rows = first

    async def left_out(self) -> tuple[int, int]:
        """How many rows the question left out for their subject, and the sum of their values."""
        query = self._query
        assert query is not None, "asked before"
        if self._left_out is None:
            self._left_out = (0, 0)
            if query.subjects:
                others = replace(query, other_subjects=True)
                self._left_out = await self._usage.usage_sum(others)
        return self._left_out
