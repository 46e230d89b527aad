"""The operations of reports in API v1, as they are published (contract 4.2)."""

from typing import Annotated, Final

from pydantic import Field
from typing_extensions import TypedDict

from control.handlers import Operation
from control.shapes.run import RUN_PATTERN
from control.shapes.secret import secret_answer
from control.v1.reports.body import ReportBody, ReportUpdateBody, ResumeBody, RunBody
from control.v1.reports.members import (
    REPORT_EXAMPLE,
    REPORT_SENT,
    RUN_EXAMPLE,
    ReportResumedShown,
    ReportShown,
    RunShown,
    RunWithDeliveriesShown,
)
from meterline.access import Scope
from meterline.http.operation import JSON, Answer, json_body, optional_json_body, raw_body
from meterline.http.shapes import AnyParameters, Digits, LooseParameters, Parameters
from meterline.limits import (
    CONTROL_BODY_BYTES_MAX,
    DELIVERIES_LISTED_MAX,
    PAGE_NUMBER_MAX,
    PAGE_SIZE_DEFAULT,
    PAGE_SIZE_MAX,
    RUNS_LISTED_MAX,
)
from meterline.problem import ProblemType

_MEDIA: Final = (JSON, "application/cloudevents+json")  # the second is the contract's
_SECRET: Final = "whsec_c2lnbmluZyBzZWNyZXQgb2YgYSByZXBvcnQ="  # noqa: S105 - an example
_OWED: Final = {"runs": 1, "runsSkipped": 6, "deliveries": 0, "deliveriesCancelled": 48}
_LOCATION: Final = {"Location": "Where it is."}


class RunsParameters(Parameters):
    """Which runs."""

    limit: Annotated[
        int, Field(ge=1, le=RUNS_LISTED_MAX, description="How many at most."), Digits
    ] = PAGE_SIZE_DEFAULT
    before: Annotated[
        str | None,
        Field(pattern=f"^{RUN_PATTERN}$", description="Id of the last run of the page before."),
    ] = None


class ReportListParameters(LooseParameters):
    """Which reports, by creation."""

    page: Annotated[
        int, Field(ge=1, le=PAGE_NUMBER_MAX, description="Number of the page, from 1."), Digits
    ] = 1
    page_size: Annotated[
        int,
        Field(alias="pageSize", ge=1, le=PAGE_SIZE_MAX, description="Reports of a page."),
        Digits,
    ] = PAGE_SIZE_MAX


class DeliveriesParameters(Parameters):
    """Which deliveries of a run."""

    limit: Annotated[
        int, Field(ge=1, le=DELIVERIES_LISTED_MAX, description="How many at most."), Digits
    ] = PAGE_SIZE_MAX
    after: Annotated[
        int,
        Field(ge=0, le=10**9 - 1, description="Number of the last one of the page before."),
        Digits,
    ] = 0


class SecretShown(TypedDict):
    """The signing secret of a report."""

    signingSecret: str


CREATE_REPORT: Final = Operation(
    id="createReport",
    route="POST /v1/reports",
    summary="Create a report",
    scope=Scope.REPORTS_WRITE,
    parameters=AnyParameters,
    body=raw_body(dict.fromkeys(_MEDIA, ReportBody), REPORT_SENT, CONTROL_BODY_BYTES_MAX),
    answer=secret_answer(
        201,
        "The report, with its signing secret.",
        ReportShown,
        {
            **REPORT_EXAMPLE,
            "endpoint": {**REPORT_EXAMPLE["endpoint"], "signingSecret": _SECRET},
        },
        _LOCATION,
    ),
    problems=(ProblemType.CONFLICT, ProblemType.NOT_FOUND),  # the meter may go meanwhile
)
LIST_REPORTS: Final = Operation(
    id="listReports",
    route="GET /v1/reports",
    summary="List reports",
    description="By creation. Where there are as many as the page may have, more may follow.",
    scope=Scope.REPORTS_READ,
    parameters=ReportListParameters,
    answer=Answer(200, "A page of reports.", list[ReportShown], example=[REPORT_EXAMPLE]),
)
GET_REPORT: Final = Operation(
    id="getReport",
    route="GET /v1/reports/{reportIdOrSlug}",
    summary="Get a report",
    scope=Scope.REPORTS_READ,
    parameters=AnyParameters,
    answer=Answer(
        200,
        "The report, with its last run.",
        ReportShown,
        example={**REPORT_EXAMPLE, "lastRun": RUN_EXAMPLE},
    ),
)
UPDATE_REPORT: Final = Operation(
    id="updateReport",
    route="PUT /v1/reports/{reportIdOrSlug}",
    summary="Update a report",
    description="Change a report; what is absent stays. Slug, meter and type never change. Another "
    "schedule takes over at the first border that its windows share with the present ones.",
    scope=Scope.REPORTS_WRITE,
    parameters=AnyParameters,
    body=raw_body(dict.fromkeys(_MEDIA, ReportUpdateBody), REPORT_SENT, CONTROL_BODY_BYTES_MAX),
    answer=Answer(
        200,
        "The report as it is now.",
        ReportShown,
        example={**REPORT_EXAMPLE, "lastRun": None},
    ),
)
DELETE_REPORT: Final = Operation(
    id="deleteReport",
    route="DELETE /v1/reports/{reportIdOrSlug}",
    summary="Delete a report",
    scope=Scope.REPORTS_WRITE,
    parameters=AnyParameters,
    answer=Answer(204, "It is deleted."),
)
GET_SECRET: Final = Operation(
    id="getReportSecret",
    route="GET /v1/reports/{reportIdOrSlug}/secret",
    summary="Get the signing secret of a report",
    scope=Scope.SECRETS_READ,
    parameters=AnyParameters,
    answer=secret_answer(200, "The secret.", SecretShown, {"signingSecret": _SECRET}),
)
RESUME_REPORT: Final = Operation(
    id="resumeReport",
    route="POST /v1/reports/{reportIdOrSlug}/resume",
    summary="Resume a report",
    scope=Scope.REPORTS_WRITE,
    parameters=AnyParameters,
    body=optional_json_body(ResumeBody, {"owed": "newest"}),
    answer=Answer(
        200,
        "The report, active, and what becomes of what it owed.",
        ReportResumedShown,
        example={**REPORT_EXAMPLE, "lastRun": None, "owed": _OWED},
    ),
)
RUN_REPORT: Final = Operation(
    id="runReport",
    route="POST /v1/reports/{reportIdOrSlug}/runs",
    summary="Run a report by hand",
    scope=Scope.REPORTS_WRITE,
    parameters=AnyParameters,
    body=json_body(
        RunBody, {"from": "2026-01-31T00:00:00Z", "to": "2026-02-01T00:00:00Z"}, media=_MEDIA
    ),
    answer=(
        Answer(
            200,
            "The run of that window, which was there already.",
            RunShown,
            example=RUN_EXAMPLE,
            headers=_LOCATION,
        ),
        Answer(201, "A new run.", RunShown, example=RUN_EXAMPLE, headers=_LOCATION),
    ),
)
LIST_RUNS: Final = Operation(
    id="listReportRuns",
    route="GET /v1/reports/{reportIdOrSlug}/runs",
    summary="List the runs of a report",
    scope=Scope.REPORTS_READ,
    parameters=RunsParameters,
    answer=Answer(200, "The newest windows first.", list[RunShown], example=[RUN_EXAMPLE]),
)
GET_RUN: Final = Operation(
    id="getReportRun",
    route="GET /v1/reports/{reportIdOrSlug}/runs/{runId}",
    summary="Get a run with its deliveries",
    scope=Scope.REPORTS_READ,
    parameters=DeliveriesParameters,
    answer=Answer(
        200,
        "The run, with a page of its deliveries and their attempts.",
        RunWithDeliveriesShown,
        example={**RUN_EXAMPLE, "deliveries": []},
    ),
)
