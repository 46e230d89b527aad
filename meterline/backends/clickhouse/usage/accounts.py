"""`AccountStore` on ClickHouse and chDB: what became of events, from the rows that are kept of
them.

Rows of events and rejects are the same bytes however often they are written, so under FINAL any of
their columns may be filtered; of tallies only the identity is.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from meterline.backends.clickhouse.blocks.hidden import hidden_of_all
from meterline.backends.clickhouse.bounds import EVENT_BOUNDS, READING, Searches
from meterline.backends.clickhouse.connection import Connection, Rows
from meterline.backends.clickhouse.named_sql import EVIDENCE
from meterline.event import decode_event
from meterline.limits import ACCOUNT_ROWS_MAX, EVENT_TIME_MAX_MS
from meterline.meter import BEFORE_START, Catalogue, Meter, measures_of, outcomes
from meterline.ports import Unavailable
from meterline.problem import Fault, invalid
from meterline.usage import (
    MINUTE_TABLES,
    AccountLine,
    AccountQuery,
    Masks,
    MeterAccount,
    Notice,
    dropped_before,
    dropped_of,
    kept_of,
)
from meterline.window import HOUR_MS, MINUTE_MS, rfc3339

_ERASED_HERE: Final = "-- erased:"  # where the condition stands in the statement
_NO_TYPE: Final = ""  # no event has it: an array of nothing has no type for the engine


async def _none() -> Sequence[Notice]:
    """Everything is kept."""
    return ()


class ClickHouseAccounts:
    """See `meterline.usage.AccountStore`."""

    def __init__(
        self,
        connection: Connection,
        masks: Masks | None = None,
        notices: Callable[[], Awaitable[Sequence[Notice]]] = _none,
    ) -> None:
        self._notices = notices
        self._connection = connection.lane(READING)
        self._masks = masks
        self._searches = Searches()

    async def account_lines(self, query: AccountQuery) -> list[AccountLine]:
        """See the port."""
        starts = _starts(query.meters)
        parameters = {
            **_span(query),
            "unowned": query.unowned,
            "types": [_NO_TYPE, *starts],
            "starts": [EVENT_TIME_MAX_MS, *starts.values()],
            "never": EVENT_TIME_MAX_MS,
            "rows": ACCOUNT_ROWS_MAX + 1,
        }
        rows = await self._asked(EVIDENCE["account_lines"], parameters)
        if len(rows) > ACCOUNT_ROWS_MAX:
            raise invalid(_beyond(f"the answer has over {ACCOUNT_ROWS_MAX:,} rows"))
        return [AccountLine(*row) for row in rows]

    async def meter_accounts(self, query: AccountQuery) -> list[MeterAccount]:
        """See the port."""
        if not query.meters:
            return []
        notices = await self._notices()
        found = await self._of_meters(query, notices)
        if dropped_of(await self._notices()) != dropped_of(notices):
            raise Unavailable("usage store: minutes were dropped while they were read: ask again")
        return found

    async def _of_meters(
        self, query: AccountQuery, notices: Sequence[Notice]
    ) -> list[MeterAccount]:
        kept = kept_of(notices)
        since_ms = max((kept[it].from_ms for it in MINUTE_TABLES if it in kept), default=0)
        if query.from_ms < since_ms:
            raise invalid(Fault("from", _not_kept(since_ms), "not_kept", "query"))
        meters = [(m.event_type, m.revision, m.counts_from_ms) for m in query.meters]
        # Of a meter that counts from within a minute, that minute is not asked of its tallies.
        windows = [-(-m.counts_from_ms // MINUTE_MS) for m in query.meters]
        revisions = [m.revision for m in query.meters]
        asked = {**_span(query), "meters": meters}
        minutes_from = dropped_before(dropped_of(notices))
        parameters = {
            **_span(query),
            "revisions": revisions,
            "windows": windows,
            "minutes_from": minutes_from,
        }
        matched = {row[0]: row[1] for row in await self._asked(EVIDENCE["meters_matched"], asked)}
        sums = {row[0]: row[1:] for row in await self._counted(parameters, revisions)}
        found = []
        for meter in query.meters:
            counted, rejected = sums.get(meter.revision, (0, 0))
            cut_counted, cut_rejected = await self._cut(query, meter)
            sums_of = (matched.get(meter.revision, 0), counted + cut_counted)
            found.append(MeterAccount(meter.revision, *sums_of, rejected + cut_rejected))
        return found

    async def _counted(self, parameters: dict[str, Any], revisions: list[int]) -> Rows:
        """Without the rows that an erasure hides, as at one moment."""
        sql = EVIDENCE["meters_counted"]
        hidden = () if self._masks is None else await self._masks.of(revisions)
        erased, given = hidden_of_all(hidden)
        if erased:
            sql = sql.replace(_ERASED_HERE, f"AND NOT ({erased})")
        rows = await self._asked(sql, {**parameters, **given})
        if self._masks is not None:
            await self._masks.confirm(revisions, hidden)
        return rows

    async def _cut(self, query: AccountQuery, meter: Meter) -> tuple[int, int]:
        """Counted and rejected of the minute within which a meter begins to count."""
        start_ms = meter.counts_from_ms
        if not start_ms % MINUTE_MS:
            return 0, 0
        end_ms = -(-start_ms // MINUTE_MS) * MINUTE_MS
        cut = {"type": meter.event_type, "time_from_ms": start_ms, "time_to_ms": end_ms}
        rows = await self._asked(EVIDENCE["account_cut"], {**_span(query), **cut})
        measures = measures_of(Catalogue(0, (meter,)))
        judged = [outcomes(decode_event(text.encode()), measures)[0] for (text,) in rows]
        assert all(one.reason != BEFORE_START for one in judged), "they lie behind the start"
        counted = sum(one.counted for one in judged)
        return counted, len(judged) - counted

    async def _asked(self, sql: str, parameters: dict[str, Any]) -> Rows:
        async with self._searches.turn(_beyond("too many events would have to be looked at")):
            return await self._connection.query(sql, parameters, EVENT_BOUNDS)


def _not_kept(since_ms: int) -> str:
    hour = rfc3339(-(-since_ms // HOUR_MS) * HOUR_MS)
    return f"minutes of what was received before {hour} are not kept any more; ask from {hour} on"


def _span(query: AccountQuery) -> dict[str, Any]:
    return {"namespace": query.namespace, "from_ms": query.from_ms, "to_ms": query.to_ms}


def _starts(meters: tuple[Meter, ...]) -> dict[str, int]:
    """By type of event, from which time on one of the meters counts it."""
    starts: dict[str, int] = {}
    for meter in meters:
        start_ms = meter.counts_from_ms
        starts[meter.event_type] = min(start_ms, starts.get(meter.event_type, start_ms))
    return starts


def _beyond(message: str) -> Fault:
    return Fault("from", f"{message}; ask for fewer hours", "maximum", "query")
