"""How much a query may read and hold, as settings of the engine; the lanes of those who read; and
searches, few at once.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Any, Final, TypeVar

from meterline.backends.clickhouse.clients.lanes import Lane
from meterline.backends.clickhouse.connection import QUERY_SETTINGS, Exceeded
from meterline.limits import (
    EVENT_SEARCHES_MAX,
    EVENTS_SEARCH_S_MAX,
    EVENTS_SEARCHED_MAX,
    USAGE_READ_BYTES_MAX,
    USAGE_READ_S_MAX,
    USAGE_READS_MAX,
    USAGE_RUN_BYTES_MAX,
    USAGE_RUN_READS_MAX,
    USAGE_RUN_STREAMS_MAX,
    USAGE_STREAMS_MAX,
    USAGE_UPKEEP_MAX,
)
from meterline.problem import Fault, invalid

EVENT_BOUNDS: Final[dict[str, Any]] = {
    **QUERY_SETTINGS,
    "max_execution_time": EVENTS_SEARCH_S_MAX,
    "max_rows_to_read": EVENTS_SEARCHED_MAX,
}
READING: Final = Lane(
    "reading",
    2,
    USAGE_READS_MAX,
    USAGE_STREAMS_MAX,
    USAGE_READ_BYTES_MAX,
    USAGE_READ_S_MAX,
    gives_up=True,
)
"""What somebody waits for who asked over HTTP."""
RUNS: Final = Lane(
    "runs", 2, USAGE_RUN_READS_MAX, USAGE_RUN_STREAMS_MAX, USAGE_RUN_BYTES_MAX, gives_up=True
)
"""What runs of reports say: of the rank of readers, so neither holds the other up."""
UPKEEP: Final = Lane("upkeep", 3, USAGE_UPKEEP_MAX)
"""Blocks, audits, retention: nobody waits for them."""
T = TypeVar("T")


@contextmanager
def within_bounds() -> Iterator[None]:
    """A question about usage. Raises `Problem` where it is beyond what a reader may have."""
    try:
        yield
    except Exceeded as error:
        message = (
            f"the answer takes over {USAGE_READ_S_MAX} s, or too much memory; ask for fewer days, a"
            " larger window or fewer groups, or for one part of the span after another"
        )
        raise invalid(Fault("from", message, "maximum")) from error


async def rows_within_bounds(blocks: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """The same, of an answer that comes in parts."""
    async with aclosing(blocks):
        with within_bounds():
            async for block in blocks:
                yield block


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
