"""What defines a report and asks for a run in API v1 (contract 2.2), read and judged whole at
the door.
"""

from dataclasses import dataclass
from typing import Annotated, Final, Literal

import msgspec
from aiohttp import web
from pydantic import Field

from control.edge import Instant, Text, json_body, validated
from control.stores import Stores
from control.v1_meters import Camel
from meterline.endpoint import Endpoint, parse_endpoint
from meterline.limits import EVENT_TIME_MIN_MS, QUERY_GROUP_BY_MAX, REPORT_SLUG_CHARS_MAX
from meterline.meter import Meter
from meterline.number import from_json_float
from meterline.problem import Fault, Problem, ProblemType, invalid
from meterline.report import INTERVALS, Schedule, is_slug
from meterline.report_filter import ReportFilter, parse_filter
from meterline.window import rfc3339

_exact: Final = msgspec.json.Decoder(float_hook=from_json_float)


class ScheduleBody(Camel):
    """How often, and from when."""

    interval: Text
    start_at: Instant | None = None


class QueryBody(Camel):
    """How entries are split."""

    group_by: Annotated[list[Text] | None, Field(max_length=QUERY_GROUP_BY_MAX)] = None


class EndpointBody(Camel):
    """Where to."""

    url: Text


class ReportBody(Camel):
    """A report as sent. The filter is read apart, for its numbers must be exact."""

    slug: Text
    meter_id_or_slug: Text
    type: Literal["webhook"]
    schedule: ScheduleBody
    query: QueryBody
    endpoint: EndpointBody
    filter: object = None


class RunBody(Camel):
    """A run by hand."""

    from_ms: Annotated[Instant, Field(validation_alias="from")]
    to_ms: Annotated[Instant, Field(validation_alias="to")]
    revise: bool = False


@dataclass(frozen=True, slots=True)
class ReportDraft:
    """A report that was judged and is in order."""

    slug: str
    meter: Meter
    schedule: Schedule
    group_by: tuple[str, ...]
    endpoint: Endpoint
    filter: ReportFilter


async def report_draft(request: web.Request, stores: Stores, now_ms: int) -> ReportDraft:
    """The report in a body. Raises `Problem` that lists every fault at once, by the names as
    sent.
    """
    body = await json_body(request)
    sent: ReportBody | None = None
    faults: list[Fault] = []
    try:
        sent = validated(ReportBody, body)
    except Problem as problem:
        if not problem.faults:  # not JSON at all
            raise
        faults += problem.faults
    filter_, filter_faults = _filter(body)
    faults += filter_faults
    if sent is None:
        raise invalid(*faults)
    if not is_slug(sent.slug):
        reason = f"1 to {REPORT_SLUG_CHARS_MAX} of A-Z, a-z, 0-9, _ and -"
        faults.append(Fault("slug", reason, rule="matches_regex"))
    schedule = _schedule(sent.schedule, now_ms, faults)
    endpoint = _endpoint(sent.endpoint.url, faults)
    group_by = tuple(sent.query.group_by or ())
    name = sent.meter_id_or_slug
    meter = await stores.catalogue.meter(stores.namespace, name) if name else None
    if meter is None:
        reason = f"there is no meter {name[:REPORT_SLUG_CHARS_MAX]!r}"
        faults.append(Fault("meterIdOrSlug", reason, rule="not_found"))
    else:
        faults += _group_faults(meter, group_by)
    if faults or meter is None or schedule is None or endpoint is None:
        raise invalid(*faults)
    return ReportDraft(sent.slug, meter, schedule, group_by, endpoint, filter_)


async def run_window(request: web.Request, now_ms: int) -> RunBody:
    """The run in a body: a window that is over. Raises `Problem` with every fault."""
    sent = validated(RunBody, await json_body(request))
    faults = []
    if sent.from_ms >= sent.to_ms:
        faults.append(Fault("from", "must be before to", rule="maximum"))
    if sent.from_ms < EVENT_TIME_MIN_MS:
        faults.append(Fault("from", "must not be before 1970", rule="minimum"))
    if sent.to_ms > now_ms:
        reason = f"the window must be over; it is {rfc3339(now_ms)} now"
        faults.append(Fault("to", reason, rule="maximum"))
    if faults:
        raise invalid(*faults)
    return sent


def _filter(body: bytes) -> tuple[ReportFilter, list[Fault]]:
    try:
        document = _exact.decode(body)
    except (ValueError, RecursionError) as error:
        raise Problem(ProblemType.BAD_REQUEST, f"The body is not JSON: {error}") from error
    return parse_filter(document.get("filter") if isinstance(document, dict) else None)


def _schedule(sent: ScheduleBody, now_ms: int, faults: list[Fault]) -> Schedule | None:
    interval = INTERVALS.get(sent.interval)
    if interval is None:
        reason = f"one of {', '.join(INTERVALS)}: every minute, hour or day"
        faults.append(Fault("schedule.interval", reason, rule="enum"))
    start_at_ms = sent.start_at
    if start_at_ms is None:
        if interval is None:
            return None
        start_at_ms = now_ms - now_ms % interval.length_ms
    try:
        # An interval that is wrong does not hide what is wrong with the instant.
        return Schedule(interval or INTERVALS["1m"], start_at_ms)
    except ValueError as error:
        faults.append(Fault("schedule.startAt", str(error), rule="is_date_time"))
        return None


def _endpoint(url: str, faults: list[Fault]) -> Endpoint | None:
    try:
        return parse_endpoint(url)
    except ValueError as error:
        faults.append(Fault("endpoint.url", str(error), rule="is_url"))
        return None


def _group_faults(meter: Meter, group_by: tuple[str, ...]) -> list[Fault]:
    known = meter.dimension_names
    faults = []
    for place, name in enumerate(group_by):
        field = f"query.groupBy.{place}"
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            reason = f"{name!r} is no group-by key of meter {meter.key}; {has}"
            faults.append(Fault(field, reason, rule="enum"))
        elif name in group_by[:place]:
            faults.append(Fault(field, f"{name!r} is there twice", rule="unique_items"))
    return faults
