"""The port that the account is read through; the rules of `meterline.ports` hold here too."""

from typing import Protocol

from meterline.account import AccountLine, AccountQuery, MeterAccount


class AccountStore(Protocol):
    """What became of events, from what is stored of them."""

    async def account_lines(self, query: AccountQuery) -> list[AccountLine]:
        """By hour, source and type. Raises `Problem` where the answer would be beyond bounds."""
        ...

    async def meter_accounts(self, query: AccountQuery) -> list[MeterAccount]:
        """By revision, of each meter of the query. Raises `Problem` as above."""
        ...
