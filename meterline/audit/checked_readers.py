"""Accounts, events of a trace and refusals, given out only by a store that has lost nothing.

They read beside the `UsageStore`, so its check (`CheckedUsageStore`) does not cover them. As there,
the check comes after the answer, and every method raises `StoreLost`, too.
"""

from collections.abc import Sequence

from meterline.audit.lineage import Position, UsageEntry
from meterline.audit.ports import EventLineage
from meterline.event import ListedEvent, RefusedEvents
from meterline.event import Position as RefusedPosition
from meterline.usage import (
    AccountLine,
    AccountQuery,
    AccountStore,
    EventRow,
    MeterAccount,
    UsageIntegrity,
)


class CheckedAccounts:
    """`AccountStore`, checked."""

    def __init__(self, accounts: AccountStore, integrity: UsageIntegrity) -> None:
        self._accounts = accounts
        self._check = integrity.check

    async def account_lines(self, query: AccountQuery) -> list[AccountLine]:
        """See the port."""
        lines = await self._accounts.account_lines(query)
        await self._check()
        return lines

    async def meter_accounts(self, query: AccountQuery) -> list[MeterAccount]:
        """See the port."""
        accounts = await self._accounts.meter_accounts(query)
        await self._check()
        return accounts


class CheckedLineage:
    """`EventLineage`, checked."""

    def __init__(self, lineage: EventLineage, integrity: UsageIntegrity) -> None:
        self._lineage = lineage
        self._check = integrity.check

    async def events_of(
        self, entry: UsageEntry, after: Position | None, limit: int
    ) -> list[EventRow]:
        """See the port."""
        events = await self._lineage.events_of(entry, after, limit)
        await self._check()
        return events


class CheckedRefusals:
    """`RefusedEvents`, checked."""

    def __init__(self, refused: RefusedEvents, integrity: UsageIntegrity) -> None:
        self._refused = refused
        self._check = integrity.check

    async def refused_at(self, positions: Sequence[RefusedPosition]) -> list[ListedEvent]:
        """See the port."""
        events = await self._refused.refused_at(positions)
        await self._check()
        return events
