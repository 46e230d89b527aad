"""Accounts, events of a trace and refusals, given out only by a store that has lost nothing.

They read beside the `UsageStore`, so its check (`CheckedUsageStore`) does not cover them. As there,
the check comes after the answer, and every method raises `StoreLost`, too.
"""

from meterline.audit.ports import EventLineage
from meterline.event import RefusedEvents
from meterline.usage import AccountStore, UsageIntegrity


class CheckedAccounts:
    """`AccountStore`, checked."""

    def __init__(self, accounts: AccountStore, integrity: UsageIntegrity) -> None:
        self.account_lines = integrity.checked(accounts.account_lines)
        self.meter_accounts = integrity.checked(accounts.meter_accounts)


class CheckedLineage:
    """`EventLineage`, checked."""

    def __init__(self, lineage: EventLineage, integrity: UsageIntegrity) -> None:
        self.events_of = integrity.checked(lineage.events_of)


class CheckedRefusals:
    """`RefusedEvents`, checked."""

    def __init__(self, refused: RefusedEvents, integrity: UsageIntegrity) -> None:
        self.refused_at = integrity.checked(refused.refused_at)
