"""What a meter's usage can be split by, as it occurs (API v3): its subjects, and the values of a
dimension. For lists to choose from, however many there are.
"""

from typing import Annotated, Final

from aiohttp import web
from pydantic import Field

from control.handlers import OfStores, Operation
from control.shapes.pages import NumberMetaShown, numbered_answer, numbered_page, page_shape
from control.usage.admission import Asks
from control.usage.query import SUBJECT, MemberNames, Question, query_of
from meterline.access import Scope
from meterline.http import json_response
from meterline.http.operation import Call
from meterline.http.shapes import Instant, NumberedPage, Parameters, Text
from meterline.limits import EVENT_FILTER_CHARS_MAX
from meterline.meter import dimensions_ever
from meterline.problem import not_found
from meterline.usage import Filter, Operator

NAMES: Final = MemberNames("dimension", "filter", "query")


class ValuesParameters(Parameters):
    """Of which span, and which of them. Without a span, of all time."""

    from_: Annotated[
        Instant | None, Field(alias="from", description="The time of usage is then or later.")
    ] = None
    to: Annotated[Instant | None, Field(description="The time of usage is earlier.")] = None
    contains: Annotated[
        Text | None,
        Field(
            min_length=1,
            max_length=EVENT_FILTER_CHARS_MAX,
            description="Only those that hold this text; the case of letters counts.",
        ),
    ] = None
    page: NumberedPage = NumberedPage()


_PAGE: Final = page_shape(
    "ValuePageShown", str, "A page of texts, sorted by code points.", NumberMetaShown
)


class V3MeterValues(OfStores, tag="Meters"):
    """The handlers of both lists."""

    @Operation(
        id="list-meter-subjects",
        route="GET /meters/{meterId}/subjects",
        summary="List the subjects that a meter has usage of",
        scope=Scope.USAGE_READ,
        asks=Asks.SEARCH,
        parameters=ValuesParameters,
        answer=numbered_answer("A page of subjects.", _PAGE, "customer-1", "customer-2"),
    )
    async def subjects(self, call: Call[ValuesParameters, None]) -> web.Response:
        """One page of subjects."""
        return await self._listed(call, SUBJECT)

    @Operation(
        id="list-dimension-values",
        route="GET /meters/{meterId}/dimensions/{dimension}/values",
        summary="List the values of a dimension that a meter has usage of",
        description='An event without a value there has "".',
        scope=Scope.USAGE_READ,
        asks=Asks.SEARCH,
        parameters=ValuesParameters,
        answer=numbered_answer("A page of values.", _PAGE, "large", "small"),
    )
    async def values(self, call: Call[ValuesParameters, None]) -> web.Response:
        """One page of values; 404 where the meter never had such a dimension."""
        return await self._listed(call, call.names["dimension"])

    async def _listed(self, call: Call[ValuesParameters, None], name: str) -> web.Response:
        asked = call.parameters
        meter = await self._stores.meter(call.namespace, call.names["meterId"])
        if name not in (SUBJECT, *dimensions_ever(meter)):
            raise not_found("dimension", name)
        held = () if asked.contains is None else ((name, _contains(asked.contains)),)
        question = Question(NAMES, asked.from_, asked.to, group_by=(name,), filters=held)
        page = asked.page
        found, total = await self._stores.usage.usage_values(
            query_of(meter, question), page.size, page.size * (page.number - 1)
        )
        return json_response(numbered_page(page, found, total))


def _contains(text: str) -> Filter:
    return Filter(Operator.CONTAINS, (text,))
