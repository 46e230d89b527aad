"""Reports in API v1 (contract 4.2), the operations that the contract leaves open, and their
runs by hand.
"""

from collections import defaultdict
from typing import Annotated, Any, Final

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from control.handlers import OfReports, Operation
from control.reports.rules import (
    V1_NAMES,
    change_of,
    new_report,
    read_change,
    read_report,
    window_faults,
)
from control.reports.service import new_signing_secret
from control.shapes.run import RUN_PATTERN
from control.shapes.secret import secret_answer, secret_response
from control.v1.reports.body import (
    ReportBody,
    ReportUpdateBody,
    ResumeBody,
    RunBody,
    definition,
    filter_of,
)
from control.v1.reports.members import (
    REPORT_EXAMPLE,
    REPORT_SENT,
    RUN_EXAMPLE,
    ReportResumedShown,
    ReportShown,
    RunShown,
    RunWithDeliveriesShown,
    delivery_members,
    report_members,
    run_members,
)
from meterline.access import Scope
from meterline.http import json_response
from meterline.http.operation import JSON, Answer, Call, json_body, optional_json_body, raw_body
from meterline.http.shapes import AnyParameters, Digits, LooseParameters, Parameters
from meterline.limits import (
    CONTROL_BODY_BYTES_MAX,
    DELIVERIES_LISTED_MAX,
    PAGE_NUMBER_MAX,
    PAGE_SIZE_DEFAULT,
    PAGE_SIZE_MAX,
    REPORTS_MAX,
    RUNS_LISTED_MAX,
)
from meterline.problem import Fault, ProblemType, invalid
from meterline.report import Owed, Report, Run

_Call = Call[AnyParameters, None]
ReportsShown = list[ReportShown]
RunsShown = list[RunShown]
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


class V1Reports(OfReports, tag="Reports"):
    """Handlers of reports and their runs."""

    @Operation(
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
    async def create(self, call: _Call) -> web.Response:
        """201 with the report as stored and its signing secret, which only the secrets
        operation shows again.
        """
        service = self._service
        filter_, faults = await filter_of(call)
        body, meter = await read_report(call, ReportBody, V1_NAMES, service, faults)
        secret = new_signing_secret()
        report = new_report(call, service, body.slug, meter, definition(body, filter_), secret)
        first_ms = report.schedule.first_window_ms(report.created_at_ms)
        await service.reports.create_report(report, first_ms, author=call.author)
        service.wake()
        members = report_members(report, meter.key)
        members["endpoint"]["signingSecret"] = secret
        return secret_response(members, 201, {"Location": f"/api/v1/reports/{report.id}"})

    @Operation(
        id="listReports",
        route="GET /v1/reports",
        summary="List reports",
        description="By creation. Where there are as many as the page may have, more may follow.",
        scope=Scope.REPORTS_READ,
        parameters=ReportListParameters,
        answer=Answer(200, "A page of reports.", ReportsShown, example=[REPORT_EXAMPLE]),
    )
    async def list(self, call: Call[ReportListParameters, None]) -> web.Response:
        """A page of reports, by creation, in a bare array."""
        asked = call.parameters
        slugs = await self._service.meter_keys(call.namespace)
        first = min((asked.page - 1) * asked.page_size, REPORTS_MAX)
        reports = await self._service.reports.reports(call.namespace, first + asked.page_size)
        listed = reports[first:]
        return json_response([report_members(it, slugs.get(it.meter_id, "")) for it in listed])

    @Operation(
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
    async def get(self, call: _Call) -> web.Response:
        """The report with its last run."""
        return await self._shown(await self._found(call))

    @Operation(
        id="updateReport",
        route="PUT /v1/reports/{reportIdOrSlug}",
        summary="Update a report",
        description="Change a report; what is absent stays. Slug, meter and type never change. "
        "Another schedule takes over at the first border that its windows share with the present "
        "ones.",
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
    async def update(self, call: _Call) -> web.Response:
        """The report as it is now."""
        service = self._service
        report = await self._found(call)
        filter_, faults = await filter_of(call)
        body = await read_change(call, ReportUpdateBody, V1_NAMES, service, report, faults)
        change = change_of(report, definition(body, filter_), service)
        report = await service.reports.update_report(
            report.id, change, service.now_ms, author=call.author
        )
        service.wake()
        return await self._shown(report)

    @Operation(
        id="deleteReport",
        route="DELETE /v1/reports/{reportIdOrSlug}",
        summary="Delete a report",
        scope=Scope.REPORTS_WRITE,
        parameters=AnyParameters,
        answer=Answer(204, "It is deleted."),
    )
    async def delete(self, call: _Call) -> web.Response:
        """204; what was not sent yet never will be, and is recorded as cancelled."""
        service = self._service
        report = await self._found(call)
        await service.reports.delete_report(report.id, service.now_ms, author=call.author)
        return web.Response(status=204)

    @Operation(
        id="getReportSecret",
        route="GET /v1/reports/{reportIdOrSlug}/secret",
        summary="Get the signing secret of a report",
        scope=Scope.SECRETS_READ,
        parameters=AnyParameters,
        answer=secret_answer(200, "The secret.", SecretShown, {"signingSecret": _SECRET}),
    )
    async def secret(self, call: _Call) -> web.Response:
        """The signing secret."""
        report = await self._found(call)
        service = self._service
        secret = service.opened(report.signing_secret_sealed)
        await service.reports.tell_secret_shown(report, service.now_ms, author=call.author)
        return secret_response({"signingSecret": secret})

    @Operation(
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
    async def resume(self, call: Call[AnyParameters, ResumeBody]) -> web.Response:
        """The report, active again: what is asked for of what it owes is sent."""
        service = self._service
        report = await self._found(call)
        owed = Owed(call.body.owed or Owed.ALL)
        resumed = await service.reports.resume_report(
            report.id, service.now_ms, owed=owed, author=call.author
        )
        service.wake()
        members: ReportResumedShown = {
            **await self._members(await self._found(call)),
            "owed": {
                "runs": resumed.runs,
                "runsSkipped": resumed.runs_skipped,
                "deliveries": resumed.deliveries,
                "deliveriesCancelled": resumed.deliveries_cancelled,
            },
        }
        return json_response(members)

    @Operation(
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
    async def run(self, call: Call[AnyParameters, RunBody]) -> web.Response:
        """201 with a run of the window; 200 with the one that is there already."""
        service, body = self._service, call.body
        report = await self._found(call)
        now_ms = service.now_ms
        if faults := window_faults(body.from_, body.to, now_ms):
            raise invalid(*faults)
        await service.check_counted(report, body.from_, body.to)
        run, new = await service.reports.request_run(
            report, body.from_, body.to, now_ms, revise=body.revise, author=call.author
        )
        service.wake()
        headers = {"Location": f"/api/v1/reports/{report.id}/runs/{run.id}"}
        return json_response(run_members(run), status=201 if new else 200, headers=headers)

    @Operation(
        id="listReportRuns",
        route="GET /v1/reports/{reportIdOrSlug}/runs",
        summary="List the runs of a report",
        scope=Scope.REPORTS_READ,
        parameters=RunsParameters,
        answer=Answer(200, "The newest windows first.", RunsShown, example=[RUN_EXAMPLE]),
    )
    async def runs(self, call: Call[RunsParameters, None]) -> web.Response:
        """Runs, the newest window first; `before` names the last one of the page before."""
        asked = call.parameters
        report = await self._found(call)
        before: Run | None = None
        if asked.before is not None:
            before = await self._service.reports.run(report.id, asked.before)
            if before is None:
                raise invalid(Fault("before", "is not a run of this report", source="query"))
        runs = await self._service.reports.runs(report.id, asked.limit, before)
        return json_response([run_members(run) for run in runs])

    @Operation(
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
    async def get_run(self, call: Call[DeliveriesParameters, None]) -> web.Response:
        """A run with its deliveries and their attempts; `after` is the number of the last one
        of the page before.
        """
        asked, reports = call.parameters, self._service.reports
        report = await self._found(call)
        run = await self._service.run(report, call.names["runId"])
        deliveries = await reports.deliveries(run.id, asked.limit, asked.after)
        attempts = defaultdict(list)
        for attempt in await reports.attempts([it.id for it in deliveries]):
            attempts[attempt.delivery_id].append(attempt)
        shown = [delivery_members(it, attempts[it.id]) for it in deliveries]
        return json_response({**run_members(run), "deliveries": shown})

    async def _found(self, call: Call[Any, Any]) -> Report:
        return await self._service.report(call.namespace, call.names["reportIdOrSlug"])

    async def _shown(self, report: Report) -> web.Response:
        return json_response(await self._members(report))

    async def _members(self, report: Report) -> ReportShown:
        last = await self._service.reports.runs(report.id, 1)
        members = report_members(report, await self._service.meter_key(report))
        members["lastRun"] = run_members(last[0]) if last else None
        return members
