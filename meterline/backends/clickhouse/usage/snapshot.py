"""Which blocks are read: what the control store says, asked at most once a second."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from meterline.backends.clickhouse.connection import QUERY_SETTINGS, Connection, Rows
from meterline.backends.clickhouse.usage.cache import BlockCache, BlockEnds
from meterline.limits import BESIDE_ROWS_MAX, BLOCK_SNAPSHOT_S
from meterline.ports import ChangedMeanwhile, Unavailable
from meterline.usage import (
    BlockLedger,
    Column,
    Coverage,
    Dropped,
    Hidden,
    Life,
    Masks,
    columns_of,
    concerning,
    coverage_of,
    dropped_before,
)

# All of it is constant, so the engine works it out while it plans: also where there are no rows,
# and in the process that reads. Of another life the text is no number, and the error shows it.
_ONLY_LIFE: Final = (
    "toUInt8(if(uptime() >= {up_s} AND concat(hostName(), ' ', toString(serverUUID())) = '{of}',"
    " '1', 'the server was started again: ask again'))"
)
T = TypeVar("T")


class BlockSnapshot:
    """The readable blocks of a log, as they were at most BLOCK_SNAPSHOT_S ago. Any state of them
    gives the same answers, for as long as replaced blocks are kept.
    """

    def __init__(self, ledger: BlockLedger, log: int, masks: Masks | None = None) -> None:
        self._ledger = ledger
        self._log = log
        self._masks = masks
        self._hidden: tuple[Hidden, ...] = ()
        self._columns: Sequence[Column] = ()
        self._dropped: tuple[Dropped, ...] = ()
        self._alone = False
        self._read_s: float | None = None
        self._reading = asyncio.Lock()

    async def coverage(self, revisions: Collection[int]) -> Coverage:
        """What blocks answer for these revisions. Raises `Unavailable`."""
        async with self._reading:
            now_s = asyncio.get_running_loop().time()
            if self._read_s is None or now_s - self._read_s > BLOCK_SNAPSHOT_S:
                await self._read()
                # Another log may begin at any time, or an older one may be gone on with.
                self._alone = await self._ledger.alone(self._log)
                self._read_s = now_s
            coverage = coverage_of(self._log, self._columns, revisions, alone=self._alone)
            hidden = concerning(self._hidden, revisions)
            return replace(coverage, hidden=hidden, dropped=self._dropped)

    async def _read(self) -> None:
        """Blocks, and what is hidden beside them, as they were at one moment."""
        # First: the blocks that they were given for are still there, or what took their place.
        self._dropped = await self._ledger.dropped_minutes()
        again: tuple[Hidden, ...] | None = None
        while again is None or again != self._hidden:
            self._hidden = () if self._masks is None else await self._masks.all()
            self._columns = columns_of(await self._ledger.blocks(self._log))
            again = () if self._masks is None else await self._masks.all()

    async def confirm(self, coverage: Coverage, revisions: Collection[int]) -> None:
        """Told after an answer came: what it was read from was there. Raises `Unavailable` where
        it may not have been, since the asker stood still for longer than replaced blocks are kept,
        or a subject was erased meanwhile, or minutes were given notice of.
        """
        try:  # at once: each takes a change of threads
            await asyncio.gather(self._same(coverage, revisions), self._kept(coverage))
        except Unavailable:
            self._read_s = None
            raise

    async def _same(self, coverage: Coverage, revisions: Collection[int]) -> None:
        if self._masks is not None:
            await self._masks.confirm(revisions, coverage.hidden)

    async def _kept(self, coverage: Coverage) -> None:
        if not await self._ledger.kept(coverage.blocks, dropped_before(coverage.dropped)):
            raise ChangedMeanwhile(
                "usage store: its blocks were replaced, or minutes dropped, while they were read:"
                " ask again"
            )


@dataclass(slots=True)
class Asking:
    """How many answers are read at once."""

    count: int = 0

    @contextmanager
    def one(self) -> Iterator[bool]:
        """While it is read; whether it is the only one as it begins."""
        self.count += 1
        try:
            yield self.count == 1
        finally:
            self.count -= 1


@dataclass(slots=True)
class Reader:
    """What usage is read from: the usage store and, where there are any, its blocks; and what they
    answered before.
    """

    connection: Connection
    blocks: BlockSnapshot | None = None
    cache: BlockCache = field(default_factory=BlockCache)
    ends: BlockEnds = field(default_factory=BlockEnds)
    life: Life | None = None
    asking: Asking = field(default_factory=Asking)
    beside_rows_max: int = BESIDE_ROWS_MAX

    def of(self, life: Life) -> "Reader":
        """The same, of only that life of the store: every reading raises `Unavailable` in another
        one. A process that is up for longer than this one was when it told so may be another one,
        so this holds for `life.up_s` seconds.
        """
        return replace(self, life=life)

    async def query(
        self, sql: str, parameters: dict[str, Any], settings: Mapping[str, Any] = QUERY_SETTINGS
    ) -> Rows:
        """See `Connection.query`."""
        return await self.connection.query(sql, parameters, self._guarded(settings))

    async def of_each_server(self, sql: str, parameters: dict[str, Any]) -> Rows:
        """The rows that each server gives of its own tables, one behind the other."""
        guarded = self._guarded(QUERY_SETTINGS)
        asked = [server.query(sql, parameters, guarded) for server in self.connection.servers]
        return [row for rows in await asyncio.gather(*asked) for row in rows]

    def stream(
        self,
        sql: str,
        parameters: dict[str, Any],
        settings: Mapping[str, Any],
        take: Callable[[bytes], T],
    ) -> AsyncGenerator[T, None]:
        """See `Connection.stream`."""
        return self.connection.stream(sql, parameters, self._guarded(settings), take)

    def _guarded(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.life is None:
            return settings
        of = self.life.of.replace("'", "")
        condition = _ONLY_LIFE.format(up_s=int(self.life.up_s), of=of)
        return {**settings, "additional_result_filter": condition}

    async def coverage(self, revisions: Collection[int]) -> Coverage | None:
        """See `BlockSnapshot`; None where nothing is known of blocks."""
        return None if self.blocks is None else await self.blocks.coverage(revisions)

    async def confirm(self, coverage: Coverage | None, revisions: Collection[int]) -> None:
        """See `BlockSnapshot`. To be asked when an answer has come, before it is passed on."""
        if coverage is not None and self.blocks is not None:
            await self.blocks.confirm(coverage, revisions)
