"""Usage in API v1 (peer-api.md 2): values are JSON numbers, written with all their digits."""

from collections.abc import Iterator
from typing import Annotated, Final

import msgspec
from aiohttp import web
from pydantic import Field

from control.ask import SUBJECT, Answer, Question, Words, answer, query_of
from control.edge import Instant, ZoneName, body_of, instant_ms, path_name
from control.form import attachment, csv_pieces, json_pieces, send, wants_csv
from control.stores import Stores
from control.v1_meters import Camel
from meterline.limits import (
    QUERY_FILTER_VALUES_MAX,
    QUERY_FILTERS_MAX,
    QUERY_GROUP_BY_MAX,
    QUERY_SUBJECTS_MAX,
)
from meterline.number import text
from meterline.problem import Fault, invalid
from meterline.usage import Filter, Operator, UsageRow
from meterline.window import WindowSize, rfc3339, zone_named

PATH: Final = "/api/v1/meters/{id_or_key}/query"
IN_QUERY: Final = Words("groupBy", "filterGroupBy", "query")
IN_BODY: Final = Words("groupBy", "filterGroupBy", "body")
# Other unknown parameters are ignored in v1; without these the numbers would be of something else.
REFUSED: Final = ("filterCustomerId", "advancedMeterGroupByFilters")

Texts = Annotated[list[str], Field(max_length=QUERY_FILTER_VALUES_MAX)]


class QueryBody(Camel):
    """What is asked, in a POST."""

    client_id: str | None = None
    from_: Annotated[Instant | None, Field(alias="from")] = None
    to: Instant | None = None
    window_size: WindowSize | None = None
    window_time_zone: ZoneName = "UTC"
    subject: Annotated[list[str], Field(max_length=QUERY_SUBJECTS_MAX)] = []
    group_by: Annotated[list[str], Field(max_length=QUERY_GROUP_BY_MAX)] = []
    filter_group_by: Annotated[dict[str, Texts], Field(max_length=QUERY_FILTERS_MAX)] = {}

    def question(self) -> Question:
        """The question as a value."""
        return Question(
            IN_BODY,
            from_ms=self.from_,
            to_ms=self.to,
            window=self.window_size,
            zone=self.window_time_zone,
            group_by=tuple(self.group_by),
            filters=_filters(self.subject, self.filter_group_by),
        )


class V1Query:
    """The handlers of queries."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def routes(self) -> list[web.RouteDef]:
        """Where they are mounted."""
        return [web.get(PATH, self.by_url), web.post(PATH, self.by_body)]

    async def by_url(self, request: web.Request) -> web.StreamResponse:
        """200 with rows; the question stands in the query parameters."""
        return await self._answered(request, question_in_url(request))

    async def by_body(self, request: web.Request) -> web.StreamResponse:
        """200 with rows; the question stands in the body, as long filters fit no URL."""
        return await self._answered(request, (await body_of(request, QueryBody)).question())

    async def _answered(self, request: web.Request, question: Question) -> web.StreamResponse:
        as_csv = wants_csv(request)
        meter = await self._stores.meter(path_name(request))
        answered = await answer(self._stores, query_of(meter, question))
        if as_csv:
            header = ["window_start", "window_end", SUBJECT, *answered.query.dimensions, "value"]
            headers = {**answered.headers, **attachment(meter.key)}
            return await send(request, "text/csv", headers, csv_pieces(header, _lines(answered)))
        pieces = json_pieces(_head(answered), (_entry(row) for row in answered.rows), b"]}")
        return await send(request, "application/json", answered.headers, pieces)


def question_in_url(request: web.Request) -> Question:
    """The question in the query parameters. Raises `Problem` with every fault."""
    faults = [
        Fault(
            name, "is not supported; the answer would be another one", "unknown_property", "query"
        )
        for name in REFUSED
        if name in request.query
    ]
    from_ms = _instant(request, "from", faults)
    to_ms = _instant(request, "to", faults)
    window = _window(request, faults)
    zone = request.query.get("windowTimeZone", "UTC")
    try:
        zone_named(zone)
    except ValueError as error:
        faults.append(Fault("windowTimeZone", str(error), "is_time_zone", "query"))
    subjects = _values(request, "subject", QUERY_SUBJECTS_MAX, faults)
    group_by = _values(request, "groupBy", QUERY_GROUP_BY_MAX, faults)
    names = [
        n for n in dict.fromkeys(request.query) if n.startswith("filterGroupBy[") and n[-1] == "]"
    ]
    if len(names) > QUERY_FILTERS_MAX:
        reason = f"at most {QUERY_FILTERS_MAX} keys"
        faults.append(Fault("filterGroupBy", reason, "max_items", "query"))
    wanted = {
        name.removeprefix("filterGroupBy[")[:-1]: _values(
            request, name, QUERY_FILTER_VALUES_MAX, faults
        )
        for name in names
    }
    if faults:
        raise invalid(*faults)
    filters = _filters(subjects, wanted)
    return Question(IN_QUERY, from_ms, to_ms, window, zone, tuple(group_by), filters)


def _instant(request: web.Request, name: str, faults: list[Fault]) -> int | None:
    words = request.query.get(name)
    if words is None:
        return None
    try:
        return instant_ms(words)
    except ValueError as error:
        faults.append(Fault(name, str(error), "is_date_time", "query"))
        return None


def _window(request: web.Request, faults: list[Fault]) -> WindowSize | None:
    words = request.query.get("windowSize")
    if words is None or words in list(WindowSize):
        return None if words is None else WindowSize(words)
    reason = f"{words[:100]!r} is none of {', '.join(WindowSize)}"
    faults.append(Fault("windowSize", reason, "enum", "query"))
    return None


def _values(request: web.Request, name: str, most: int, faults: list[Fault]) -> list[str]:
    values = request.query.getall(name, [])
    if len(values) > most:
        faults.append(Fault(name, f"at most {most} values", "max_items", "query"))
    return values


def _filters(subjects: list[str], wanted: dict[str, list[str]]) -> tuple[tuple[str, Filter], ...]:
    filters = [
        (name, Filter(Operator.IN, tuple(values))) for name, values in wanted.items() if values
    ]
    if subjects:
        filters.append((SUBJECT, Filter(Operator.IN, tuple(subjects))))
    return tuple(filters)


def _head(answered: Answer) -> bytes:
    query = answered.query
    members: dict[str, object] = {}
    if query.from_ms is not None:
        members["from"] = rfc3339(query.from_ms)
    if query.to_ms is not None:
        members["to"] = rfc3339(query.to_ms)
    if query.window is not None:
        members["windowSize"] = query.window.value
    encoded = msgspec.json.encode(members)[:-1]
    return encoded + (b',"data":[' if members else b'"data":[')


def _entry(row: UsageRow) -> bytes:
    return msgspec.json.encode(
        {
            "value": msgspec.Raw(text(row.value).encode()),
            "windowStart": rfc3339(row.from_ms),
            "windowEnd": rfc3339(row.to_ms),
            "subject": row.subject,
            "groupBy": dict(row.groups),
        }
    )


def _lines(answered: Answer) -> Iterator[list[str]]:
    for row in answered.rows:
        groups = [value for _, value in row.groups]
        bounds = [rfc3339(row.from_ms), rfc3339(row.to_ms)]
        yield [*bounds, row.subject or "", *groups, text(row.value)]
