"""Accounts added up, for stores of tests."""

from collections.abc import Iterable, Mapping

from meterline.usage import AccountRow


def added_up(
    log: int,
    accounts: Iterable[AccountRow],
    first: Mapping[int, int] | None,
    end: Mapping[int, int] | None,
) -> AccountRow:
    """See `meterline.usage.UsageStore.accounts`."""
    rows = [it for it in accounts if it.log == log and _wanted(it, first or {}, end)]
    sums = [sum(row[at] for row in rows) for at in range(4, 9)]
    return AccountRow(log, 0, 0, max((row.version for row in rows), default=0), *sums)


def _wanted(account: AccountRow, first: Mapping[int, int], end: Mapping[int, int] | None) -> bool:
    below = end is None or account.slice < end.get(account.partition, 0)
    return below and account.slice >= first.get(account.partition, 0)
