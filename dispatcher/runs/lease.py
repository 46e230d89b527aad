"""The lease of a run: it is renewed while the bodies of the run are written in chunks. So memory is
bounded, however many subjects there are.
"""

from collections.abc import Callable, Iterable, Sequence

from meterline import limits
from meterline.delivery import DeliveryDraft
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

    async def keep(self) -> None:
        """Renew the lease where a third of it is gone. Raises `LeaseLost`."""
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
        now_ms = self._instant()
        if not await self._reports.stage(self._claim, chunk, now_ms + self._lease_ms):
            raise LeaseLost
        self._renew_at_ms = now_ms + self._lease_ms // 3
