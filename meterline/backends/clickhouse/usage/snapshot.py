"""Which blocks are read: what the control store says, asked at most once a second."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.usage.cache import BlockCache
from meterline.limits import BLOCK_SNAPSHOT_S
from meterline.ports import Unavailable
from meterline.usage import BlockLedger, Column, Coverage, columns_of, coverage_of


class BlockSnapshot:
    """The readable blocks of a log, as they were at most BLOCK_SNAPSHOT_S ago. Any state of them
    gives the same answers, for as long as replaced blocks are kept.
    """

    def __init__(self, ledger: BlockLedger, log: int) -> None:
        self._ledger = ledger
        self._log = log
        self._columns: Sequence[Column] = ()
        self._alone = False
        self._read_s: float | None = None
        self._reading = asyncio.Lock()

    async def coverage(self, revisions: Collection[int]) -> Coverage:
        """What blocks answer for these revisions. Raises `Unavailable`."""
        async with self._reading:
            now_s = asyncio.get_running_loop().time()
            if self._read_s is None or now_s - self._read_s > BLOCK_SNAPSHOT_S:
                self._columns = columns_of(await self._ledger.blocks(self._log))
                # Another log may begin at any time, or an older one may be gone on with.
                self._alone = await self._ledger.alone(self._log)
                self._read_s = now_s
            return coverage_of(self._log, self._columns, revisions, alone=self._alone)

    async def confirm(self, coverage: Coverage) -> None:
        """Told after an answer came: what it was read from was there. Raises `Unavailable` where
        it may not have been, since the asker stood still for longer than replaced blocks are kept.
        """
        if coverage.blocks and not await self._ledger.kept(coverage.blocks):
            self._read_s = None
            raise Unavailable(
                "usage store: its blocks were replaced while they were read: ask again"
            )


@dataclass(slots=True)
class Reader:
    """What usage is read from: the usage store and, where there are any, its blocks; and what they
    answered before.
    """

    connection: Connection
    blocks: BlockSnapshot | None = None
    cache: BlockCache = field(default_factory=BlockCache)

    async def coverage(self, revisions: Collection[int]) -> Coverage | None:
        """See `BlockSnapshot`; None where nothing is known of blocks."""
        return None if self.blocks is None else await self.blocks.coverage(revisions)

    async def confirm(self, coverage: Coverage | None) -> None:
        """See `BlockSnapshot`. To be asked when an answer has come, before it is passed on."""
        if coverage is not None and self.blocks is not None:
            await self.blocks.confirm(coverage)
