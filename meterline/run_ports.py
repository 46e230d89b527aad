"""The ports of making a run from more usage than memory should hold; the rules of `meterline.ports`
hold here too.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from meterline.usage import UsageQuery, UsageRow


class SubjectUsageStore(Protocol):
    """Usage by subject, however much there is. A query is grouped by subject, has both ends, and no
    windows.
    """

    def usage_by_subject(self, query: UsageQuery, rows_max: int) -> AsyncIterator[list[UsageRow]]:
        """The rows of a query, ordered by subject and groups (by code points), in portions of at
        most `rows_max`.
        """
        ...

    async def usage_sum(self, query: UsageQuery) -> tuple[int, int]:
        """How many rows a query has, and the sum of their values, as a scaled integer."""
        ...


class Spool(Protocol):
    """Records that are written once, then read in order; they are gone when it is closed. Raises
    `Unavailable` where there is no room.
    """

    async def append(self, records: Sequence[bytes]) -> None:
        """Keep records behind those before."""
        ...

    def portions(self, bytes_max: int) -> AsyncIterator[list[bytes]]:
        """All of them, in portions of so many bytes at most, but for their last record."""
        ...

    async def close(self) -> None:
        """Let go of them."""
        ...


OpenSpool = Callable[[], Spool]
