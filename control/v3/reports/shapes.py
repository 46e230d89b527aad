"""What of a report is sent and shown in v3: the contract's structure (2.2) in the words of v3."""

from dataclasses import replace
from typing import Annotated, Final, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from control.reports.rules import (
    REVISIONS_DESCRIPTION,
    START_DESCRIPTION,
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
)
from control.shapes.optional_members import Maybe, present
from control.shapes.pages import page_shape
from control.v3.reports.filter_shapes import ReportFilterBody, ReportFilterShown, filter_shown
from control.v3.reports.run_shapes import RUN_EXAMPLE, RunShown, run_shown
from control.v3.reports.status import STATUS_EXAMPLE, ReportStatusShown
from meterline.http.shapes import Closed, InstantShown, Text, Ulid
from meterline.report import Report, Run, Schedule, Takeover
from meterline.window import rfc3339


class ReportScheduleBody(Closed):
    """How often, and from when."""

    interval: IntervalName
    start_at: Annotated[Maybe[StartAt], Field(description=START_DESCRIPTION)] = None


class ReportQueryBody(Closed):
    """How entries are split."""

    group_by_dimensions: Maybe[GroupNames] = None


class ReportEndpointBody(Closed):
    """Where to."""

    url: Url
    headers: Maybe[Headers] = None


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
    query: Maybe[ReportQueryBody] = None
    filter: Maybe[ReportFilterBody] = None
    revisions: Annotated[
        RevisionsName, Field(description=f"{REVISIONS_DESCRIPTION} `record` if absent.")
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

    slug: Maybe[Slug] = None
    meter_id_or_key: Maybe[MeterName] = None
    type: Maybe[Webhook] = None
    schedule: Maybe[ReportScheduleBody] = None
    query: Maybe[ReportQueryBody] = None
    endpoint: Maybe[ReportEndpointBody] = None
    filter: Maybe[ReportFilterBody] = None
    revisions: Annotated[Maybe[RevisionsName], Field(description=REVISIONS_DESCRIPTION)] = None
    grace_seconds: Annotated[
        GraceSeconds | None, Field(description="Null: use the setting `grace_ms` again.")
    ] = None
    dry_run: Annotated[
        bool, Field(description="Only show the report as it would be, and change nothing.")
    ] = False

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
    header_names: NotRequired[Maybe[list[str]]]


class ReportShown(TypedDict):
    """A report: the usage of each subject in each window, delivered as signed webhooks."""

    id: Ulid
    slug: str
    meter: ReportMeterShown
    type: Literal["webhook"]
    schedule: ReportScheduleShown
    ending_schedule: NotRequired[Maybe[EndingScheduleShown]]
    query: ReportQueryShown
    filter: NotRequired[Maybe[ReportFilterShown]]
    endpoint: ReportEndpointShown
    revisions: Annotated[RevisionsName, Field(description=REVISIONS_DESCRIPTION)]
    grace_seconds: NotRequired[
        Annotated[
            Maybe[int],
            Field(description="Absent if the report uses the setting `grace_ms`."),
        ]
    ]
    state: Annotated[
        Literal["active", "paused", "parked"],
        Field(
            description="`paused` by its owner: nothing is run or sent. `parked`, because its "
            "receiver answered 410 or accepted nothing for `retry_patience_s`: windows are run and "
            "kept, nothing is sent."
        ),
    ]
    state_reason: NotRequired[Annotated[Maybe[str], Field(description="Why it is parked.")]]
    created_at: InstantShown
    updated_at: Annotated[InstantShown, Field(description="When its definition last changed.")]
    last_run: NotRequired[
        Annotated[
            Maybe[RunShown], Field(description="That of the newest window; in lists left out.")
        ]
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


class ResumeBody(Closed):
    """What is sent of what a report owes."""

    owed: OwedName = "all"


class ReportOwedShown(TypedDict):
    """What a report owes now that it is resumed, and what it owes no more."""

    runs: Annotated[int, Field(description="Still to be made, of all windows.")]
    runs_skipped: int
    deliveries: Annotated[int, Field(description="Still to be sent, of runs that are made.")]
    deliveries_cancelled: int


class ReportResumedShown(ReportShown):
    """A report that was resumed."""

    owed: ReportOwedShown


REPORT_PAGE: Final = page_shape("ReportPageShown", ReportShown, "A page of reports, by creation.")


def report_shown(
    report: Report, meter_key: str, status: ReportStatusShown, last: Run | None = None
) -> ReportShown:
    """The report as v3 shows it; what it does not have is left out."""
    asked, ending, names = report.schedule_asked, report.takeover, report.headers.names
    endpoint: ReportEndpointShown = {"url": report.endpoint, "header_names": [*names] or None}
    shown: ReportShown = {
        "id": report.id,
        "slug": report.slug,
        "meter": {"id": report.meter_id, "key": meter_key},
        "type": "webhook",
        "schedule": {"interval": asked.interval.value, "start_at": rfc3339(asked.start_at_ms)},
        "ending_schedule": None if ending is None else _ending_shown(report.schedule, ending),
        "query": {"group_by_dimensions": list(report.group_by)},
        "filter": filter_shown(report.filter) or None,
        "endpoint": present(endpoint),
        "revisions": report.revisions.value,
        "grace_seconds": None if report.grace_ms is None else report.grace_ms // 1_000,
        "state": report.state.value,
        "state_reason": report.state_reason or None,
        "created_at": rfc3339(report.created_at_ms),
        "updated_at": rfc3339(report.updated_at_ms),
        "last_run": None if last is None else run_shown(last),
        "status": status,
    }
    return present(shown)


def _ending_shown(schedule: Schedule, takeover: Takeover) -> EndingScheduleShown:
    return {
        "interval": schedule.interval.value,
        "start_at": rfc3339(schedule.start_at_ms),
        "ends_at": rfc3339(takeover.at_ms),
    }


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
REPORT_RESUMED_EXAMPLE: Final[ReportResumedShown] = {
    **REPORT_EXAMPLE,
    "owed": {"runs": 1, "runs_skipped": 6, "deliveries": 0, "deliveries_cancelled": 48},
}
