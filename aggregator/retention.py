"""Retention: drops what is older than the settings say, period by period, and adds up the seals
of slices whose events are gone.

A step may be taken by several workers at once, and may be killed anywhere: a notice is given once,
and a period that is there again is dropped again.
"""

import structlog

from meterline.limits import RETENTION_NOTICE_MS, SEAL_SUMS_MAX
from meterline.ports import Unavailable
from meterline.usage import (
    Notice,
    Period,
    Reach,
    RetentionLedger,
    RetentionTerms,
    SealedEnd,
    UsagePeriods,
    expired,
    is_sealed,
    may_drop,
    newest_counted,
)

logger = structlog.get_logger()


class Retention:
    """Gives notices and drops periods of the usage store."""

    def __init__(
        self,
        store: UsagePeriods,
        ledger: RetentionLedger,
        terms: RetentionTerms,
        log: int,
        wait_ms: int = RETENTION_NOTICE_MS,
    ) -> None:
        self._wait_ms = wait_ms  # between the notice of a period and its end
        self._store = store
        self._ledger = ledger
        self._terms = terms
        self._log = log

    async def turn(self, now_ms: int) -> None:
        """A step that never fails: counting does not wait for retention."""
        try:
            await self.step(now_ms)
        except Unavailable as error:
            logger.warning("retention_waits", reason=str(error))

    async def sum_turn(self, now_ms: int) -> None:
        """Add up some seals of slices whose events are not kept any more; never fails either."""
        if self._terms.events_ms is None:
            return
        try:
            newest_ms = newest_counted(now_ms, await self._ledger.sealed_ends(self._log))
            before_ms = self._terms.seals_before(newest_ms)
            count = await self._ledger.sum_seals(self._log, before_ms, SEAL_SUMS_MAX)
        except Unavailable as error:
            logger.warning("retention_waits", reason=str(error))
            return
        if count:
            logger.info("seals_summed", seals=count)

    async def step(self, now_ms: int) -> list[Period]:
        """Drop what is due; what was dropped. Raises `Unavailable`: call again after a while."""
        if self._terms == RetentionTerms():
            return []
        sealed = await self._ledger.sealed_ends(self._log)
        newest_ms = newest_counted(now_ms, sealed)
        dropped = []
        for periods in expired(await self._store.periods(), self._terms, newest_ms):
            for period in periods:
                reach = await self._store.reach(period, self._log)
                notice = await self._noticed(period, reach, sealed, now_ms)
                if notice is None:
                    break  # what is kept of a table begins at one instant: older periods go first
                if not may_drop(notice, now_ms, self._wait_ms):
                    continue
                if not await self._ledger.begin_drop(period, reach, self._log, now_ms):
                    break
                await self._store.drop(period)
                logger.info("dropped", table=period.table, period=period.name)
                dropped.append(period)
        return dropped

    async def _noticed(
        self, period: Period, reach: Reach, sealed: dict[int, SealedEnd], now_ms: int
    ) -> Notice | None:
        """The notice of a period; None while it must be kept. Everything is asked again each time:
        a slice that was sealed late may have brought rows that are still needed.
        """
        reason: Notice | str = "some of its slices are not sealed"
        if is_sealed(reach, sealed):
            reason = await self._ledger.give_notice(period, reach, self._log, now_ms)
        if not isinstance(reason, str):
            return reason
        logger.info("retention_keeps", table=period.table, period=period.name, reason=reason)
        return None
