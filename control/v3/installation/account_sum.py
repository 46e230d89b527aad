"""What became of all events of the log, in a time that does not grow with what was ever counted.

Nothing is added to a slice that is sealed. So all sealed ones are added up seldom, and each
question adds up those since: two or three of each partition, whatever came before.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from control.stores import Stores
from meterline.limits import SEALED_ACCOUNT_MS
from meterline.usage import AccountRow


@dataclass(frozen=True, slots=True)
class _Sealed:
    """The sum below the ends of seals, as it was at a time."""

    at_ms: int
    log: int
    ends: Mapping[int, int]
    account: AccountRow

    def still_serves(self, log: int, now_ms: int) -> bool:
        """Whether it is of this log, and not too old."""
        return self.log == log and 0 <= now_ms - self.at_ms < SEALED_ACCOUNT_MS


class AccountSum:
    """The sum of all accounts of a log."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._sealed: _Sealed | None = None
        self._one = asyncio.Lock()  # whoever comes meanwhile waits, and asks nothing

    async def now(self) -> AccountRow:
        """As it is; what a repair of the audit changed of sealed slices is in it after
        `SEALED_ACCOUNT_MS` at most. Raises `Unavailable`.
        """
        sealed = await self._sealed_sum()
        since = await self._stores.usage.accounts(sealed.log, first=sealed.ends)
        version = max(sealed.account.version, since.version)
        sums = map(sum, zip(sealed.account[4:], since[4:], strict=True))
        return AccountRow(sealed.log, 0, 0, version, *sums)

    async def _sealed_sum(self) -> _Sealed:
        async with self._one:
            stores, known = self._stores, self._sealed
            log, now_ms = stores.log.number, stores.now_ms
            if known is None or not known.still_serves(log, now_ms):
                seals = await stores.retention.sealed_ends(log)
                ends = {number: seal.offset for number, seal in seals.items()}
                known = _Sealed(now_ms, log, ends, await stores.usage.accounts(log, end=ends))
                self._sealed = known
            return known
