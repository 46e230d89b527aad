"""Parts of tables of chDB: whether what was inserted is whole on disk.

chDB acknowledges an insert although a write to one of the part's files failed (a full disk, a disk
that fails once). It goes on with what it has in memory, and sets the part aside at its next start.
So each part that is new is compared with its files: how large all of them are together, which chDB
knows, and that none of the few beside them is empty.
"""

import asyncio
import re
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.named_sql import QUERIES
from meterline.ports import Unavailable, Unsuitable

# Not among those whose sizes chDB sums up.
_BESIDE: Final = frozenset(
    {
        "checksums.txt",
        "columns.txt",
        "columns_substreams.txt",
        "default_compression_codec.txt",
        "metadata_version.txt",
    }
)
_INSERTED: Final = re.compile(r"[^_]+_(\d+)_\1_[01]")  # as it came: neither merged nor changed


class Part(NamedTuple):
    """A part in use: its folder, and the bytes of the files that chDB sums up."""

    table: str
    name: str
    folder: str
    size: int


def damage(part: Part) -> str:
    """What is wrong with the files of a part; "" where they are whole, or gone: it was merged."""
    folder, sizes = Path(part.folder), dict[str, int]()
    with suppress(FileNotFoundError):
        sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    if not sizes or not folder.exists():
        return ""
    if empty := sorted(name for name in _BESIDE if sizes.get(name, 1) == 0):
        return f"{empty[0]} is empty"
    held = sum(size for name, size in sizes.items() if name not in _BESIDE)
    return "" if held == part.size else f"it has {held} bytes and should have {part.size}"


class PartWatch:
    """Looks at the files of parts that it has not seen yet. One for all writers of a store."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._whole: set[str] | None = None  # folders; never more than there are parts in use
        self._taken_back = 0  # times that an insert was
        self._beginning = asyncio.Lock()

    async def begin(self) -> int:
        """How often inserts were taken back so far. What is there at first, chDB has looked at."""
        async with self._beginning:
            if self._whole is None:
                self._whole = {part.folder for part in await self._parts()}
        return self._taken_back

    async def end(self, before: int) -> None:
        """Look at what is new. Raises `Unavailable` where an insert was taken back since `before`:
        it may have been that of the caller, who inserts again. Raises `Unsuitable` as `_look` does.
        """
        await self._look()
        if self._taken_back != before:
            raise Unavailable(
                "usage store: the disk lost a write; what was inserted is taken back and inserted"
                " again. Look at the disk: it is full, or it fails"
            )

    async def _parts(self) -> list[Part]:
        return [Part._make(row) for row in await self._connection.query(QUERIES["parts"], {})]

    async def _look(self) -> None:
        """Drop what was inserted with a part that is damaged.

        Raises `Unsuitable` for a part that is damaged and holds what was inserted before: the
        process must end, for the parts that it was merged from are on disk for some minutes more,
        and chDB takes them at its start.
        """
        parts, known = await self._parts(), self._whole or set()
        fresh = [part for part in parts if part.folder not in known]
        words = await asyncio.to_thread(lambda: [damage(part) for part in fresh])
        known.intersection_update(part.folder for part in parts)
        damaged = [(part, wrong) for part, wrong in zip(fresh, words, strict=True) if wrong]
        known.update({part.folder for part in fresh} - {part.folder for part, _ in damaged})
        for part, wrong in damaged:
            await self._take_back(part, wrong)

    async def _take_back(self, part: Part, wrong: str) -> None:
        if not _INSERTED.fullmatch(part.name):
            raise Unsuitable(
                f"usage store: the disk lost a write: {part.folder}: {wrong}. Look at the disk, and"
                " start again within eight minutes: what the part was made from is used instead"
            )
        self._taken_back += 1
        with suppress(Unavailable):  # gone already: another writer saw it too
            await self._connection.execute(f"ALTER TABLE {part.table} DROP PART '{part.name}'")
