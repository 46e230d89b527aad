"""Usage in API v1, as in OpenMeter: values are JSON numbers, written with all their digits."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal, NotRequired, cast

import msgspec
from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from control.handlers import Handlers, Operation
from control.shapes.optional_members import instant, present
from control.shapes.refused_parameters import Customers, Unsupported
from control.stores import Stores
from control.usage.admission import Asks
from control.usage.answers import Answers, Form
from control.usage.entity_tag import IF_NONE_MATCH_DESCRIPTION
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
from control.v1.events import ClientId
from control.v1.meters import Camel
from meterline.access import Scope
from meterline.http.operation import CSV, JSON, Answer, Call, json_body
from meterline.http.shapes import (
    AnyParameters,
    Instant,
    InstantShown,
    LooseParameters,
    Many,
    ZoneName,
)
from meterline.limits import (
    QUERY_FILTER_VALUES_MAX,
    QUERY_FILTERS_MAX,
    QUERY_GROUP_BY_MAX,
    QUERY_SUBJECTS_MAX,
)
from meterline.number import fixed, text
from meterline.problem import ProblemType
from meterline.usage import Filter, Operator, UsageQuery, UsageRow
from meterline.window import WindowSize

IN_QUERY: Final = MemberNames("groupBy", "filterGroupBy", "query")
IN_BODY: Final = MemberNames("groupBy", "filterGroupBy", "body")

Texts = Annotated[list[str], Field(max_length=QUERY_FILTER_VALUES_MAX)]


Subjects = Annotated[
    list[str],
    Field(max_length=QUERY_SUBJECTS_MAX, description="Only of these; also groups by subject."),
]
GroupBy = Annotated[
    list[str],
    Field(max_length=QUERY_GROUP_BY_MAX, description="Group-by keys of the meter, and `subject`."),
]
ONE_OF: Final = "By group-by key, the values of which one must be there."


class QueryBody(Camel):
    """What is asked. Nothing but `{}` asks for one total of all time."""

    client_id: ClientId | None = None
    from_: Annotated[Instant | None, Field(alias="from")] = None
    to: Instant | None = None
    window_size: WindowSize | None = None
    window_time_zone: ZoneName | None = None
    subject: Subjects | None = None
    group_by: GroupBy | None = None
    filter_group_by: Annotated[
        dict[str, Texts] | None, Field(max_length=QUERY_FILTERS_MAX, description=ONE_OF)
    ] = None

    def question(self) -> Question:
        """The question as a value."""
        return Question(
            IN_BODY,
            from_ms=self.from_,
            to_ms=self.to,
            window=self.window_size,
            zone=self.window_time_zone or "UTC",
            group_by=tuple(self.group_by or ()),
            filters=_filters(self.subject or [], self.filter_group_by or {}),
        )


class QueryParameters(LooseParameters):
    """What is asked. Nothing asks for one total of all time."""

    client_id: Annotated[ClientId | None, Field(alias="clientId")] = None
    from_: Annotated[Instant | None, Field(alias="from", description="Usage of then or later.")] = (
        None
    )
    to: Annotated[Instant | None, Field(description="Usage of earlier than then.")] = None
    window_size: Annotated[
        Literal["MINUTE", "HOUR", "DAY", "MONTH"] | None,
        Field(alias="windowSize", description="One total where it is absent."),
    ] = None
    window_time_zone: Annotated[
        ZoneName, Field(alias="windowTimeZone", description="Where days and months begin.")
    ] = "UTC"
    subject: Annotated[Subjects, Many] = []
    group_by: Annotated[GroupBy, Field(alias="groupBy"), Many] = []
    filter_group_by: Annotated[
        dict[str, Annotated[Texts, Many]],
        Field(
            alias="filterGroupBy",
            max_length=QUERY_FILTERS_MAX,
            description=f"{ONE_OF} `filterGroupBy[model]=small`; again for a second value.",
        ),
    ] = {}
    filter_customer_id: Annotated[Customers, Field(alias="filterCustomerId")] = None
    advanced_filters: Annotated[Unsupported, Field(alias="advancedMeterGroupByFilters")] = None

    def question(self) -> Question:
        """The question as a value."""
        return Question(
            IN_QUERY,
            from_ms=self.from_,
            to_ms=self.to,
            window=None if self.window_size is None else WindowSize(self.window_size),
            zone=self.window_time_zone,
            group_by=tuple(self.group_by),
            filters=_filters(self.subject, self.filter_group_by),
        )


class UsageRowShown(TypedDict):
    """Usage of one window and group."""

    value: Annotated[float, Field(description="All its digits: a double may hold less.")]
    windowStart: InstantShown
    windowEnd: InstantShown
    subject: Annotated[str | None, Field(description="Null where it is not grouped by.")]
    groupBy: dict[str, str]


QueryResultShown = TypedDict(  # a class cannot have a member called `from`
    "QueryResultShown",
    {
        "from": NotRequired[InstantShown],
        "to": NotRequired[InstantShown],
        "windowSize": NotRequired[WindowSize],
        "data": list[UsageRowShown],
    },
)

_ASKED: Final = {
    "from": "2026-01-01T00:00:00Z",
    "to": "2026-02-01T00:00:00Z",
    "windowSize": "MONTH",
    "groupBy": ["subject", "model"],
    "filterGroupBy": {"model": ["small", "large"]},
}
_ANSWERED: Final = {
    "from": "2026-01-01T00:00:00Z",
    "to": "2026-02-01T00:00:00Z",
    "windowSize": "MONTH",
    "data": [
        {
            "value": 1234.5,
            "windowStart": "2026-01-01T00:00:00Z",
            "windowEnd": "2026-02-01T00:00:00Z",
            "subject": "customer-1",
            "groupBy": {"model": "small"},
        }
    ],
}
_HEADERS: Final = {
    COMPLETE_UNTIL_HEADER: "Of what was received until then nothing is missing; absent: unknown.",
    COMPLETE_FROM_HEADER: COMPLETE_FROM_DESCRIPTION,
}
_TABLE: Final = Answer(200, "Usage.", str, CSV, example="window_start,window_end,subject,value\n")
_ANSWERS: Final = (
    Answer(200, "Usage.", QueryResultShown, example=_ANSWERED, headers=_HEADERS),
    _TABLE,
)
_KEPT_HEADERS: Final = {
    **_HEADERS,
    "ETag": "Changes when the answer does. Absent: more may come before `to`, or it is large.",
    "Cache-Control": "Without `ETag` `no-store`: nobody keeps the answer.",
    "Vary": "`Accept`.",
}
_ANSWERS_BY_URL: Final = (
    Answer(200, "Usage.", QueryResultShown, example=_ANSWERED, headers=_KEPT_HEADERS),
    _TABLE,
    Answer(304, "The client has this answer (`If-None-Match`).", headers=_KEPT_HEADERS),
)
_DESCRIPTION: Final = (
    "Usage of a meter by windows and groups, ordered by both. A window or group in which nothing "
    "counted has no row. `Accept: text/csv` asks for a table."
)


class V1Query(Handlers, tag="Meters"):
    """The handlers of queries."""

    def __init__(self, stores: Stores, answers: Answers) -> None:
        self._stores = stores
        self._answers = answers

    @Operation(
        id="queryMeter",
        route="GET /v1/meters/{meterIdOrSlug}/query",
        summary="Query usage",
        description=_DESCRIPTION,
        scope=Scope.USAGE_READ,
        asks=Asks.USAGE,
        parameters=QueryParameters,
        headers={"If-None-Match": IF_NONE_MATCH_DESCRIPTION},
        answer=_ANSWERS_BY_URL,
        problems=(ProblemType.NOT_ACCEPTABLE,),
    )
    async def by_url(self, call: Call[QueryParameters, None]) -> web.StreamResponse:
        """200 with rows, or 304; the question stands in the query parameters."""
        return await self._answered(call, call.parameters.question())

    @Operation(
        id="queryMeterPost",
        route="POST /v1/meters/{meterIdOrSlug}/query",
        summary="Query usage with a body",
        description=f"{_DESCRIPTION} For filters that fit no URL.",
        scope=Scope.USAGE_READ,
        asks=Asks.USAGE,
        parameters=AnyParameters,
        body=json_body(QueryBody, _ASKED),
        answer=_ANSWERS,
        problems=(ProblemType.NOT_ACCEPTABLE,),
    )
    async def by_body(self, call: Call[AnyParameters, QueryBody]) -> web.StreamResponse:
        """200 with rows; the question stands in the body, as long filters fit no URL."""
        return await self._answered(call, call.body.question())

    async def _answered(self, call: Call[Any, Any], question: Question) -> web.StreamResponse:
        as_csv = wants_csv(call.request)
        meter = await self._stores.meter(call.namespace, call.names["meterIdOrSlug"])
        asked_for = await asked(self._stores, query_of(meter, question), question.names.source)
        ask = partial(self._stores.usage.usage_rows, asked_for.query)
        form = _rows(asked_for)
        if as_csv:  # as the peer makes it
            bounds = ("window_start", "window_end")
            form = table(asked_for, bounds, fixed, "\n", always_subject=True)
        return await self._answers.send(call, form, ask)


def _filters(subjects: list[str], wanted: dict[str, list[str]]) -> tuple[tuple[str, Filter], ...]:
    filters = [
        (name, Filter(Operator.IN, tuple(values))) for name, values in wanted.items() if values
    ]
    if subjects:
        filters.append((SUBJECT, Filter(Operator.IN, tuple(subjects))))
    return tuple(filters)


def _rows(asked_for: Asked) -> Form:
    head, sealed = _head(asked_for.query), asked_for.sealed
    return Form(JSON, head, _entries, b",", b"]}", asked_for.headers, sealed)


def _head(query: UsageQuery) -> bytes:
    window = None if query.window is None else query.window.value
    span = {"from": instant(query.from_ms), "to": instant(query.to_ms), "windowSize": window}
    return opening(present(span))


def _entries(rows: Sequence[UsageRow]) -> bytes:
    return msgspec.json.encode([_entry(row) for row in rows])[1:-1]


def _entry(row: UsageRow) -> UsageRowShown:
    return {
        # the digits themselves, which no double could hold
        "value": cast("float", msgspec.Raw(text(row.value).encode())),
        "windowStart": window_bound(row.from_ms),
        "windowEnd": window_bound(row.to_ms),
        "subject": row.subject,
        "groupBy": dict(row.groups),
    }
