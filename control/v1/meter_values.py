"""What a meter's usage can be split by, as it occurs (API v1, as in OpenMeter): its subjects, and
the values of a group-by key.
"""

from typing import Annotated, Final

from aiohttp import web
from pydantic import Field

from control.handlers import OfStores, Operation
from control.usage.admission import Asks
from control.usage.query import SUBJECT, MemberNames, Question, query_of
from meterline.access import Scope
from meterline.http import json_response
from meterline.http.operation import Answer, Call
from meterline.http.shapes import Instant, LooseParameters
from meterline.limits import (
    GROUP_VALUES_DAYS_MAX,
    GROUP_VALUES_HOURS,
    GROUP_VALUES_SPAN_DAYS_MAX,
    QUERY_ROWS_MAX,
)
from meterline.meter import dimensions_ever
from meterline.problem import Fault, invalid, not_found
from meterline.usage import UsageQuery
from meterline.window import DAY_MS, HOUR_MS

NAMES: Final = MemberNames("groupByKey", "filter", "query")


class MeterSubjectsParameters(LooseParameters):
    """Of which span; without one, of all time."""

    from_: Annotated[
        Instant | None, Field(alias="from", description="The time of usage is then or later.")
    ] = None
    to: Annotated[Instant | None, Field(description="The time of usage is earlier.")] = None


class GroupValuesParameters(LooseParameters):
    """Of which span."""

    from_: Annotated[
        Instant | None,
        Field(
            alias="from",
            description=(
                f"The time of usage is then or later; {GROUP_VALUES_HOURS} hours ago where it is "
                f"not given, at most {GROUP_VALUES_DAYS_MAX} days ago."
            ),
        ),
    ] = None
    to: Annotated[
        Instant | None,
        Field(
            description=(
                "The time of usage is earlier; now where it is not given, at most "
                f"{GROUP_VALUES_SPAN_DAYS_MAX} days after `from`."
            )
        ),
    ] = None

    def span(self, now_ms: int) -> tuple[int, int | None]:
        """Where it begins, and where it ends if that was given. Raises `Problem`."""
        from_ms = now_ms - GROUP_VALUES_HOURS * HOUR_MS if self.from_ is None else self.from_
        faults = []
        if from_ms < now_ms - GROUP_VALUES_DAYS_MAX * DAY_MS:
            reason = f"lies more than {GROUP_VALUES_DAYS_MAX} days ago"
            faults.append(Fault("from", reason, "minimum", "query"))
        to_ms = now_ms if self.to is None else self.to
        if to_ms - from_ms > GROUP_VALUES_SPAN_DAYS_MAX * DAY_MS:
            reason = f"lies more than {GROUP_VALUES_SPAN_DAYS_MAX} days after from"
            faults.append(Fault("to", reason, "maximum", "query"))
        if faults:
            raise invalid(*faults)
        return from_ms, self.to


class V1MeterValues(OfStores, tag="Meters"):
    """The handlers of both lists."""

    @Operation(
        id="listMeterSubjects",
        route="GET /v1/meters/{meterIdOrSlug}/subjects",
        summary="List the subjects that a meter has usage of",
        scope=Scope.USAGE_READ,
        asks=Asks.SEARCH,
        parameters=MeterSubjectsParameters,
        answer=Answer(200, "Subjects, sorted.", list[str], example=["customer-1"]),
    )
    async def subjects(self, call: Call[MeterSubjectsParameters, None]) -> web.Response:
        """Subjects in a bare array."""
        asked = call.parameters
        meter = await self._stores.meter(call.namespace, call.names["meterIdOrSlug"])
        question = Question(NAMES, asked.from_, asked.to, group_by=(SUBJECT,))
        return json_response(await self._all(query_of(meter, question)))

    @Operation(
        id="listMeterGroupByValues",
        route="GET /v1/meters/{meterIdOrSlug}/group-by/{groupByKey}/values",
        summary="List the values of a group-by key that a meter has usage of",
        description='An event without a value there has "".',
        scope=Scope.USAGE_READ,
        asks=Asks.SEARCH,
        parameters=GroupValuesParameters,
        answer=Answer(200, "Values, sorted.", list[str], example=["large", "small"]),
    )
    async def values(self, call: Call[GroupValuesParameters, None]) -> web.Response:
        """Values in a bare array."""
        name = call.names["groupByKey"]
        meter = await self._stores.meter(call.namespace, call.names["meterIdOrSlug"])
        if name not in dimensions_ever(meter):
            raise not_found("group-by key", name)
        from_ms, to_ms = call.parameters.span(self._stores.now_ms)
        question = Question(NAMES, from_ms, to_ms, group_by=(name,))
        return json_response(await self._all(query_of(meter, question)))

    async def _all(self, query: UsageQuery) -> list[str]:
        found, total = await self._stores.usage.usage_values(query, QUERY_ROWS_MAX, 0)
        if total > QUERY_ROWS_MAX:
            reason = f"there are {total}, and at most {QUERY_ROWS_MAX} are listed; ask for less"
            raise invalid(Fault("from", reason, "maximum", "query"))
        return found
