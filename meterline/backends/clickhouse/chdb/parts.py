"""Parts of tables of chDB: whether what was inserted is whole on disk.

chDB acknowledges an insert although a write to one of the part's files failed (a full disk, a disk
that fails once). It goes on with what it has in memory, and sets the part aside at its next start.
So each part that is new is compared with its files: how large all of them are together, which chDB
knows, and that none of the few beside them is empty.
"""

import asyncio
import re
from collections.abc import Collection
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
_NEEDED: Final = frozenset({"checksums.txt", "columns.txt"})  # of these; others need not be there
_INSERTED: Final = re.compile(r"[^_]+_(\d+)_\1_[01]")  # as it came: neither merged nor changed


class Part(NamedTuple):
    """A part in use: its folder, and the bytes of the files that chDB sums up."""

    table: str
    name: str
    folder: str
    size: int


def damage(part: Part) -> str:
    """What is wrong with the files of a part; "" where they are whole, or gone: it was merged.

    A write that was lost leaves less than there should be. Files that are not known here, as of a
    newer engine, only add to it.
    """
    folder, sizes = Path(part.folder), dict[str, int]()
    with suppress(FileNotFoundError):
        sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    if not sizes or not folder.exists():
        return ""
    if empty := sorted(name for name in _BESIDE if not sizes.get(name, name not in _NEEDED)):
        return f"{empty[0]} is empty"
    held = sum(size for name, size in sizes.items() if name not in _BESIDE)
    return "" if held >= part.size else f"it has {held} bytes and should have {part.size}"


class PartWatch:
    """Looks at the files of the parts of some tables that it has not seen yet. One for all writers
    of these tables, which insert between `begin` and `end`.
    """

    def __init__(self, connection: Connection, tables: Collection[str]) -> None:
        self._connection = connection
        self._tables = sorted(tables)
        self._begun = False
        self._whole: set[str] = set()  # folders; never more than there are parts in use
        self._owed: dict[str, str] = {}  # folders of damaged parts that could not be dropped; why
        self._taken_back = 0  # times that an insert was
        self._looking = asyncio.Lock()  # an older list must not forget what a newer one knows

    async def begin(self) -> int:
        """How often inserts were taken back so far. What is there at the first call was read by
        chDB, or watched by another one. Raises `Unavailable` while a damaged part cannot be
        dropped: nothing is inserted beside it.
        """
        async with self._looking:
            if not self._begun:
                self._whole = {part.folder for part in await self._parts()}
                self._begun = True
            if self._owed:
                await self._look()
            for folder, why in self._owed.items():
                raise Unavailable(f"usage store: the damaged {folder} cannot be dropped: {why}")
        return self._taken_back

    async def end(self, before: int) -> None:
        """Look at what is new. Raises `Unavailable` where an insert was taken back since `before`:
        it may have been that of the caller, who inserts again.

        Raises `Unsuitable` for a part that is damaged and holds what was inserted before: the
        process must end, for the parts that it was merged from are on disk for some minutes more,
        and chDB takes them at its start.
        """
        async with self._looking:
            await self._look()
        if self._taken_back != before:
            raise Unavailable(
                "usage store: the disk lost a write; what was inserted is taken back and inserted"
                " again. Look at the disk: it is full, or it fails"
            )

    async def _parts(self) -> list[Part]:
        rows = await self._connection.query(QUERIES["parts"], {"tables": self._tables})
        return [Part._make(row) for row in rows]

    async def _look(self) -> None:
        parts = await self._parts()
        fresh = [part for part in parts if part.folder not in self._whole]
        try:
            damages = await asyncio.to_thread(lambda: [damage(part) for part in fresh])
        except OSError as error:
            raise Unavailable(f"usage store: its parts cannot be looked at: {error}") from error
        there = {part.folder for part in parts}
        damaged = {part.folder for part, wrong in zip(fresh, damages, strict=True) if wrong}
        self._whole = (self._whole & there) | ({part.folder for part in fresh} - damaged)
        self._owed = {folder: why for folder, why in self._owed.items() if folder in there}
        for part, wrong in zip(fresh, damages, strict=True):
            if wrong:
                await self._take_back(part, wrong)

    async def _take_back(self, part: Part, wrong: str) -> None:
        if not _INSERTED.fullmatch(part.name):
            raise Unsuitable(
                f"usage store: the disk lost a write: {part.folder}: {wrong}. Look at the disk, and"
                " start again within eight minutes: what the part was made from is used instead"
            )
        self._taken_back += 1
        try:
            await self._connection.execute(f"ALTER TABLE {part.table} DROP PART '{part.name}'")
        except Unavailable as error:
            self._owed[part.folder] = str(error)
        else:
            self._owed.pop(part.folder, None)
