"""How far everything is (API v3): so that a sender can wait until its events count.

Each part of the answer is asked on its own and within a time; what does not answer is null, and
`unavailable` says why. Ends are asked before what was flushed: `caught_up` then holds for every
event that was accepted before the request.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Annotated, Final, NotRequired, TypeVar

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from control.handlers import OfStores, Operation
from control.in_time import in_time
from control.shapes.optional_members import instant
from control.stores import Stores
from control.v3.installation.account_sum import AccountSum
from control.v3.installation.backfill import (
    StatusBackfillShown,
    backfill_of,
    backfill_shown,
)
from control.v3.installation.catch_up import CatchUpShown, catch_up_shown
from control.v3.installation.lag import uncounted
from meterline.access import Scope
from meterline.event import Layout, Log, laid_out
from meterline.http import json_response
from meterline.http.operation import Answer, Call
from meterline.http.shapes import InstantShown, NoParameters
from meterline.limits import STATUS_PART_TIMEOUT_S
from meterline.meter import NewestRevisions
from meterline.ports import StoreLost, Unavailable
from meterline.usage import AccountRow, CatchingUp, Filling

_T = TypeVar("_T")
DIFFERING_HINT: Final = (
    "Usage of these slices may be wrong. The operator runs `meterline audit` to see what differs,"
    " and `meterline audit --repair` to write it anew from the events. Then run the reports of that"
    " time again."
)


@dataclass(slots=True)
class Findings:
    """What the parts said; None where a part did not answer."""

    begins: dict[int, int] | None = None
    ends: dict[int, int] | None = None
    version: int | None = None
    flushed: dict[int, int] | None = None
    completions: dict[int, int] | None = None
    backfilling: bool | None = None
    missing: bool | None = None  # whether that is of a meter in force
    fillings: list[Filling] | None = None
    catch_ups: list[CatchingUp] | None = None
    complete_until_ms: int | None = None
    differing: int | None = None
    account: AccountRow | None = None
    layout: Layout | None = None
    uncounted: list[int] | None = None  # partitions that are behind with a growth of the log
    unavailable: list["UnavailablePartShown"] = field(default_factory=list)
    lost: bool = False  # whether a store lacks what was counted: then nothing is caught up

    async def part(self, name: str, asked: Awaitable[_T]) -> _T | None:
        """The answer of a part, or None, with the reason kept under the part's name."""
        try:
            return await in_time(asked, STATUS_PART_TIMEOUT_S)
        except TimeoutError:
            reason = f"did not answer within {STATUS_PART_TIMEOUT_S} s"
        except Unavailable as error:
            reason = str(error)
            self.lost = self.lost or isinstance(error, StoreLost)
        if not any(one["part"] == name for one in self.unavailable):
            self.unavailable.append({"part": name, "reason": reason})
        return None


class UnavailablePartShown(TypedDict):
    """A part that did not answer."""

    part: str
    reason: str


class StatusGrowthShown(TypedDict):
    """A log that is getting more partitions (`meterline migrate --partitions`)."""

    partitions_before: int
    uncounted: Annotated[
        list[int],
        Field(description="Partitions that are not counted up to where the new number begins."),
    ]


class StatusLogShown(TypedDict):
    """The log."""

    id: str
    number: int
    partitions: int
    growth: Annotated[
        StatusGrowthShown | None, Field(description="Null unless it is getting more partitions.")
    ]


class StatusAccountShown(TypedDict):
    """What became of all events of the log: received is the sum of the others."""

    received: int
    new: int
    duplicate: int
    conflict: int
    invalid: int


class StatusPartitionShown(TypedDict):
    """How far a partition of the log is."""

    partition: int
    begin: Annotated[int | None, Field(description="Offset of the oldest record.")]
    end: Annotated[int | None, Field(description="Offset after the last record.")]
    flushed_end: Annotated[int | None, Field(description="Everything below can be queried.")]
    lag_records: int | None
    complete_until: InstantShown | None
    catching_up: Annotated[CatchUpShown | None, Field(description="Null where it is counted.")]


class DifferingSlicesShown(TypedDict):
    """Sealed parts of the log whose rows are not what the log says, as far as anybody found out."""

    count: Annotated[int, Field(ge=0, description="Found, and not mended since.")]
    hint: Annotated[str | None, Field(description="What to do; null: nothing.")]


class StatusShown(TypedDict):
    """How far everything is. What a part that does not answer would tell is null. What belongs to
    the installation is shown to who may operate it.
    """

    caught_up: Annotated[
        bool | None,
        Field(description="Whether every event accepted before the request is counted."),
    ]
    backfilling: Annotated[
        bool | None, Field(description="Whether a meter is being filled in from older events.")
    ]
    backfill_expected_end: Annotated[
        InstantShown | None,
        Field(
            description="When that may be expected to end. Null: nothing is filled in, or it has "
            "just begun."
        ),
    ]
    lag_records: Annotated[int | None, Field(description="Records of the log not yet counted.")]
    complete_until: Annotated[
        InstantShown | None,
        Field(description="Everything recorded up to then is counted, in every meter."),
    ]
    freshness_ms: Annotated[int | None, Field(description="How long ago that was.")]
    differing_slices: Annotated[
        DifferingSlicesShown | None,
        Field(description="Slices that differed when they were counted back after their seal."),
    ]
    catalogue_version: NotRequired[
        Annotated[int | None, Field(description="Counts changes of meters, in every namespace.")]
    ]
    log: NotRequired[StatusLogShown]
    account: NotRequired[StatusAccountShown | None]
    backfill: NotRequired[
        Annotated[StatusBackfillShown | None, Field(description="Null where nothing is filled in.")]
    ]
    partitions: NotRequired[list[StatusPartitionShown]]
    unavailable: NotRequired[list[UnavailablePartShown]]


_EXAMPLE: Final = {
    "caught_up": True,
    "backfilling": True,
    "backfill_expected_end": "2026-01-31T18:29:00Z",
    "lag_records": 0,
    "complete_until": "2026-01-31T18:27:37.218Z",
    "freshness_ms": 1_250,
    "differing_slices": {"count": 0, "hint": None},
    "catalogue_version": 3,
    "log": {"id": "8d0f6e7c", "number": 1, "partitions": 1, "growth": None},
    "account": {"received": 12, "new": 10, "duplicate": 1, "conflict": 1, "invalid": 0},
    "backfill": {"slices_filled": 120, "slices": 300, "events_filled": 48_000, "events": 120_000},
    "partitions": [
        {
            "partition": 0,
            "begin": 0,
            "end": 5,
            "flushed_end": 5,
            "lag_records": 0,
            "complete_until": "2026-01-31T18:27:37.218Z",
            "catching_up": None,
        }
    ],
    "unavailable": [],
}


class V3Status(OfStores, tag="Status"):
    """The handler of the status."""

    def __init__(self, stores: Stores) -> None:
        super().__init__(stores)
        self._account = AccountSum(stores)

    @Operation(
        id="get-status",
        route="GET /status",
        summary="Get the status",
        description="The progress of counting. To know when your events are counted, wait until "
        "`caught_up` is true.",
        scope=Scope.STATUS_READ,
        answer=Answer(200, "The status.", StatusShown, example=_EXAMPLE),
    )
    async def status(self, call: Call[NoParameters, None]) -> web.Response:
        """200 always; what parts that do not answer would tell is null."""
        found = await _findings(self._stores, self._account)
        log = self._stores.log
        shown = _overall(found, log.partitions, self._stores.now_ms)
        if Scope.OPERATE in call.principal.scopes:  # the rest belongs to no namespace
            _add_installation(shown, found, log, self._stores.now_ms)
        return json_response(shown)


async def _findings(stores: Stores, account: AccountSum) -> Findings:
    """Ask every part."""
    found = Findings()
    await _ask_layout(stores, found)
    await _ask_log(stores, found)
    await _ask_control(stores, found)  # after the ends
    await _ask_usage(account, found)  # at last: of whoever is caught up, the account is whole
    return found


async def _ask_layout(stores: Stores, found: Findings) -> None:
    """First: what was accepted before may lie in partitions that the log got a moment ago."""
    log, progress = stores.log, stores.progress
    found.layout = await found.part("control", laid_out(log, progress.layout))


async def _ask_log(stores: Stores, found: Findings) -> None:
    numbers = range(stores.log.partitions)

    async def all_of(asked: list[Awaitable[int]]) -> dict[int, int]:
        return dict(zip(numbers, await asyncio.gather(*asked), strict=True))

    found.ends = await found.part("log", all_of([stores.log.end(n) for n in numbers]))
    if found.ends is not None:
        found.begins = await found.part("log", all_of([stores.log.begin(n) for n in numbers]))


async def _ask_usage(account: AccountSum, found: Findings) -> None:
    found.account = await found.part("usage", account.now())


async def _ask_flushed(stores: Stores, found: Findings) -> NewestRevisions | None:
    """What is counted by the meters in force; which these are."""
    known = await found.part("control", stores.catalogue.newest_revisions())
    if known is not None:
        found.version = known.version
        ends = stores.progress.flushed_ends(stores.log.number, known.in_force)
        found.flushed = await found.part("control", ends)
    return known


async def _ask_control(stores: Stores, found: Findings) -> None:
    known = await _ask_flushed(stores, found)
    if known is None:
        return
    newest, pending = known.in_force, known.newest
    log, progress = stores.log, stores.progress
    found.completions = await found.part("control", progress.completions(log.number, newest))
    # Asked after the flushed ends: what is below them and lacks a meter is in the list by now.
    lists = [
        progress.unfilled(log.number, n, revision, 1)
        for revision in dict.fromkeys((newest, pending))  # mostly one
        for n in range(log.partitions)
    ]
    unfilled = await found.part("control", asyncio.gather(*lists))
    if unfilled is not None:
        found.missing = any(unfilled[: log.partitions])
        found.backfilling = any(unfilled)
    if found.backfilling:
        found.fillings = await found.part("control", progress.fillings(log.number))
    found.complete_until_ms = await found.part(
        "control", progress.complete_until(log.number, log.partitions, newest)
    )
    passed = await found.part("control", progress.marks(log.number))
    if passed is not None and found.layout is not None:
        found.uncounted = found.layout.uncounted(passed)
    found.catch_ups = await found.part("control", progress.catch_ups(log.number))
    found.differing = await found.part("control", progress.differing_slices())


async def lag_records(stores: Stores) -> int | None:
    """Records of the log that are not counted yet, of all partitions; None: a part is away."""
    found = Findings()
    await _ask_layout(stores, found)
    await _ask_log(stores, found)
    await _ask_flushed(stores, found)
    if found.ends is None or found.flushed is None:
        return None
    return sum(_lag(found, number) or 0 for number in range(stores.log.partitions))


def _overall(found: Findings, partitions: int, now_ms: int) -> StatusShown:
    lags = [_lag(found, number) for number in range(partitions)]
    until_ms = None if found.lost else found.complete_until_ms
    asked = found.ends is not None and found.flushed is not None and found.layout is not None
    known = not found.lost and asked
    counted = known and found.missing is not None
    lag = sum(lag or 0 for lag in lags)
    filled = backfill_of(found.fillings or (), now_ms)
    return {
        "caught_up": lag == 0 and not found.missing if counted else None,
        "backfilling": found.backfilling,
        "backfill_expected_end": instant(None if filled is None else filled.expected_end_ms),
        "lag_records": lag if known else None,
        "complete_until": instant(until_ms),
        "freshness_ms": None if until_ms is None else max(0, now_ms - until_ms),
        "differing_slices": _differing(found.differing),
    }


def _differing(count: int | None) -> DifferingSlicesShown | None:
    return None if count is None else {"count": count, "hint": DIFFERING_HINT if count else None}


def _add_installation(shown: StatusShown, found: Findings, log: Log, now_ms: int) -> None:
    shown["catalogue_version"] = found.version
    shown["log"] = {
        "id": log.id,
        "number": log.number,
        "partitions": log.partitions,
        "growth": _growth(found),
    }
    shown["account"] = _account(found.account)
    shown["backfill"] = backfill_shown(backfill_of(found.fillings or (), 0))
    shown["partitions"] = [_partition(found, number, now_ms) for number in range(log.partitions)]
    shown["unavailable"] = found.unavailable


def _growth(found: Findings) -> StatusGrowthShown | None:
    if found.layout is None or not found.uncounted:
        return None
    return {"partitions_before": found.layout.growths[-1].before, "uncounted": found.uncounted}


def _lag(found: Findings, number: int) -> int | None:
    if found.ends is None or found.flushed is None:
        return None
    begin = 0 if found.begins is None else found.begins[number]
    return uncounted(begin, found.ends[number], found.flushed.get(number, 0))


def _partition(found: Findings, number: int, now_ms: int) -> StatusPartitionShown:
    until_ms = None if found.completions is None else found.completions.get(number)
    return {
        "partition": number,
        "begin": None if found.begins is None else found.begins[number],
        "end": None if found.ends is None else found.ends[number],
        "flushed_end": None if found.flushed is None else found.flushed.get(number),
        "lag_records": _lag(found, number),
        "complete_until": instant(until_ms),
        "catching_up": catch_up_shown(found.catch_ups or (), number, now_ms),
    }


def _account(account: AccountRow | None) -> StatusAccountShown | None:
    if account is None:
        return None
    return {
        "received": account.received,
        "new": account.new,
        "duplicate": account.duplicate,
        "conflict": account.conflict,
        "invalid": account.invalid,
    }
