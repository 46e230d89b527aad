"""What a meter's usage is split by, as it occurs: a page of texts, and how many there are."""

from collections.abc import Mapping
from typing import Any, Final

from meterline.backends.clickhouse.bounds import Searches
from meterline.backends.clickhouse.usage.answer import pieces_of
from meterline.backends.clickhouse.usage.cuts import folded_cuts
from meterline.backends.clickhouse.usage.snapshot import Reader
from meterline.backends.clickhouse.usage.sql import ROWS_SETTINGS, values_statement
from meterline.backends.clickhouse.usage.statement import Minutes
from meterline.limits import VALUE_SEARCHES_MAX, VALUES_SEARCH_S_MAX, VALUES_SEARCHED_MAX
from meterline.problem import Fault
from meterline.usage import UsageQuery

BOUNDS: Final[dict[str, Any]] = {
    **ROWS_SETTINGS,
    "max_execution_time": VALUES_SEARCH_S_MAX,
    "max_rows_to_read": VALUES_SEARCHED_MAX,
}
_BEYOND: Final = Fault(
    "from", "too much usage would be read; set from and to to a shorter span", source="query"
)


class ValueListing:
    """See `ports.UsageStore.usage_values`. A list may read much, so only a few are made at once."""

    def __init__(self, reader: Reader, bounds: Mapping[str, Any] = BOUNDS) -> None:
        self._reader = reader
        self._bounds = bounds
        self._searches = Searches(VALUE_SEARCHES_MAX)

    async def page(self, query: UsageQuery, limit: int, offset: int) -> tuple[list[str], int]:
        """Texts behind the first `offset`, and how many there are. Raises `Problem` for a search
        beyond the bounds.
        """
        assert query.window is None, "no row is a window"
        async with self._searches.turn(_BEYOND):
            return await self._page(query, limit, offset)

    async def _page(self, query: UsageQuery, limit: int, offset: int) -> tuple[list[str], int]:
        parts, cuts = await pieces_of(self._reader, query)
        revisions = {part.meter.revision for part in parts}
        coverage = await self._reader.coverage(revisions)
        minutes = Minutes(tuple(parts), coverage=coverage)
        at = 1 if query.by_subject else 2  # of a key: bucket, subject, dimensions
        folded = await folded_cuts(self._reader, query, minutes.starts, cuts)
        cut = sorted({str(key[at]) for key, aggregate in folded.items() if aggregate.count})
        sql, bound = values_statement(query, minutes, cut)
        counted = f"SELECT count() FROM ({sql})"  # noqa: S608 - values are bound
        ((total,),) = await self._reader.query(counted, bound, self._bounds)
        if offset >= total:
            await self._reader.confirm(coverage, revisions)
            return [], int(total)
        paged = f"{sql} ORDER BY v LIMIT {int(limit)} OFFSET {int(offset)}"
        rows = await self._reader.query(paged, bound, self._bounds)
        await self._reader.confirm(coverage, revisions)
        return [text for (text,) in rows], int(total)
