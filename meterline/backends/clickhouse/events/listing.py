"""A page of the list of events, from the tables `events` and `rejects`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from meterline.backends.clickhouse.bounds import EVENT_BOUNDS, Searches
from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.events.sql import (
    Span,
    places_statement,
    subjects_statement,
    tables_of,
    whole_statement,
)
from meterline.backends.clickhouse.usage.sql import ROWS_SETTINGS
from meterline.event import EventQuery, EventSubject, ListedEvent, Place, SubjectQuery, Verdict
from meterline.limits import EVENTS_SPANS_MS
from meterline.problem import Fault

SPARE_ROWS: Final = 32  # copies of rows that a search allows for
_BEYOND: Final = Fault(
    "filter",
    "too many events would be read; add a filter on stored_at or time with a shorter span",
    source="query",
)


class EventListing:
    """Answers `EventQuery`. A search may read much, so only a few run at once."""

    def __init__(
        self,
        connection: Connection,
        bounds: Mapping[str, Any] = EVENT_BOUNDS,
        spare_rows: int = SPARE_ROWS,
    ) -> None:
        self._connection = connection
        self._bounds = bounds
        self._spare_rows = spare_rows
        self._searches = Searches()

    async def page(self, query: EventQuery) -> list[ListedEvent]:
        """The events of a page, in order. Raises `Problem` for a search beyond the bounds."""
        async with self._searches.turn(_BEYOND):
            chosen = await self._chosen(query)
        rows: dict[tuple[int, ...], ListedEvent] = {}
        for table in tables_of(query):
            positions = [place[1:] for place, at in chosen if at == table]
            rows.update((event[:4], event) for event in await self.whole(table, positions))
        # a row may be gone by now: what is deleted is not shown
        return [rows[place[1:]] for place, _ in chosen if place[1:] in rows]

    async def subjects(self, query: SubjectQuery) -> list[EventSubject]:
        """The subjects of a page. Raises `Problem` for a search beyond the bounds."""
        settings = {**ROWS_SETTINGS, **self._bounds}
        async with self._searches.turn(_BEYOND):
            rows = await self._connection.query(*subjects_statement(query), settings=settings)
        return [EventSubject(*row) for row in rows]

    async def whole(
        self, table: str, positions: Sequence[tuple[int, int, int, int]]
    ) -> list[ListedEvent]:
        """The events at these positions, in any order."""
        if not positions:
            return []
        rows = await self._connection.query(*whole_statement(table, positions))
        return [
            ListedEvent._make((*head, text.encode(), Verdict(kind), first, field, reason))
            for *head, text, kind, first, field, reason in rows
        ]

    async def _chosen(self, query: EventQuery) -> list[tuple[Place, str]]:
        """Where the events of the page lie, in order, and in which table."""
        chosen: list[tuple[Place, str]] = []
        for span in _spans(query):
            found = [
                (place, table)
                for table in tables_of(query)
                for place in await self._places(query, table, span)
            ]
            chosen += sorted(found, reverse=query.order.descending)
            if len(chosen) >= query.limit:
                break
        return chosen[: query.limit]

    async def _places(self, query: EventQuery, table: str, span: Span) -> list[Place]:
        """As many as the page has, if there are so many. Rows may be there twice, rarely more: then
        it takes another look, for taking out copies in the engine means sorting all that it reads.
        """
        rows_max = query.limit + self._spare_rows
        while True:
            statement = places_statement(query, table, span, rows_max)
            rows = await self._connection.query(*statement, settings=self._bounds)
            places = list(dict.fromkeys(Place(*row) for row in rows))
            if len(places) >= query.limit or len(rows) < rows_max:
                return places[: query.limit]
            rows_max *= 4


def _spans(query: EventQuery) -> Iterator[Span]:
    """The parts of the list in its order: where the next events are near, little is read, and
    nothing is read twice.
    """
    at_ms = query.now_ms if query.after is None else query.after.at_ms
    border: int | None = None
    if query.order.descending:
        for first_ms in (at_ms - width for width in EVENTS_SPANS_MS):
            yield Span(first_ms, border)
            border = first_ms
        yield Span(None, border)
    else:
        # Without a cursor nobody knows where a list begins that goes upwards.
        for end_ms in (at_ms + width for width in EVENTS_SPANS_MS if query.after is not None):
            yield Span(border, end_ms)
            border = end_ms
        yield Span(border, None)
