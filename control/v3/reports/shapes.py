"""What of a report is sent and shown in v3: the contract's structure (2.2) in the words of v3."""

from dataclasses import replace
from typing import Annotated, Final, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from control.reports.rules import (
    REVISIONS_WORDS,
    START_WORDS,
    Definition,
    GraceSeconds,
    GroupNames,
    Headers,
    IntervalName,
    RevisionsName,
    Slug,
    StartAt,
    Url,
)
from control.shapes.optional_members import Omissible
from control.shapes.pages import page_shape
from control.v3.reports.filter_shapes import ReportFilterBody, ReportFilterShown, filter_shown
from control.v3.reports.run_shapes import RUN_EXAMPLE, RunShown, run_shown
from control.v3.reports.status import STATUS_EXAMPLE, ReportStatusShown
from meterline.http.shapes import Closed, InstantShown, Text, Ulid
from meterline.report import Report, Run
from meterline.window import rfc3339


class ReportScheduleBody(Closed):
    """How often, and from when."""

    interval: IntervalName
    start_at: Annotated[Omissible[StartAt], Field(description=START_WORDS)] = None


class ReportQueryBody(Closed):
    """How entries are split."""

    group_by_dimensions: Omissible[GroupNames] = None


class ReportEndpointBody(Closed):
    """Where to."""

    url: Url
    headers: Omissible[Headers] = None


MeterName = Annotated[
    Text, Field(description="Id or key of the meter to report on.", examples=["tokens_total"])
]
Webhook = Annotated[Literal["webhook"], Field(description="The channel.")]


class ReportBody(Closed):
    """What defines a report."""

    slug: Slug
    meter_id_or_key: MeterName
    type: Webhook
    schedule: ReportScheduleBody
    endpoint: ReportEndpointBody
    query: Omissible[ReportQueryBody] = None
    filter: Omissible[ReportFilterBody] = None
    revisions: Annotated[
        RevisionsName, Field(description=f"{REVISIONS_WORDS} `record` if absent.")
    ] = "record"
    grace_seconds: GraceSeconds | None = None

    def definition(self) -> Definition:
        """What it defines."""
        made = _definition(self.schedule, self.query, self.endpoint, self.filter)
        return replace(made, revisions=self.revisions, grace_s=self.grace_seconds)


class ReportUpdateBody(Closed):
    """What an update gives anew; what it leaves out stays. Slug, meter and type never change: they
    may be there as they are.
    """

    slug: Omissible[Slug] = None
    meter_id_or_key: Omissible[MeterName] = None
    type: Omissible[Webhook] = None
    schedule: Omissible[ReportScheduleBody] = None
    query: Omissible[ReportQueryBody] = None
    endpoint: Omissible[ReportEndpointBody] = None
    filter: Omissible[ReportFilterBody] = None
    revisions: Annotated[Omissible[RevisionsName], Field(description=REVISIONS_WORDS)] = None
    grace_seconds: Annotated[
        GraceSeconds | None, Field(description="Null: as long as the installation says again.")
    ] = None

    def definition(self) -> Definition:
        """What it gives anew."""
        made = _definition(self.schedule, self.query, self.endpoint, self.filter)
        drops = "grace_seconds" in self.model_fields_set and self.grace_seconds is None
        return replace(
            made, revisions=self.revisions, grace_s=self.grace_seconds, drops_grace=drops
        )


def _definition(
    schedule: ReportScheduleBody | None,
    query: ReportQueryBody | None,
    endpoint: ReportEndpointBody | None,
    filter_: ReportFilterBody | None,
) -> Definition:
    names = None if query is None else query.group_by_dimensions
    return Definition(
        interval=None if schedule is None else schedule.interval,
        start_at_ms=None if schedule is None else schedule.start_at,
        group_by=None if names is None else tuple(names),
        url=None if endpoint is None else endpoint.url,
        headers=None if endpoint is None else endpoint.headers,
        filter=None if filter_ is None else filter_.filter(),
    )


class ReportMeterShown(TypedDict):
    """The meter of a report."""

    id: Ulid
    key: str


IntervalShown = Annotated[
    Literal["1m", "1h", "1d"], Field(description="Every minute, hour or day of UTC.")
]


class ReportScheduleShown(TypedDict):
    """The schedule that was asked for last."""

    interval: IntervalShown
    start_at: Annotated[InstantShown, Field(description="Windows are counted from it.")]


class EndingScheduleShown(TypedDict):
    """A schedule that is in force until the one that was asked for takes over."""

    interval: IntervalShown
    start_at: InstantShown
    ends_at: Annotated[InstantShown, Field(description="Where the other takes over.")]


class ReportQueryShown(TypedDict):
    """How entries are split."""

    group_by_dimensions: list[str]


class ReportEndpointShown(TypedDict):
    """Where deliveries go; user information and values of headers are left out."""

    url: str
    header_names: NotRequired[list[str]]


class ReportShown(TypedDict):
    """A report: the usage of each subject in each window, delivered as signed webhooks."""

    id: Ulid
    slug: str
    meter: ReportMeterShown
    type: Literal["webhook"]
    schedule: ReportScheduleShown
    ending_schedule: NotRequired[EndingScheduleShown]
    query: ReportQueryShown
    filter: NotRequired[ReportFilterShown]
    endpoint: ReportEndpointShown
    revisions: Annotated[RevisionsName, Field(description=REVISIONS_WORDS)]
    grace_seconds: NotRequired[
        Annotated[
            int, Field(description="Left out where runs wait as long as the installation says.")
        ]
    ]
    state: Annotated[
        Literal["active", "paused", "parked"],
        Field(
            description="`paused` by its owner: no runs are made and nothing is sent. `parked` for "
            "its receiver answered 410, or took nothing for the whole patience: runs are made and "
            "kept, nothing is sent."
        ),
    ]
    state_reason: NotRequired[Annotated[str, Field(description="Why it is parked.")]]
    created_at: InstantShown
    updated_at: Annotated[InstantShown, Field(description="When its definition last changed.")]
    last_run: NotRequired[
        Annotated[RunShown, Field(description="That of the newest window; in lists left out.")]
    ]
    status: ReportStatusShown


class ReportWithSecretShown(ReportShown):
    """A new report, with its signing secret."""

    signing_secret: Annotated[
        str,
        Field(
            pattern=r"^whsec_[A-Za-z0-9+/]+=*$",
            description="Receivers verify deliveries with it.",
        ),
    ]


REPORT_PAGE: Final = page_shape("ReportPageShown", ReportShown, "A page of reports, by creation.")


def report_shown(
    report: Report, meter_key: str, status: ReportStatusShown, last: Run | None = None
) -> ReportShown:
    """The report as v3 shows it; what it does not have is left out."""
    asked = report.schedule_asked
    shown: ReportShown = {
        "id": report.id,
        "slug": report.slug,
        "meter": {"id": report.meter_id, "key": meter_key},
        "type": "webhook",
        "schedule": {"interval": asked.interval.value, "start_at": rfc3339(asked.start_at_ms)},
        "query": {"group_by_dimensions": list(report.group_by)},
        "endpoint": {"url": report.endpoint},
        "revisions": report.revisions.value,
        "state": report.state.value,
        "created_at": rfc3339(report.created_at_ms),
        "updated_at": rfc3339(report.updated_at_ms),
        "status": status,
    }
    if report.takeover is not None:
        shown["ending_schedule"] = {
            "interval": report.schedule.interval.value,
            "start_at": rfc3339(report.schedule.start_at_ms),
            "ends_at": rfc3339(report.takeover.at_ms),
        }
    if report.headers.names:
        shown["endpoint"]["header_names"] = list(report.headers.names)
    if report.filter.usage or report.filter.subject:
        shown["filter"] = filter_shown(report.filter)
    if report.grace_ms is not None:
        shown["grace_seconds"] = report.grace_ms // 1_000
    if report.state_reason:
        shown["state_reason"] = report.state_reason
    if last is not None:
        shown["last_run"] = run_shown(last)
    return shown


REPORT_SENT: Final = {
    "slug": "daily-tokens",
    "meter_id_or_key": "tokens_total",
    "type": "webhook",
    "schedule": {"interval": "1d", "start_at": "2026-01-01T00:00:00Z"},
    "query": {"group_by_dimensions": ["model"]},
    "filter": {"usage": {"$gt": "100"}, "subject": {"$nin": ["internal"]}},
    "endpoint": {"url": "https://billing.example.com/usage"},
}
REPORT_EXAMPLE: Final[ReportShown] = {
    "id": "01M7ZMF4YA7D2SQ292V0W9JPT8",
    "slug": "daily-tokens",
    "meter": {"id": "01M7ZMF4Y0000SQ292V0W9JPT8", "key": "tokens_total"},
    "type": "webhook",
    "schedule": {"interval": "1d", "start_at": "2026-01-01T00:00:00Z"},
    "query": {"group_by_dimensions": ["model"]},
    "filter": {"usage": {"$gt": "100"}, "subject": {"$nin": ["internal"]}},
    "endpoint": {"url": "https://billing.example.com/usage"},
    "revisions": "record",
    "state": "active",
    "created_at": "2026-01-31T10:00:00Z",
    "updated_at": "2026-01-31T10:00:00Z",
    "status": STATUS_EXAMPLE,
}
REPORT_WITH_RUN_EXAMPLE: Final[ReportShown] = {**REPORT_EXAMPLE, "last_run": RUN_EXAMPLE}
REPORT_WITH_SECRET_EXAMPLE: Final[ReportWithSecretShown] = {
    **REPORT_EXAMPLE,
    "signing_secret": "whsec_c2lnbmluZyBzZWNyZXQgb2YgYSByZXBvcnQ=",
}
