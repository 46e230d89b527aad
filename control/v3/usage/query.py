"""Usage in API v3, as in OpenMeter: exact decimals, and up to when they are complete."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from functools import partial
from heapq import nlargest
from operator import attrgetter
from typing import Annotated, Any, Final, Literal, NotRequired, Self

import msgspec
from aiohttp import web
from pydantic import AfterValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from control.handlers import Handlers, Operation
from control.shapes.optional_members import Maybe, instant, present
from control.stores import Stores
from control.usage.admission import Asks
from control.usage.answers import Answers, Blocks, Form
from control.usage.form import opening, table, wants_csv, window_bound
from control.usage.query import (
    COMPLETE_FROM_DESCRIPTION,
    COMPLETE_FROM_HEADER,
    COMPLETE_UNTIL_HEADER,
    SUBJECT,
    Asked,
    MemberNames,
    Question,
    asked,
    query_of,
)
from meterline.access import Scope
from meterline.http.operation import CSV, JSON, Answer, Call, json_body
from meterline.http.shapes import (
    Closed,
    DecimalShown,
    Instant,
    InstantShown,
    NoParameters,
    ZoneName,
)
from meterline.limits import (
    QUERY_FILTER_DEPTH_MAX,
    QUERY_FILTER_PARTS_MAX,
    QUERY_FILTER_VALUES_MAX,
    QUERY_FILTERS_MAX,
    QUERY_GROUP_BY_MAX,
    QUERY_TOP_HELD,
    QUERY_TOP_MAX,
)
from meterline.number import text
from meterline.problem import ProblemType
from meterline.usage import Filter, Operator, UsageRow
from meterline.window import ISO_SIZES

NAMES: Final = MemberNames("group_by_dimensions", "filters.dimensions", "body")
Texts = Annotated[list[str], Field(min_length=1, max_length=QUERY_FILTER_VALUES_MAX)]
Conditions = Annotated[
    list["UsageCondition"], Field(min_length=1, max_length=QUERY_FILTER_PARTS_MAX)
]
Operand = Maybe[str]
Operands = Maybe[Texts]
Parts = Maybe[Conditions]


class UsageCondition(Closed):
    """One operator of a filter with its operand."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    eq: Operand = None
    neq: Operand = None
    in_: Annotated[Operands, Field(alias="in")] = None
    nin: Operands = None
    contains: Operand = None
    ncontains: Operand = None
    exists: Annotated[
        Maybe[bool], Field(description="Whether there is a value; one missing is empty.")
    ] = None
    and_: Annotated[Parts, Field(alias="and")] = None
    or_: Annotated[Parts, Field(alias="or")] = None

    @model_validator(mode="after")
    def _holds_one_operator(self) -> Self:
        if len(self.model_fields_set) != 1:
            operators = ", ".join(Operator)
            raise PydanticCustomError(
                "one_of", "needs exactly one of {operators}", {"operators": operators}
            )
        return self

    @property
    def depth(self) -> int:
        """How many `and` and `or` lie within each other."""
        parts = (*(self.and_ or ()), *(self.or_ or ()))
        return 1 + max(part.depth for part in parts) if parts else 0

    def filter(self) -> Filter:
        """The condition as a value."""
        (name,) = self.model_fields_set
        operator = Operator(name.rstrip("_"))
        operand = getattr(self, name)
        match operator:
            case Operator.AND | Operator.OR:
                return Filter(operator, parts=tuple(part.filter() for part in operand))
            case Operator.IN | Operator.NIN:
                return Filter(operator, tuple(operand))
            case Operator.EXISTS:
                return Filter(operator, ("true" if operand else "false",))
            case _:
                return Filter(operator, (operand,))


def _within_depth(condition: UsageCondition) -> UsageCondition:
    if condition.depth > QUERY_FILTER_DEPTH_MAX:
        template = "holds and, or more than {most} deep"
        raise PydanticCustomError("max_depth", template, {"most": QUERY_FILTER_DEPTH_MAX})
    return condition


class UsageFilters(Closed):
    """Conditions, joined by and."""

    dimensions: Annotated[
        dict[str, Annotated[UsageCondition, AfterValidator(_within_depth)]],
        Field(max_length=QUERY_FILTERS_MAX),
    ] = {}


class QueryBody(Closed):
    """What is asked. Nothing but `{}` asks for one total of all time."""

    from_: Annotated[
        Maybe[Instant],
        Field(alias="from", description="Usage of then or later, to the millisecond."),
    ] = None
    to: Annotated[Maybe[Instant], Field(description="Usage of earlier than then.")] = None
    granularity: Annotated[
        Maybe[Literal["PT1M", "PT1H", "P1D", "P1M"]],
        Field(description="Size of the windows; one total where it is absent."),
    ] = None
    time_zone: Annotated[ZoneName, Field(description="Where days and months begin.")] = "UTC"
    group_by_dimensions: Annotated[
        list[str],
        Field(
            max_length=QUERY_GROUP_BY_MAX,
            description="Dimensions of the meter, and `subject`; each group has rows of its own.",
        ),
    ] = []
    filters: UsageFilters = UsageFilters()
    top: Annotated[
        Maybe[Annotated[int, Field(ge=1, le=QUERY_TOP_MAX)]],
        Field(description="Only so many rows: those with the most usage, the largest first."),
    ] = None

    def question(self) -> Question:
        """The question as a value."""
        conditions = self.filters.dimensions.items()
        return Question(
            NAMES,
            from_ms=self.from_,
            to_ms=self.to,
            window=None if self.granularity is None else ISO_SIZES[self.granularity],
            zone=self.time_zone,
            group_by=tuple(self.group_by_dimensions),
            filters=tuple((name, condition.filter()) for name, condition in conditions),
        )


UsageRowShown = TypedDict(  # a class cannot have a member called `from`
    "UsageRowShown",
    {
        "value": DecimalShown,
        "from": Annotated[InstantShown, Field(description="Start of the window.")],
        "to": Annotated[InstantShown, Field(description="End of the window.")],
        "dimensions": Annotated[
            dict[str, str], Field(description="Values of what was grouped by; `subject` among it.")
        ],
        "counted": Annotated[int, Field(ge=0, description="Events that counted.")],
        "rejected": Annotated[int, Field(ge=0, description="Events without a usable value.")],
    },
)
QueryResultShown = TypedDict(
    "QueryResultShown",
    {
        "from": NotRequired[InstantShown],
        "to": NotRequired[InstantShown],
        "complete_until": Annotated[
            InstantShown | None,
            Field(description="Of what was received until then nothing is missing; null: unknown."),
        ],
        "complete_from": NotRequired[
            Annotated[InstantShown, Field(description=COMPLETE_FROM_DESCRIPTION)]
        ],
        "data": list[UsageRowShown],
    },
)

_ASKED: Final[Any] = {
    "from": "2026-01-01T00:00:00Z",
    "to": "2026-02-01T00:00:00Z",
    "granularity": "P1M",
    "group_by_dimensions": ["subject", "model"],
    "filters": {"dimensions": {"model": {"in": ["small", "large"]}}},
}
_ANSWERED: Final = {
    "from": "2026-01-01T00:00:00Z",
    "to": "2026-02-01T00:00:00Z",
    "complete_until": "2026-01-31T18:27:37.218Z",
    "data": [
        {
            "value": "1234.5",
            "from": "2026-01-01T00:00:00Z",
            "to": "2026-02-01T00:00:00Z",
            "dimensions": {"subject": "customer-1", "model": "small"},
            "counted": 17,
            "rejected": 0,
        }
    ],
}
COMPLETE_UNTIL_DESCRIPTION: Final = (
    "Of what was received until then nothing is missing; absent: unknown."
)


class V3Query(Handlers, tag="Meters"):
    """The handler of queries."""

    def __init__(self, stores: Stores, answers: Answers) -> None:
        self._stores = stores
        self._answers = answers

    @Operation(
        id="query-meter",
        route="POST /meters/{meterId}/query",
        summary="Query usage",
        description=(
            "Usage of a meter by windows and groups, ordered by both, or by `top` alone. A window "
            "or group in which nothing counted has no row. `Accept: text/csv` asks for a table."
        ),
        scope=Scope.USAGE_READ,
        asks=Asks.USAGE,
        body=json_body(QueryBody, _ASKED),
        answer=(
            Answer(
                200,
                "Usage.",
                QueryResultShown,
                example=_ANSWERED,
                headers={
                    COMPLETE_UNTIL_HEADER: COMPLETE_UNTIL_DESCRIPTION,
                    COMPLETE_FROM_HEADER: COMPLETE_FROM_DESCRIPTION,
                },
            ),
            Answer(200, "Usage.", str, CSV, example="from,to,value\r\n"),
        ),
        problems=(ProblemType.NOT_ACCEPTABLE,),
    )
    async def query(self, call: Call[NoParameters, QueryBody]) -> web.StreamResponse:
        """200 with a row for each window and group in which something counted."""
        as_csv = wants_csv(call.request)
        meter = await self._stores.meter(call.namespace, call.names["meterId"])
        asked_for = await asked(self._stores, query_of(meter, call.body.question()))
        form = rows_form(_head(asked_for), asked_for.headers)
        if as_csv:
            form = table(asked_for, ("from", "to"), text)
        ask = partial(self._stores.usage.usage_rows, asked_for.query)
        if call.body.top is not None:
            ask = partial(_most, ask, call.body.top)
        return await self._answers.send(call, form, ask)


async def _most(ask: Callable[[], Blocks], top: int) -> Blocks:
    """The rows with the most usage of an answer, in one part. Of all others none is kept."""
    kept: list[UsageRow] = []
    async with aclosing(ask()) as blocks:
        async for block in blocks:
            kept += block
            if len(kept) >= top + QUERY_TOP_HELD:
                kept = await asyncio.to_thread(_largest, kept, top)
    yield _largest(kept, top)


def _largest(rows: Sequence[UsageRow], top: int) -> list[UsageRow]:
    """Those with the most usage; of equal ones the first."""
    return nlargest(top, rows, key=attrgetter("value"))


def rows_form(head: bytes, headers: dict[str, str]) -> Form:
    """Rows as the entries of a JSON array that `head` opens."""
    return Form(JSON, head, _entries, b",", b"]}", headers)


def _entries(rows: Sequence[UsageRow]) -> bytes:
    return msgspec.json.encode([row_shown(row) for row in rows])[1:-1]


def _head(asked_for: Asked) -> bytes:
    query = asked_for.query
    span = present({"from": instant(query.from_ms), "to": instant(query.to_ms)})
    lacks = present({"complete_from": instant(asked_for.complete_from_ms)})
    return opening({**span, "complete_until": instant(asked_for.complete_until_ms), **lacks})


def row_shown(row: UsageRow) -> UsageRowShown:
    """The peer's row and two members more: how many events counted, and how many could not."""
    dimensions = dict(row.groups)
    if row.subject is not None:
        dimensions[SUBJECT] = row.subject
    return {
        "value": text(row.value),
        "from": window_bound(row.from_ms),
        "to": window_bound(row.to_ms),
        "dimensions": dimensions,
        "counted": row.count,
        "rejected": row.rejected,
    }
