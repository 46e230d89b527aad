"""Reports in API v1 (contract 4.2), the operations that the contract leaves open, and their
runs by hand.
"""

from collections import defaultdict
from typing import Any

from aiohttp import web

from control.handlers import OfReports
from control.reports.rules import (
    V1_WORDS,
    change_of,
    new_report,
    read_change,
    read_report,
    window_faults,
)
from control.reports.service import new_signing_secret
from control.shapes.secret import secret_response
from control.v1.reports.body import (
    ReportBody,
    ReportUpdateBody,
    ResumeBody,
    RunBody,
    definition,
    filter_of,
)
from control.v1.reports.members import (
    ReportResumedShown,
    ReportShown,
    delivery_members,
    report_members,
    run_members,
)
from control.v1.reports.operations import (
    CREATE_REPORT,
    DELETE_REPORT,
    GET_REPORT,
    GET_RUN,
    GET_SECRET,
    LIST_REPORTS,
    LIST_RUNS,
    RESUME_REPORT,
    RUN_REPORT,
    UPDATE_REPORT,
    DeliveriesParameters,
    ReportListParameters,
    RunsParameters,
)
from meterline.http import json_response
from meterline.http.operation import Call
from meterline.http.shapes import AnyParameters
from meterline.limits import REPORTS_MAX
from meterline.problem import Fault, invalid
from meterline.report import Owed, Report, Run

_Call = Call[AnyParameters, None]


class V1Reports(OfReports, tag="Reports"):
    """Handlers of reports and their runs."""

    @CREATE_REPORT
    async def create(self, call: _Call) -> web.Response:
        """201 with the report as stored and its signing secret, which only the secrets
        operation shows again.
        """
        service = self._service
        filter_, faults = await filter_of(call)
        body, meter = await read_report(call, ReportBody, V1_WORDS, service, faults)
        secret = new_signing_secret()
        report = new_report(call, service, body.slug, meter, definition(body, filter_), secret)
        first_ms = report.schedule.first_window_ms(report.created_at_ms)
        await service.reports.create_report(report, first_ms, author=call.author)
        service.wake()
        members = report_members(report, meter.key)
        members["endpoint"]["signingSecret"] = secret
        return secret_response(members, 201, {"Location": f"/api/v1/reports/{report.id}"})

    @LIST_REPORTS
    async def list(self, call: Call[ReportListParameters, None]) -> web.Response:
        """A page of reports, by creation, in a bare array."""
        asked = call.parameters
        slugs = await self._service.meter_keys(call.namespace)
        first = min((asked.page - 1) * asked.page_size, REPORTS_MAX)
        reports = await self._service.reports.reports(call.namespace, first + asked.page_size)
        listed = reports[first:]
        return json_response([report_members(it, slugs.get(it.meter_id, "")) for it in listed])

    @GET_REPORT
    async def get(self, call: _Call) -> web.Response:
        """The report with its last run."""
        return await self._shown(await self._found(call))

    @UPDATE_REPORT
    async def update(self, call: _Call) -> web.Response:
        """The report as it is now."""
        service = self._service
        report = await self._found(call)
        filter_, faults = await filter_of(call)
        body = await read_change(call, ReportUpdateBody, V1_WORDS, service, report, faults)
        change = change_of(report, definition(body, filter_), service)
        report = await service.reports.update_report(
            report.id, change, service.now_ms, author=call.author
        )
        service.wake()
        return await self._shown(report)

    @DELETE_REPORT
    async def delete(self, call: _Call) -> web.Response:
        """204; what was not sent yet never will be, and is recorded as cancelled."""
        service = self._service
        report = await self._found(call)
        await service.reports.delete_report(report.id, service.now_ms, author=call.author)
        return web.Response(status=204)

    @GET_SECRET
    async def secret(self, call: _Call) -> web.Response:
        """The signing secret."""
        report = await self._found(call)
        service = self._service
        secret = service.opened(report.signing_secret_sealed)
        await service.reports.tell_secret_shown(report, service.now_ms, author=call.author)
        return secret_response({"signingSecret": secret})

    @RESUME_REPORT
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

    @RUN_REPORT
    async def run(self, call: Call[AnyParameters, RunBody]) -> web.Response:
        """201 with a run of the window; 200 with the one that is there already."""
        service, body = self._service, call.body
        report = await self._found(call)
        now_ms = service.now_ms
        if faults := window_faults(body.from_, body.to, now_ms):
            raise invalid(*faults)
        run, new = await service.reports.ask_run(
            report, body.from_, body.to, now_ms, revise=body.revise, author=call.author
        )
        service.wake()
        headers = {"Location": f"/api/v1/reports/{report.id}/runs/{run.id}"}
        return json_response(run_members(run), status=201 if new else 200, headers=headers)

    @LIST_RUNS
    async def runs(self, call: Call[RunsParameters, None]) -> web.Response:
        """Runs, the newest window first; `before` names the last one of the page before."""
        asked = call.parameters
        report = await self._found(call)
        before: Run | None = None
        if asked.before is not None:
            before = await self._service.reports.run(report.id, asked.before)
            if before is None:
                raise invalid(Fault("before", "names no run of this report", source="query"))
        runs = await self._service.reports.runs(report.id, asked.limit, before)
        return json_response([run_members(run) for run in runs])

    @GET_RUN
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
