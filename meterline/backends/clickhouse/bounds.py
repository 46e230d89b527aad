"""How much a query may read and hold, as settings of the engine; and searches, few at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from meterline.backends.clickhouse.connection import QUERY_SETTINGS, Exceeded
from meterline.limits import EVENT_SEARCHES_MAX, EVENTS_SEARCH_S_MAX, EVENTS_SEARCHED_MAX
from meterline.problem import Fault, invalid

EVENT_BOUNDS: Final[dict[str, Any]] = {
    **QUERY_SETTINGS,
    "max_execution_time": EVENTS_SEARCH_S_MAX,
    "max_rows_to_read": EVENTS_SEARCHED_MAX,
}


class Searches:
    """Searches may read much, so only a few run at once."""

    def __init__(self, at_once: int = EVENT_SEARCHES_MAX) -> None:
        self._turns = asyncio.Semaphore(at_once)

    @asynccontextmanager
    async def turn(self, beyond: Fault) -> AsyncIterator[None]:
        """One search. Raises `Problem` with this fault where it is beyond its bounds."""
        try:
            async with self._turns:
                yield
        except Exceeded as error:
            raise invalid(beyond) from error
