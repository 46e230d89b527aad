"""How far everything is (API v3): so that a sender can wait until its events count.

Each part of the answer is asked on its own and within a time; what does not answer is null, and
`unavailable` says why. Ends are asked before what was flushed: `caught_up` then holds for every
event that was accepted before the request.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from aiohttp import web

from control.edge import parameters_of
from control.stores import Stores
from control.v3_meters import PREFIXES
from meterline.http import json_response
from meterline.limits import STATUS_PART_TIMEOUT_S
from meterline.ports import Unavailable
from meterline.rows import AccountRow
from meterline.window import rfc3339

_T = TypeVar("_T")
ACCOUNT: Final = ("received", "new", "duplicate", "conflict", "invalid")


@dataclass(slots=True)
class Findings:
    """What the parts said; None where a part did not answer."""

    begins: dict[int, int] | None = None
    ends: dict[int, int] | None = None
    version: int | None = None
    flushed: dict[int, int] | None = None
    completions: dict[int, int] | None = None
    backfilling: bool | None = None
    complete_until_ms: int | None = None
    account: AccountRow | None = None
    unavailable: list[dict[str, str]] = field(default_factory=list)

    async def part(self, name: str, asked: Awaitable[_T]) -> _T | None:
        """The answer of a part, or None, with the reason kept under the part's name."""
        try:
            async with asyncio.timeout(STATUS_PART_TIMEOUT_S):
                return await asked
        except TimeoutError:
            reason = f"did not answer within {STATUS_PART_TIMEOUT_S} s"
        except Unavailable as error:
            reason = str(error)
        if not any(one["part"] == name for one in self.unavailable):
            self.unavailable.append({"part": name, "reason": reason})
        return None


class V3Status:
    """The handler of the status."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def routes(self) -> list[web.RouteDef]:
        """Where it is mounted."""
        return [web.get(f"{prefix}/status", self.status) for prefix in PREFIXES]

    async def status(self, request: web.Request) -> web.Response:
        """200 always; parts that do not answer are null."""
        parameters_of(request, ())
        found = await findings(self._stores)
        log = self._stores.log
        return json_response(
            {
                "log": {"id": log.id, "number": log.number, "partitions": log.partitions},
                "catalogue_version": found.version,
                **_overall(found, log.partitions, self._stores.clock.now_ms()),
                "account": _account(found.account),
                "partitions": [_partition(found, number) for number in range(log.partitions)],
                "unavailable": found.unavailable,
            }
        )


async def findings(stores: Stores) -> Findings:
    """Ask every part."""
    found = Findings()
    await asyncio.gather(_ask_log(stores, found), _ask_usage(stores, found))
    await _ask_control(stores, found)  # after the ends
    return found


async def _ask_log(stores: Stores, found: Findings) -> None:
    numbers = range(stores.log.partitions)

    async def all_of(asked: list[Awaitable[int]]) -> dict[int, int]:
        return dict(zip(numbers, await asyncio.gather(*asked), strict=True))

    found.ends = await found.part("log", all_of([stores.log.end(n) for n in numbers]))
    if found.ends is not None:
        found.begins = await found.part("log", all_of([stores.log.begin(n) for n in numbers]))


async def _ask_usage(stores: Stores, found: Findings) -> None:
    found.account = await found.part("usage", stores.usage.accounts(stores.log.number))


async def _ask_control(stores: Stores, found: Findings) -> None:
    catalogue = await found.part("control", stores.catalogue.catalogue())
    if catalogue is None:
        return
    found.version = catalogue.version
    # An event counts when every live meter has counted it: so by a catalogue that knows the newest.
    newest = max((meter.revision for meter in catalogue.meters), default=0)
    log, progress = stores.log, stores.progress
    found.flushed = await found.part("control", progress.flushed_ends(log.number, newest))
    found.completions = await found.part("control", progress.completions(log.number, newest))
    # Asked after the flushed ends: what is below them and lacks a meter is in the list by now.
    lists = [progress.unfilled(log.number, n, newest, 1) for n in range(log.partitions)]
    unfilled = await found.part("control", asyncio.gather(*lists))
    found.backfilling = None if unfilled is None else any(unfilled)
    found.complete_until_ms = await found.part(
        "control", progress.complete_until(log.number, log.partitions, newest)
    )


def _overall(found: Findings, partitions: int, now_ms: int) -> dict[str, object]:
    lags = [_lag(found, number) for number in range(partitions)]
    until_ms = found.complete_until_ms
    known = found.ends is not None and found.flushed is not None
    counted = known and found.backfilling is not None
    return {
        "caught_up": sum(lag or 0 for lag in lags) == 0 and not found.backfilling
        if counted
        else None,
        "backfilling": found.backfilling,
        "lag_records": sum(lag or 0 for lag in lags) if known else None,
        "complete_until": None if until_ms is None else rfc3339(until_ms),
        "freshness_ms": None if until_ms is None else max(0, now_ms - until_ms),
    }


def _lag(found: Findings, number: int) -> int | None:
    if found.ends is None or found.flushed is None:
        return None
    begin = 0 if found.begins is None else found.begins[number]
    return max(0, found.ends[number] - max(begin, found.flushed.get(number, 0)))


def _partition(found: Findings, number: int) -> dict[str, object]:
    until_ms = None if found.completions is None else found.completions.get(number)
    return {
        "partition": number,
        "begin": None if found.begins is None else found.begins[number],
        "end": None if found.ends is None else found.ends[number],
        "flushed_end": None if found.flushed is None else found.flushed.get(number),
        "lag_records": _lag(found, number),
        "complete_until": None if until_ms is None else rfc3339(until_ms),
    }


def _account(account: AccountRow | None) -> dict[str, int] | None:
    return None if account is None else {name: getattr(account, name) for name in ACCOUNT}
