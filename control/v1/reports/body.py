"""What defines a report and asks for a run in API v1, in the contract's words (2.2)."""

from typing import Annotated, Any, Final, Literal

import msgspec
from pydantic import Field, WithJsonSchema

from control.reports.rules import (
    REVISIONS_DESCRIPTION,
    Definition,
    GraceSeconds,
    GroupNames,
    Headers,
    IntervalName,
    OwedName,
    RevisionsName,
    Slug,
    StartAt,
    Url,
    sent_bytes,
)
from control.v1.meters import Camel
from meterline.http.operation import Call
from meterline.http.shapes import Instant, Text
from meterline.limits import ATTRIBUTE_CHARS_MAX, REPORT_FILTER_VALUES_MAX
from meterline.number import from_json_float
from meterline.problem import Fault, invalid
from meterline.report import ReportFilter, parse_filter
from meterline.usage import LISTS, Comparison

_exact: Final = msgspec.json.Decoder(float_hook=from_json_float)


def _conditions_schema(operand: dict[str, Any]) -> dict[str, Any]:
    many = {"type": "array", "items": operand, "maxItems": REPORT_FILTER_VALUES_MAX}
    return {
        "type": ["object", "null"],
        "additionalProperties": False,
        "properties": {one.value: many if one in LISTS else operand for one in Comparison},
    }


# Its numbers must be exact, so it is read apart (`filter_of`).
FilterMember = Annotated[
    object,
    WithJsonSchema(
        {
            "type": ["object", "null"],
            "description": "Which entries are reported; conditions are joined by and.",
            "additionalProperties": False,
            "properties": {
                "usage": _conditions_schema({"type": "number"}),
                "subject": _conditions_schema({"type": "string", "maxLength": ATTRIBUTE_CHARS_MAX}),
            },
        }
    ),
]


class ScheduleBody(Camel):
    """How often, and from when."""

    interval: IntervalName
    start_at: StartAt | None = None


class ReportQueryBody(Camel):
    """How entries are split."""

    group_by: GroupNames | None = None


class EndpointBody(Camel):
    """Where to."""

    url: Url
    headers: Headers | None = None


class ReportBody(Camel):
    """A report as sent."""

    slug: Slug
    meter_id_or_slug: Text
    type: Literal["webhook"]
    schedule: ScheduleBody
    query: ReportQueryBody
    endpoint: EndpointBody
    filter: FilterMember = None
    revisions: Annotated[RevisionsName | None, Field(description=REVISIONS_DESCRIPTION)] = None
    grace_seconds: GraceSeconds | None = None


class ReportUpdateBody(Camel):
    """What an update gives anew; what is absent or null stays. Slug, meter and type never change:
    they may be there as they are.
    """

    slug: Slug | None = None
    meter_id_or_slug: Text | None = None
    type: Literal["webhook"] | None = None
    schedule: ScheduleBody | None = None
    query: ReportQueryBody | None = None
    endpoint: EndpointBody | None = None
    filter: FilterMember = None
    revisions: Annotated[RevisionsName | None, Field(description=REVISIONS_DESCRIPTION)] = None
    grace_seconds: GraceSeconds | None = None


class ResumeBody(Camel):
    """What is sent of what a report owes."""

    owed: OwedName | None = None


class RunBody(Camel):
    """A run by hand."""

    from_: Annotated[Instant, Field(alias="from")]
    to: Instant
    revise: bool = False


async def filter_of(call: Call[Any, None]) -> tuple[ReportFilter | None, list[Fault]]:
    """The filter in a body, exact, and what is wrong with it; None where there is none."""
    try:
        document = _exact.decode(await sent_bytes(call))
    except (ValueError, RecursionError) as error:
        raise invalid(Fault("body", f"is not JSON: {error}", "json")) from error
    sent = document.get("filter") if isinstance(document, dict) else None
    if sent is None:
        return None, []
    return parse_filter(sent)


def definition(body: ReportBody | ReportUpdateBody, filter_: ReportFilter | None) -> Definition:
    """What a body defines, with the filter in it."""
    schedule, query, endpoint = body.schedule, body.query, body.endpoint
    names = None if query is None else query.group_by
    return Definition(
        interval=None if schedule is None else schedule.interval,
        start_at_ms=None if schedule is None else schedule.start_at,
        group_by=None if names is None else tuple(names),
        url=None if endpoint is None else endpoint.url,
        headers=None if endpoint is None else endpoint.headers,
        filter=filter_,
        revisions=body.revisions,
        grace_s=body.grace_seconds,
    )
