"""`Spool` in a temporary file: in memory as long as it is small, then in the system's folder for
temporary files (`TMPDIR`), where it has no name.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from typing import Final

from meterline.limits import SPOOL_MEMORY_BYTES
from meterline.ports import Unavailable

_LENGTH_BYTES: Final = 8


class FileSpool:
    """See `meterline.report.Spool`."""

    def __init__(self, memory_bytes: int = SPOOL_MEMORY_BYTES) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=memory_bytes)  # noqa: SIM115 - see close

    async def append(self, records: Sequence[bytes]) -> None:
        """See the port."""

        def write() -> None:
            for record in records:
                self._file.write(len(record).to_bytes(_LENGTH_BYTES, "big"))
                self._file.write(record)

        try:
            await asyncio.to_thread(write)
        except OSError as error:
            where = tempfile.gettempdir()
            message = (
                f"no space in {where} for the temporary file of a large run ({error}); free some"
            )
            raise Unavailable(message) from error

    async def portions(self, bytes_max: int) -> AsyncIterator[list[bytes]]:
        """See the port."""
        self._file.seek(0)
        while records := await asyncio.to_thread(self._read, bytes_max):
            yield records

    def _read(self, bytes_max: int) -> list[bytes]:
        records, size = [], 0
        while size < bytes_max and (head := self._file.read(_LENGTH_BYTES)):
            record = self._file.read(int.from_bytes(head, "big"))
            records.append(record)
            size += len(record)
        return records

    async def close(self) -> None:
        """See the port."""
        self._file.close()
