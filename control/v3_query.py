"""Usage in API v3 (peer-api.md 1.6): exact decimals, and up to when they are complete."""

from collections.abc import Iterator
from typing import Annotated, Final, Literal, Self

import msgspec
from aiohttp import web
from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from control.ask import SUBJECT, Answer, Question, Words, answer, query_of
from control.edge import Closed, Instant, ZoneName, body_of, parameters_of, path_name
from control.form import attachment, csv_pieces, json_pieces, send, wants_csv
from control.stores import Stores
from control.v3_meters import PREFIXES
from meterline.limits import (
    QUERY_FILTER_DEPTH_MAX,
    QUERY_FILTER_PARTS_MAX,
    QUERY_FILTER_VALUES_MAX,
    QUERY_FILTERS_MAX,
    QUERY_GROUP_BY_MAX,
)
from meterline.number import text
from meterline.usage import Filter, Operator, UsageRow
from meterline.window import ISO_SIZES, rfc3339

WORDS: Final = Words("group_by_dimensions", "filters.dimensions", "body")
Values = Annotated[list[str], Field(min_length=1, max_length=QUERY_FILTER_VALUES_MAX)]
Parts = Annotated[list["Condition"], Field(min_length=1, max_length=QUERY_FILTER_PARTS_MAX)]


class Condition(Closed):
    """One operator of a filter with its operand."""

    eq: str = ""
    neq: str = ""
    in_: Annotated[Values, Field(alias="in")] = []
    nin: Values = []
    contains: str = ""
    ncontains: str = ""
    exists: bool = True
    and_: Annotated[Parts, Field(alias="and")] = []
    or_: Annotated[Parts, Field(alias="or")] = []

    @model_validator(mode="after")
    def _holds_one_operator(self) -> Self:
        if len(self.model_fields_set) != 1:
            words = ", ".join(Operator)
            raise PydanticCustomError("one_of", "needs exactly one of {words}", {"words": words})
        return self

    @property
    def depth(self) -> int:
        """How many `and` and `or` lie within each other."""
        parts = (*self.and_, *self.or_)
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


def _within_depth(condition: Condition) -> Condition:
    if condition.depth > QUERY_FILTER_DEPTH_MAX:
        template = "holds and, or more than {most} deep"
        raise PydanticCustomError("max_depth", template, {"most": QUERY_FILTER_DEPTH_MAX})
    return condition


class Filters(Closed):
    """Conditions, joined by and."""

    dimensions: Annotated[
        dict[str, Annotated[Condition, AfterValidator(_within_depth)]],
        Field(max_length=QUERY_FILTERS_MAX),
    ] = {}


class QueryBody(Closed):
    """What is asked."""

    from_: Annotated[Instant | None, Field(alias="from")] = None
    to: Instant | None = None
    granularity: Literal["PT1M", "PT1H", "P1D", "P1M"] | None = None
    time_zone: ZoneName = "UTC"
    group_by_dimensions: Annotated[list[str], Field(max_length=QUERY_GROUP_BY_MAX)] = []
    filters: Filters = Filters()

    def question(self) -> Question:
        """The question as a value."""
        conditions = self.filters.dimensions.items()
        return Question(
            WORDS,
            from_ms=self.from_,
            to_ms=self.to,
            window=None if self.granularity is None else ISO_SIZES[self.granularity],
            zone=self.time_zone,
            group_by=tuple(self.group_by_dimensions),
            filters=tuple((name, condition.filter()) for name, condition in conditions),
        )


class V3Query:
    """The handler of queries."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def routes(self) -> list[web.RouteDef]:
        """Where it is mounted."""
        return [web.post(f"{prefix}/meters/{{id_or_key}}/query", self.query) for prefix in PREFIXES]

    async def query(self, request: web.Request) -> web.StreamResponse:
        """200 with a row for each window and group in which something counted."""
        parameters_of(request, ())
        as_csv = wants_csv(request)
        meter = await self._stores.meter(path_name(request))
        question = (await body_of(request, QueryBody)).question()
        answered = await answer(self._stores, query_of(meter, question))
        if as_csv:
            return await _send_csv(request, answered)
        entries = (_entry(row) for row in answered.rows)
        pieces = json_pieces(_head(answered), entries, b"]}")
        return await send(request, "application/json", answered.headers, pieces)


def _head(answered: Answer) -> bytes:
    query, until_ms = answered.query, answered.complete_until_ms
    members: dict[str, object] = {}
    if query.from_ms is not None:
        members["from"] = rfc3339(query.from_ms)
    if query.to_ms is not None:
        members["to"] = rfc3339(query.to_ms)
    members["complete_until"] = None if until_ms is None else rfc3339(until_ms)
    return msgspec.json.encode(members)[:-1] + b',"data":['


def _entry(row: UsageRow) -> bytes:
    """The peer's row and two members more: how many events counted, and how many could not."""
    dimensions = dict(row.groups)
    if row.subject is not None:
        dimensions[SUBJECT] = row.subject
    return msgspec.json.encode(
        {
            "value": text(row.value),
            "from": rfc3339(row.from_ms),
            "to": rfc3339(row.to_ms),
            "dimensions": dimensions,
            "counted": row.count,
            "rejected": row.rejected,
        }
    )


async def _send_csv(request: web.Request, answered: Answer) -> web.StreamResponse:
    """The answer as a table, to be saved under the meter's key."""
    query = answered.query
    subject = [SUBJECT] if query.by_subject else []
    header = ["from", "to", *subject, *query.dimensions, "value"]
    pieces = csv_pieces(header, _lines(answered))
    headers = {**answered.headers, **attachment(query.meter.key)}
    return await send(request, "text/csv", headers, pieces)


def _lines(answered: Answer) -> Iterator[list[str]]:
    for row in answered.rows:
        subject = [] if row.subject is None else [row.subject]
        groups = [value for _, value in row.groups]
        bounds = [rfc3339(row.from_ms), rfc3339(row.to_ms)]
        yield [*bounds, *subject, *groups, text(row.value)]
