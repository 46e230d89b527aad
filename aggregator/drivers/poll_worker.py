"""Shell: the aggregator driven by a poll loop over the log's own `read` (the embedded set-up)."""

import asyncio

from aggregator.drivers.standing import Standing
from aggregator.drivers.turns import Turns, claim_for_ever
from aggregator.housekeeping import Housekeeping
from aggregator.step import Aggregator
from meterline.limits import POLL_IDLE_S
from meterline.ports import Clock


class PollWorker:
    """Works on all partitions of a log until stopped; waits and goes on when something outside is
    away.
    """

    def __init__(
        self,
        aggregator: Aggregator,
        housekeeping: Housekeeping,
        clock: Clock,
        standing: Standing | None = None,
    ) -> None:
        self._standing = standing
        self._aggregator = aggregator
        self._housekeeping = housekeeping
        self._clock = clock

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set. Errors that are not of the world end it: see `LogTruncated`,
        `CountBackDiffers`.
        """
        turns = Turns()
        claiming = asyncio.create_task(
            claim_for_ever(self._housekeeping, self._clock, self._standing)
        )
        try:
            while not stop.is_set() and not claiming.done():
                await turns.take(self._round())
            if claiming.done():
                claiming.result()
        finally:
            claiming.cancel()
            await asyncio.gather(claiming, return_exceptions=True)
            await self._aggregator.close_all()

    async def _round(self) -> None:
        aggregator = self._aggregator
        read = 0
        for number in range(aggregator.log.partitions):
            await aggregator.open(number)
            read += await aggregator.read_some(number)
            await self._housekeeping.tick(self._clock.now_ms(), idle=False)
        if not read and not await self._housekeeping.tick(self._clock.now_ms(), idle=True):
            await asyncio.sleep(POLL_IDLE_S)
