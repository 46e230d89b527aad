"""The simulated spool: in memory. A file is written by threads, which keep their own time."""

from collections.abc import AsyncIterator, Sequence


class SimulatedSpool:
    """See `meterline.report.Spool`."""

    def __init__(self) -> None:
        self._records: list[bytes] = []

    async def append(self, records: Sequence[bytes]) -> None:
        """See the port."""
        self._records += records

    async def portions(self, bytes_max: int) -> AsyncIterator[list[bytes]]:
        """See the port."""
        portion: list[bytes] = []
        size = 0
        for record in self._records:
            portion.append(record)
            size += len(record)
            if size >= bytes_max:
                yield portion
                portion, size = [], 0
        if portion:
            yield portion

    async def close(self) -> None:
        """See the port."""
        self._records.clear()
