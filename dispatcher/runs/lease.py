"""The lease of a run: it is renewed as long as the run is worked at, however long one question
takes. Bodies are written in chunks, so memory is bounded, however many subjects there are.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress

from meterline import limits
from meterline.delivery import DeliveryDraft
from meterline.ports import Unavailable
from meterline.report import Claim, ReportStore


class LeaseLost(Exception):
    """Another dispatcher makes the run by now, or nobody shall: what was staged counts nothing."""


class Holding:
    """A run whose lease is held on for as long as it is worked at: a dispatcher that died holds it
    no longer than one lease.
    """

    def __init__(
        self, reports: ReportStore, claim: Claim, lease_ms: int, instant: Callable[[], int]
    ) -> None:
        self._reports = reports
        self._claim = claim
        self._lease_ms = lease_ms
        self._instant = instant
        self._renew_at_ms = instant() + lease_ms // 3
        self._renewed_s = 0.0  # of the loop's clock, which nobody sets
        self._lost = False

    @asynccontextmanager
    async def renewed(self) -> AsyncIterator[None]:
        """Within it the lease is renewed whatever is waited for: a question may take longer than
        one lease, and two dispatchers that take a run from each other never make it.
        """
        renewing = asyncio.create_task(self._renew_for_ever())
        try:
            yield
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)

    async def _renew_for_ever(self) -> None:
        """Where a third of the lease is gone since it was renewed, by whomever: chunks do, too."""
        time_s = asyncio.get_running_loop().time
        third_s = rest_s = self._lease_ms / 3_000
        self._renewed_s = time_s()
        while not self._lost:
            await asyncio.sleep(rest_s)
            rest_s = self._renewed_s + third_s - time_s()
            if rest_s <= 0:
                rest_s = third_s
                with suppress(LeaseLost, Unavailable):  # `keep` tells of it
                    await self._stage(())

    async def keep(self) -> None:
        """Renew the lease where a third of it is gone. Raises `LeaseLost`."""
        if self._lost:
            raise LeaseLost
        if self._instant() >= self._renew_at_ms:
            await self._stage(())

    async def stage(self, drafts: Iterable[DeliveryDraft]) -> None:
        """Write deliveries of the run. Raises `LeaseLost`."""
        chunk: list[DeliveryDraft] = []
        chunk_bytes = 0
        for draft in drafts:
            chunk.append(draft)
            chunk_bytes += len(draft.body)
            full = len(chunk) == limits.STAGED_BODIES_MAX
            if full or chunk_bytes > limits.DELIVERY_BODY_BYTES_MAX:
                await self._stage(chunk)
                chunk, chunk_bytes = [], 0
        if chunk:
            await self._stage(chunk)

    async def _stage(self, chunk: Sequence[DeliveryDraft]) -> None:
        now_ms, now_s = self._instant(), asyncio.get_running_loop().time()
        if not await self._reports.stage(self._claim, chunk, now_ms + self._lease_ms):
            self._lost = True
            raise LeaseLost
        self._renew_at_ms, self._renewed_s = now_ms + self._lease_ms // 3, now_s
