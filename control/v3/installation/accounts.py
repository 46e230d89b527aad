"""The account (API v3): what became of every event of a namespace, and of every meter's events."""

from typing import Annotated, Any, Final, NotRequired

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from control.handlers import Handlers, Operation
from control.kept import kept_from
from control.shapes.pages import KeptFrom
from control.stores import Ledger, Stores
from control.usage.admission import Asks
from control.v3.installation.status import lag_records
from meterline.access import Scope
from meterline.http import json_response
from meterline.http.operation import Answer, Call
from meterline.http.shapes import Flag, Instant, InstantShown, Parameters, Ulid
from meterline.limits import ACCOUNT_HOURS, ACCOUNT_HOURS_MAX
from meterline.meter import Meter
from meterline.problem import Fault, invalid
from meterline.usage import EVENTS, REJECTS, AccountLine, AccountQuery, MeterAccount
from meterline.window import HOUR_MS, rfc3339

Number = Annotated[int, Field(ge=0)]


class AccountParameters(Parameters):
    """Of which hours."""

    from_: Annotated[
        Instant | None,
        Field(
            alias="from",
            description="Appended to the log in this hour or later, a whole hour. "
            f"Without it: {ACCOUNT_HOURS} hours before `to`.",
        ),
    ] = None
    to: Annotated[
        Instant | None,
        Field(
            description=f"Before this hour, at most {ACCOUNT_HOURS_MAX} after `from`. "
            "Without it: the end of the present hour."
        ),
    ] = None
    meters: Annotated[
        Flag,
        Field(
            description="Whether to count by meter as well. Without, the answer is smaller and "
            "comes sooner, and `meters` is empty."
        ),
    ] = True


class VerdictCountsShown(TypedDict):
    """received = new + duplicate + conflict + invalid, and new = matched + unmatched, always."""

    received: Number
    new: Number
    duplicate: Number
    conflict: Number
    invalid: Number
    matched: Annotated[int, Field(ge=0, description="New events that a current meter counts.")]
    unmatched: Annotated[int, Field(ge=0, description="New events that no meter counts.")]


AccountLineShown = TypedDict(  # a class cannot have a member called `from`
    "AccountLineShown",
    {
        "from": Annotated[InstantShown, Field(description="Start of the hour.")],
        "to": Annotated[InstantShown, Field(description="End of the hour.")],
        "source": Annotated[str, Field(description="Empty where it could not be read.")],
        "type": Annotated[str, Field(description="Empty where it could not be read.")],
        "received": Number,
        "new": Number,
        "duplicate": Number,
        "conflict": Number,
        "invalid": Number,
        "matched": Number,
        "unmatched": Number,
    },
)


class MeterAccountShown(TypedDict):
    """matched = counted + rejected, once all of it is counted."""

    id: Ulid
    key: str
    matched: Annotated[int, Field(ge=0, description="New events that it takes, by the events.")]
    counted: Annotated[int, Field(ge=0, description="Those that counted, by its tallies.")]
    rejected: Annotated[int, Field(ge=0, description="Those without a usable value.")]


AccountsShown = TypedDict(
    "AccountsShown",
    {
        "from": InstantShown,
        "to": InstantShown,
        "total": VerdictCountsShown,
        "events_kept_from": NotRequired[KeptFrom],
        "refusals_kept_from": NotRequired[KeptFrom],
        "data": Annotated[
            list[AccountLineShown], Field(description="By hour, source and type; none without any.")
        ],
        "meters": list[MeterAccountShown],
        "pending": Annotated[
            int | None,
            Field(
                ge=0,
                description="Records of the log, of all namespaces, that are not counted yet. "
                "Null: a store does not respond.",
            ),
        ],
    },
)

_COUNTS: Final = {
    "received": 12,
    "new": 10,
    "duplicate": 1,
    "conflict": 1,
    "invalid": 0,
    "matched": 9,
    "unmatched": 1,
}
_EXAMPLE: Final[Any] = {
    "from": "2026-01-31T10:00:00Z",
    "to": "2026-01-31T11:00:00Z",
    "total": _COUNTS,
    "data": [
        {
            "from": "2026-01-31T10:00:00Z",
            "to": "2026-01-31T11:00:00Z",
            "source": "chat-api",
            "type": "completion",
            **_COUNTS,
        }
    ],
    "meters": [
        {
            "id": "01M7ZMF4YA7D2SQ292V0W9JPT8",
            "key": "tokens_total",
            "matched": 9,
            "counted": 8,
            "rejected": 1,
        }
    ],
    "pending": 0,
}


class V3Accounts(Handlers, tag="Accounts"):
    """The handler of the account."""

    def __init__(self, stores: Stores, ledger: Ledger) -> None:
        self._stores = stores
        self._ledger = ledger

    @Operation(
        id="list-accounts",
        route="GET /accounts",
        summary="List accounts of all events",
        description=(
            "The verdicts of all events of the namespace, by hour of arrival in the log, source "
            "and type. For each meter, how many of its events were counted: fewer than it matches "
            "while it is being backfilled. Records that are not events of any namespace are shown "
            "to keys with the scope `operate`."
        ),
        scope=Scope.USAGE_READ,
        asks=Asks.SEARCH,
        parameters=AccountParameters,
        answer=Answer(200, "The account.", AccountsShown, example=_EXAMPLE),
    )
    async def list(self, call: Call[AccountParameters, None]) -> web.Response:
        """200 with every hour in which something was appended."""
        from_ms, to_ms = _span(call.parameters, self._stores.now_ms)
        meters = await self._stores.catalogue.meters(call.namespace)
        unowned = Scope.OPERATE in call.principal.scopes
        query = AccountQuery(call.namespace, from_ms, to_ms, tuple(meters), unowned)
        lines = await self._ledger.accounts.account_lines(query)
        counted = meters if call.parameters.meters else []
        counts = await self._ledger.accounts.meter_accounts(query) if counted else []
        by_revision = {count.revision: count for count in counts}
        answer: AccountsShown = {
            "from": rfc3339(from_ms),
            "to": rfc3339(to_ms),
            "total": _counts(lines),
            "data": [_line(line) for line in lines],
            "meters": [_meter(meter, by_revision[meter.revision]) for meter in counted],
            "pending": await lag_records(self._stores),
        }
        for table, member in ((EVENTS, "events_kept_from"), (REJECTS, "refusals_kept_from")):
            if (since := await kept_from(self._stores, table, from_ms)) is not None:
                answer[member] = since  # type: ignore[literal-required]
        return json_response(answer)


def _span(asked: AccountParameters, now_ms: int) -> tuple[int, int]:
    """The hours asked for. Raises `Problem` with every fault."""
    faults = [
        Fault(name, f"{rfc3339(at_ms)} is not a whole hour", "whole_hour", "query")
        for name, at_ms in (("from", asked.from_), ("to", asked.to))
        if at_ms is not None and at_ms % HOUR_MS
    ]
    from_ms, to_ms = asked.from_, asked.to
    if to_ms is None:
        to_ms = (now_ms // HOUR_MS + 1) * HOUR_MS
    if from_ms is None:
        from_ms = to_ms - ACCOUNT_HOURS * HOUR_MS
    if from_ms >= to_ms:
        message = f"{rfc3339(from_ms)} must be before to, {rfc3339(to_ms)}"
        faults.append(Fault("from", message, "maximum", "query"))
    elif to_ms - from_ms > ACCOUNT_HOURS_MAX * HOUR_MS:
        message = f"lies over {ACCOUNT_HOURS_MAX} hours before to, {rfc3339(to_ms)}; ask for fewer"
        faults.append(Fault("from", message, "minimum", "query"))
    if faults:
        raise invalid(*faults)
    return from_ms, to_ms


def _line(line: AccountLine) -> AccountLineShown:
    return {
        "from": rfc3339(line.hour * HOUR_MS),
        "to": rfc3339((line.hour + 1) * HOUR_MS),
        "source": line.source,
        "type": line.type,
        **_counts([line]),
    }


def _counts(lines: list[AccountLine]) -> VerdictCountsShown:
    new, matched = sum(line.new for line in lines), sum(line.matched for line in lines)
    return {
        "received": sum(line.received for line in lines),
        "new": new,
        "duplicate": sum(line.duplicate for line in lines),
        "conflict": sum(line.conflict for line in lines),
        "invalid": sum(line.invalid for line in lines),
        "matched": matched,
        "unmatched": new - matched,
    }


def _meter(meter: Meter, count: MeterAccount) -> MeterAccountShown:
    return {
        "id": meter.id,
        "key": meter.key,
        "matched": count.matched,
        "counted": count.counted,
        "rejected": count.rejected,
    }
