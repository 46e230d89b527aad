"""What a report in a request must be, in all versions of the API. It is validated as a whole before
the handler, so one answer lists all faults.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from aiohttp import web
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError
from ulid import ULID

from control.reports.service import ReportService
from meterline.delivery import (
    NAME_PATTERN,
    VALUE_PATTERN,
    Endpoint,
    authorizes,
    name_fault,
    parse_endpoint,
    set_fault,
    value_fault,
)
from meterline.http.operation import Call
from meterline.http.reading import json_bytes, validated
from meterline.http.shapes import Instant, Text
from meterline.limits import (
    CONTROL_BODY_BYTES_MAX,
    ENDPOINT_CHARS_MAX,
    EVENT_TIME_MIN_MS,
    QUERY_GROUP_BY_MAX,
    REPORT_GRACE_S_MAX,
    REPORT_HEADERS_MAX,
    REPORT_SLUG_CHARS_MAX,
)
from meterline.meter import Meter
from meterline.problem import Fault, Problem, invalid
from meterline.report import INTERVALS, Report, ReportChange, ReportFilter, Revisions, Schedule
from meterline.window import rfc3339

_Model = TypeVar("_Model")
_AUTHORIZED_TWICE: Final = Fault(
    "endpoint.headers.Authorization",
    "cannot be set if the URL contains user:password, which is sent as this header: remove one of"
    " them (the URL https://@... removes a stored user:password)",
    "is_header",
)
_SENT: Final = web.RequestKey("sent", bytes)


def _start(at_ms: int) -> int:
    try:
        Schedule(INTERVALS["1m"], at_ms)
    except ValueError as error:
        raise PydanticCustomError("is_date_time", "{message}", {"message": str(error)}) from error
    return at_ms


def _url(text: str) -> str:
    try:
        parse_endpoint(text)
    except ValueError as error:
        raise PydanticCustomError("is_url", "{message}", {"message": str(error)}) from error
    return text


def _header_name(name: str) -> str:
    return _checked(name, name_fault(name))


def _header_value(value: str) -> str:
    return _checked(value, value_fault(value))


def _headers(headers: dict[str, str]) -> dict[str, str]:
    found = set_fault(headers)
    return _checked(headers, None if found is None else found[1])


def _checked(value: _Model, member_names: str | None) -> _Model:
    if member_names is not None:
        raise PydanticCustomError("is_header", "{message}", {"message": member_names})
    return value


Slug = Annotated[
    str,
    Field(
        pattern=rf"^[A-Za-z0-9_-]{{1,{REPORT_SLUG_CHARS_MAX}}}$",
        description="Unique name of the report in its namespace. It is in every delivery.",
        examples=["daily-tokens"],
    ),
]
IntervalName = Annotated[
    Literal["1m", "1h", "1d", "PT1M", "PT1H", "P1D"],
    Field(description="Every minute, hour or day. A day is 24 hours, counted from the start."),
]
OwedName = Annotated[
    Literal["all", "newest", "none"],
    Field(
        description="What to send of what the report owes. `all`: run all missed windows and send "
        "all deliveries. `newest`: only the newest window. `none`: nothing. The rest is recorded "
        "as skipped or cancelled. You can run or replay it later."
    ),
]
RevisionsName = Literal["record", "send"]
REVISIONS_DESCRIPTION: Final = (
    "What to do with corrections if events arrive for a window after its run. `record`: store and "
    "show them. `send`: also deliver them."
)
GraceSeconds = Annotated[
    int,
    Field(
        ge=0,
        le=REPORT_GRACE_S_MAX,
        description="How long a run waits for late events after its window. The default is the "
        "setting `grace_ms`.",
        examples=[300],
    ),
]
StartAt = Annotated[Instant, AfterValidator(_start)]
START_DESCRIPTION: Final = (
    "Windows follow from this instant. The default is now, rounded down to the interval."
)
Url = Annotated[
    str,
    Field(
        max_length=ENDPOINT_CHARS_MAX,
        description="Where deliveries go. A `user:password@` in it is sent as Basic authorization "
        "and never shown.",
        examples=["https://billing.example.com/usage"],
        json_schema_extra={"format": "uri", "pattern": "^https?://"},
    ),
    AfterValidator(_url),
]
Headers = Annotated[
    dict[
        Annotated[str, AfterValidator(_header_name)], Annotated[str, AfterValidator(_header_value)]
    ],
    Field(
        max_length=REPORT_HEADERS_MAX,
        description="Additional headers of deliveries. Their values are never shown.",
        examples=[{"X-Api-Key": "d3d0c5e8"}],
        json_schema_extra={
            "propertyNames": {"pattern": f"^{NAME_PATTERN}$"},
            "additionalProperties": {"type": "string", "pattern": f"^{VALUE_PATTERN}$"},
        },
    ),
    AfterValidator(_headers),
]
GroupNames = Annotated[
    list[Text],
    Field(
        max_length=QUERY_GROUP_BY_MAX,
        description="Dimensions of the meter. A delivery has one entry for each combination of "
        "their values.",
        examples=[["model"]],
        json_schema_extra={"uniqueItems": True},
    ),
]


@dataclass(frozen=True, slots=True)
class MemberNames:
    """How an API version spells what is judged beside the others."""

    meter: str
    group_by: str
    grace: str


V1_NAMES: Final = MemberNames("meterIdOrSlug", "groupBy", "graceSeconds")
V3_NAMES: Final = MemberNames("meter_id_or_key", "group_by_dimensions", "grace_seconds")


@dataclass(frozen=True, slots=True)
class Definition:
    """What defines a report, by whatever words it was sent; the parts were judged. In a change,
    what is None stays as it is.
    """

    interval: str | None = None
    start_at_ms: int | None = None
    group_by: tuple[str, ...] | None = None
    url: str | None = None
    headers: dict[str, str] | None = None
    filter: ReportFilter | None = None
    revisions: str | None = None
    grace_s: int | None = None
    drops_grace: bool = False  # said to be that of the installation

    def schedule(self, now_ms: int) -> Schedule:
        """The schedule of a new report: from now, floored to the interval, if nothing is said."""
        assert self.interval is not None
        interval = INTERVALS[self.interval]
        start_at_ms = self.start_at_ms
        if start_at_ms is None:
            start_at_ms = now_ms - now_ms % interval.length_ms
        return Schedule(interval, start_at_ms)


async def read_report(
    call: Call[Any, None],
    model: type[_Model],
    member_names: MemberNames,
    service: ReportService,
    faults: Sequence[Fault] = (),
) -> tuple[_Model, Meter]:
    """A new report as sent, and its meter. Raises `Problem` that lists every fault of it, those
    given included.
    """
    made, found, document = await _read(call, model)
    found += [*faults, *_grace_faults(service, document, member_names)]
    name = document.get(member_names.meter)
    meter: Meter | None = None
    if isinstance(name, str) and "\0" not in name:
        stores = service.stores
        meter = await stores.catalogue.meter(call.namespace, name) if name else None
        if meter is None:
            reason = f"there is no meter {name[:REPORT_SLUG_CHARS_MAX]!r}"
            found.append(Fault(member_names.meter, reason, "not_found"))
        else:
            found += group_faults(meter, document, member_names)
    if found or made is None or meter is None:
        raise invalid(*found)
    return made, meter


async def read_change(
    call: Call[Any, None],
    model: type[_Model],
    member_names: MemberNames,
    service: ReportService,
    report: Report,
    faults: Sequence[Fault] = (),
) -> _Model:
    """A change of a report as sent. Raises `Problem` that lists every fault of it."""
    made, found, document = await _read(call, model)
    found += [*faults, *_grace_faults(service, document, member_names)]
    stores = service.stores
    meter = await stores.meter(report.namespace, report.meter_id)
    found += group_faults(meter, document, member_names)
    slug, name = document.get("slug"), document.get(member_names.meter)
    if isinstance(slug, str) and slug != report.slug:
        reason = f"cannot be changed from {report.slug!r}: create another report"
        found.append(Fault("slug", reason, "immutable"))
    if isinstance(name, str) and name.upper() != meter.id and name != meter.key:
        reason = f"cannot be changed from {meter.key!r}: create another report"
        found.append(Fault(member_names.meter, reason, "immutable"))
    if found or made is None:
        raise invalid(*found)
    return made


async def _read(
    call: Call[Any, None], model: type[_Model]
) -> tuple[_Model | None, list[Fault], dict[str, Any]]:
    """The body as a model, what is wrong with it, and its members as they are."""
    sent = await sent_bytes(call)
    faults: list[Fault] = []
    made: _Model | None = None
    try:
        made = validated(model, sent)
    except Problem as problem:
        if any(fault.rule == "json" for fault in problem.faults):
            raise
        faults += problem.faults
    try:
        document = msgspec.json.decode(sent)
    except (ValueError, RecursionError) as error:  # such as NaN, or half of a surrogate pair
        raise invalid(Fault("body", f"is not JSON: {error}", "json")) from error
    return made, faults, document if isinstance(document, dict) else {}


async def sent_bytes(call: Call[Any, None]) -> bytes:
    """The body of a call that reads it itself; asked for again, the same."""
    if _SENT not in call.request:
        call.request[_SENT] = await json_bytes(call.request, CONTROL_BODY_BYTES_MAX)
    return call.request[_SENT]


def _grace_faults(
    service: ReportService, document: dict[str, Any], member_names: MemberNames
) -> list[Fault]:
    grace_s, least_ms = document.get(member_names.grace), service.start.grace_ms_min
    if not isinstance(grace_s, int) or grace_s < 0 or grace_s * 1_000 >= least_ms:
        return []
    reason = f"must be at least {-(-least_ms // 1_000)}: so long may an event take to be durable"
    return [Fault(member_names.grace, reason, "minimum")]


def group_faults(meter: Meter, document: dict[str, Any], member_names: MemberNames) -> list[Fault]:
    """What is wrong with the dimensions that a document groups by."""
    query = document.get("query")
    names = query.get(member_names.group_by) if isinstance(query, dict) else None
    if not isinstance(names, list) or len(names) > QUERY_GROUP_BY_MAX:
        return []
    known = meter.dimension_names
    has = f"it has {', '.join(known)}" if known else "it has none"
    faults = []
    for place, name in enumerate(names):
        field = f"query.{member_names.group_by}.{place}"
        if isinstance(name, str) and name not in known:
            reason = f"{name[:100]!r} is not a dimension of meter {meter.key}; {has}"
            faults.append(Fault(field, reason, "enum"))
        elif name in names[:place]:
            faults.append(Fault(field, f"{name!r} appears more than once", "unique_items"))
    return faults


def new_report(
    call: Call[Any, None],
    service: ReportService,
    slug: str,
    meter: Meter,
    definition: Definition,
    secret: str,
) -> Report:
    """The report of a definition, made now."""
    assert definition.url is not None
    now_ms = service.now_ms
    endpoint = parse_endpoint(definition.url)
    if endpoint.user_info and authorizes(definition.headers or ()):
        raise invalid(_AUTHORIZED_TWICE)
    return Report(
        id=str(ULID.from_timestamp(now_ms)),
        namespace=call.namespace,
        slug=slug,
        meter_id=meter.id,
        schedule=definition.schedule(now_ms),
        group_by=definition.group_by or (),
        endpoint=endpoint.url,
        signing_secret_sealed=service.box.seal(secret),
        created_at_ms=now_ms,
        updated_at_ms=now_ms,
        filter=definition.filter or ReportFilter(),
        user_info_sealed=service.sealed_user_info(endpoint),
        revisions=Revisions(definition.revisions or Revisions.RECORD),
        headers=service.sealed_headers(definition.headers or {}),
        grace_ms=None if definition.grace_s is None else definition.grace_s * 1_000,
    )


def change_of(report: Report, definition: Definition, service: ReportService) -> ReportChange:
    """What a definition changes. A schedule without a start keeps the one of before."""
    schedule: Schedule | None = None
    if definition.interval is not None:
        start_at_ms = definition.start_at_ms
        if start_at_ms is None:
            start_at_ms = report.schedule_asked.start_at_ms
        schedule = Schedule(INTERVALS[definition.interval], start_at_ms)
    endpoint: Endpoint | None = None
    if definition.url is not None:
        endpoint = parse_endpoint(definition.url)
        _check_authorized_once(report, endpoint, definition.headers)
    return ReportChange(
        schedule=schedule,
        group_by=definition.group_by,
        filter=definition.filter,
        endpoint=None if endpoint is None else endpoint.url,
        user_info_sealed=None if endpoint is None else service.sealed_user_info(endpoint),
        drops_user_info=endpoint is not None and endpoint.user_info == "",
        revisions=None if definition.revisions is None else Revisions(definition.revisions),
        headers=None if definition.headers is None else service.sealed_headers(definition.headers),
        grace_ms=None if definition.grace_s is None else definition.grace_s * 1_000,
        drops_grace=definition.drops_grace,
    )


def _check_authorized_once(
    report: Report, endpoint: Endpoint, headers: dict[str, str] | None
) -> None:
    """Raises `Problem` where user information and a header, new or kept, would both be sent."""
    same = endpoint.url == report.endpoint
    user_info = endpoint.user_info or (
        endpoint.user_info is None and same and report.user_info_sealed
    )
    names = headers
    if names is None:
        names = dict.fromkeys(report.headers.names if same else (), "")
    if user_info and authorizes(names):
        raise invalid(_AUTHORIZED_TWICE)


def window_faults(from_ms: int, to_ms: int, now_ms: int) -> list[Fault]:
    """What is wrong with the window of a run by hand: it has to be over."""
    faults = []
    if from_ms >= to_ms:
        faults.append(Fault("from", "must be before to", "maximum"))
    if from_ms < EVENT_TIME_MIN_MS:
        faults.append(Fault("from", "must not be before 1970", "minimum"))
    if to_ms > now_ms:
        reason = f"the window must be over; it is {rfc3339(now_ms)} now"
        faults.append(Fault("to", reason, "maximum"))
    return faults
