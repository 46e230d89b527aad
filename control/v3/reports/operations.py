"""Reports in API v3: the contract's usage syncs (2.2), made, listed, changed, paused, resumed."""

import re
from dataclasses import asdict
from typing import Final, cast

from aiohttp import web

from control.handlers import OfReports, Operation
from control.reports.rules import V3_NAMES, change_of, new_report, read_change, read_report
from control.reports.service import new_signing_secret
from control.shapes.pages import cursor_page, page_answer, parts_after
from control.shapes.secret import secret_answer, secret_response
from control.v3.reports.list_filters import ReportListParameters, ReportsFilter
from control.v3.reports.shapes import (
    REPORT_EXAMPLE,
    REPORT_PAGE,
    REPORT_RESUMED_EXAMPLE,
    REPORT_SENT,
    REPORT_WITH_RUN_EXAMPLE,
    REPORT_WITH_SECRET_EXAMPLE,
    ReportBody,
    ReportOwedShown,
    ReportResumedShown,
    ReportShown,
    ReportUpdateBody,
    ReportWithSecretShown,
    ResumeBody,
    report_shown,
)
from control.v3.reports.status import ReportStatusShown, status_shown
from meterline.access import Scope
from meterline.http import json_response
from meterline.http.operation import JSON, Answer, Call, optional_json_body, raw_body
from meterline.http.shapes import NoParameters
from meterline.limits import CONTROL_BODY_BYTES_MAX
from meterline.problem import ProblemType
from meterline.report import Owed, Report

_CURSOR: Final = re.compile(r"([0-9]{1,15})\.([0-7][0-9A-HJKMNP-TV-Z]{25})", re.ASCII)


class V3Reports(OfReports, tag="Reports"):
    """Handlers of the collection and of one report."""

    @Operation(
        id="create-report",
        route="POST /reports",
        summary="Create a report",
        description="Create a report. Its first window is the first that ends after it was "
        "created. Run older windows by hand. The answer shows the signing secret, and so does "
        "`get-report-secret`.",
        scope=Scope.REPORTS_WRITE,
        body=raw_body({JSON: ReportBody}, REPORT_SENT, CONTROL_BODY_BYTES_MAX),
        answer=secret_answer(
            201,
            "The report, with its signing secret.",
            ReportWithSecretShown,
            REPORT_WITH_SECRET_EXAMPLE,
        ),
        problems=(ProblemType.CONFLICT, ProblemType.NOT_FOUND),  # the meter may go meanwhile
    )
    async def create(self, call: Call[NoParameters, None]) -> web.Response:
        """201 with the report and its secret; 409 where the slug is taken."""
        service = self._service
        body, meter = await read_report(call, ReportBody, V3_NAMES, service)
        secret = new_signing_secret()
        report = new_report(call, service, body.slug, meter, body.definition(), secret)
        first_ms = report.schedule.first_window_ms(report.created_at_ms)
        await service.reports.create_report(report, first_ms, author=call.author)
        service.wake()
        shown: ReportWithSecretShown = {
            **report_shown(report, meter.key, await self._status(report)),
            "signing_secret": secret,
        }
        return secret_response(shown, 201)

    @Operation(
        id="list-reports",
        route="GET /reports",
        summary="List reports",
        scope=Scope.REPORTS_READ,
        parameters=ReportListParameters,
        answer=page_answer(
            "A page of reports.",
            REPORT_PAGE,
            REPORT_EXAMPLE,
            "1769853600000.01M7ZMF4YA7D2SQ292V0W9JPT8",
        ),
    )
    async def list(self, call: Call[ReportListParameters, None]) -> web.Response:
        """One page, by creation."""
        service, page = self._service, call.parameters.page
        found = parts_after(page, _CURSOR)
        after = None if found is None else (int(found[1]), found[2])
        keys = await service.meter_keys(call.namespace)
        asked = call.parameters.filter
        # A filter looks at all: there are 1,000 at most.
        limit = page.size + 1 if asked == ReportsFilter() else None
        reports = [
            report
            for report in await service.reports.reports(call.namespace, limit, after)
            if asked.accepts(report, keys.get(report.meter_id, ""))
        ]
        statuses = await service.statuses.statuses(reports[: page.size])
        now_ms = service.now_ms

        def show(report: Report) -> ReportShown:
            status = status_shown(report, statuses[report.id], service.start, now_ms)
            return report_shown(report, keys.get(report.meter_id, ""), status)

        return json_response(
            cursor_page(reports, page, show, lambda it: f"{it.created_at_ms}.{it.id}")
        )

    @Operation(
        id="get-report",
        route="GET /reports/{reportId}",
        summary="Get a report",
        scope=Scope.REPORTS_READ,
        answer=Answer(
            200, "The report, with its last run.", ReportShown, example=REPORT_WITH_RUN_EXAMPLE
        ),
    )
    async def get(self, call: Call[NoParameters, None]) -> web.Response:
        """The report with its last run."""
        return await self._shown(await self._found(call))

    @Operation(
        id="update-report",
        route="PUT /reports/{reportId}",
        summary="Update a report",
        description="Change a report. Members that are left out stay as they are. Slug, meter and "
        "type cannot be changed. Final runs stay as they are; others use the new definition. A "
        "new schedule starts at the first boundary that its windows share with the current ones, "
        "so no window is missing or doubled. An unchanged URL keeps its user information and its "
        "headers; `https://@...` removes the user information. Deliveries that were not sent yet "
        "go to a new URL. With `dry_run` nothing changes: the answer shows the report as it would "
        "be, and in `ending_schedule` when a new schedule would start.",
        scope=Scope.REPORTS_WRITE,
        body=raw_body(
            {JSON: ReportUpdateBody},
            {"endpoint": {"url": "https://billing.example.com/v2/usage"}, "filter": {}},
            CONTROL_BODY_BYTES_MAX,
        ),
        answer=Answer(200, "The report as it is now.", ReportShown, example=REPORT_EXAMPLE),
    )
    async def update(self, call: Call[NoParameters, None]) -> web.Response:
        """The report as it is now."""
        service = self._service
        report = await self._found(call)
        body = await read_change(call, ReportUpdateBody, V3_NAMES, service, report)
        change = change_of(report, body.definition(), service)
        report = await service.reports.update_report(
            report.id, change, service.now_ms, author=call.author, dry_run=body.dry_run
        )
        if not body.dry_run:
            service.wake()
        return await self._shown(report)

    @Operation(
        id="delete-report",
        route="DELETE /reports/{reportId}",
        summary="Delete a report",
        description="Delete a report. Deliveries that were not sent yet are cancelled. Runs and "
        "deliveries stay listed.",
        scope=Scope.REPORTS_WRITE,
        answer=Answer(204, "It is deleted."),
    )
    async def delete(self, call: Call[NoParameters, None]) -> web.Response:
        """204; what was not sent yet never will be, and is recorded as cancelled."""
        service = self._service
        report = await self._found(call)
        await service.reports.delete_report(report.id, service.now_ms, author=call.author)
        return web.Response(status=204)

    @Operation(
        id="pause-report",
        route="POST /reports/{reportId}/pause",
        summary="Pause a report",
        description="Stop runs (also by hand) and deliveries until the report is resumed. Windows "
        "that pass meanwhile are run then.",
        scope=Scope.REPORTS_WRITE,
        answer=Answer(
            200,
            "The report, paused.",
            ReportShown,
            example={**REPORT_EXAMPLE, "state": "paused"},
        ),
    )
    async def pause(self, call: Call[NoParameters, None]) -> web.Response:
        """The report, paused."""
        service = self._service
        report = await self._found(call)
        await service.reports.pause_report(report.id, service.now_ms, author=call.author)
        return await self._shown(await self._found(call))

    @Operation(
        id="resume-report",
        route="POST /reports/{reportId}/resume",
        summary="Resume a report",
        description="Make a paused or parked report active again. `owed` says what to send of "
        "what it owes; the default is all. An active report stays as it is.",
        scope=Scope.REPORTS_WRITE,
        body=optional_json_body(ResumeBody, {"owed": "newest"}),
        answer=Answer(
            200,
            "The report, active, and what becomes of what it owed.",
            ReportResumedShown,
            example=REPORT_RESUMED_EXAMPLE,
        ),
    )
    async def resume(self, call: Call[NoParameters, ResumeBody]) -> web.Response:
        """The report, active, and what becomes of what it owed."""
        service = self._service
        report = await self._found(call)
        resumed = await service.reports.resume_report(
            report.id, service.now_ms, owed=Owed(call.body.owed), author=call.author
        )
        service.wake()
        shown: ReportResumedShown = {
            **await self._members(await self._found(call)),
            "owed": cast("ReportOwedShown", asdict(resumed)),
        }
        return json_response(shown)

    async def _shown(self, report: Report) -> web.Response:
        return json_response(await self._members(report))

    async def _members(self, report: Report) -> ReportShown:
        last = await self._service.reports.runs(report.id, 1)
        key = await self._service.meter_key(report)
        status = await self._status(report)
        return report_shown(report, key, status, last[0] if last else None)

    async def _status(self, report: Report) -> ReportStatusShown:
        service = self._service
        found = await service.statuses.statuses([report])
        return status_shown(report, found[report.id], service.start, service.now_ms)
