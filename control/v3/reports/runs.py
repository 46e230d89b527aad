"""Runs of reports in API v3: asked for by hand, listed, shown."""

import re

from aiohttp import web

from control.handlers import OfReports, Operation
from control.reports.rules import window_faults
from control.shapes.pages import cursor_page, no_cursor, page_answer
from control.shapes.run import RUN_PATTERN
from control.v3.reports.list_filters import RunListParameters
from control.v3.reports.run_shapes import RUN_EXAMPLE, RUN_PAGE, RunBody, RunShown, run_shown
from control.v3.reports.status import ReceiverShown, receiver_shown
from meterline.access import Scope
from meterline.http import json_response
from meterline.http.operation import Answer, Call, json_body
from meterline.http.shapes import NoParameters
from meterline.problem import invalid
from meterline.report import Report, Run


class RunWithReceiverShown(RunShown):
    """A run, and how the receiver of its report fares."""

    receiver: ReceiverShown


class V3Runs(OfReports, tag="Reports"):
    """Handlers of the runs of one report."""

    @Operation(
        id="run-report",
        route="POST /reports/{reportId}/runs",
        summary="Run a report by hand",
        description="Run a report for any window that is over, also one that is not of its "
        "schedule. The run waits until everything sent before the request is counted. A run that "
        "was skipped, or could not be computed, is computed now.",
        scope=Scope.REPORTS_WRITE,
        body=json_body(RunBody, {"from": "2026-01-31T00:00:00Z", "to": "2026-02-01T00:00:00Z"}),
        answer=(
            Answer(
                200,
                "The run of that window, which was there already.",
                RunShown,
                example=RUN_EXAMPLE,
            ),
            Answer(
                201,
                "A new run.",
                RunShown,
                example={
                    "id": RUN_EXAMPLE["id"],
                    "report_id": RUN_EXAMPLE["report_id"],
                    "from": "2026-01-31T00:00:00Z",
                    "to": "2026-02-01T00:00:00Z",
                    "revision": 1,
                    "trigger": "manual",
                    "state": "waiting",
                    "asked_at": "2026-02-01T09:00:00Z",
                    "delivered": 0,
                    "failed": 0,
                },
            ),
        ),
    )
    async def run(self, call: Call[NoParameters, RunBody]) -> web.Response:
        """201 with a new run of the window; 200 with the one that is there already."""
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
        return json_response(run_shown(run), 201 if new else 200)

    @Operation(
        id="list-report-runs",
        route="GET /reports/{reportId}/runs",
        summary="List the runs of a report",
        description="The newest window first.",
        scope=Scope.REPORTS_READ,
        parameters=RunListParameters,
        answer=page_answer("A page of runs.", RUN_PAGE, RUN_EXAMPLE, RUN_EXAMPLE["id"]),
    )
    async def list(self, call: Call[RunListParameters, None]) -> web.Response:
        """One page, the newest window first."""
        service, page = self._service, call.parameters.page
        report = await self._found(call)
        before = None if page.after is None else await self._before(report, page.after)
        asked = call.parameters.filter.query()
        found = await service.reports.runs(report.id, page.size + 1, before, asked)
        return json_response(cursor_page(found, page, run_shown, lambda it: it.id))

    @Operation(
        id="get-report-run",
        route="GET /reports/{reportId}/runs/{runId}",
        summary="Get a run",
        description="Its deliveries are listed by `list-deliveries` with `filter[run]`.",
        scope=Scope.REPORTS_READ,
        answer=Answer(
            200,
            "The run, and the state of its receiver.",
            RunWithReceiverShown,
            example={
                **RUN_EXAMPLE,
                "receiver": {
                    "state": "well",
                    "retrying_deliveries": 300,
                    "summary": "300 deliveries are retried without delaying others (the receiver "
                    "answered 500; expected 2xx). The receiver accepts other deliveries.",
                },
            },
        ),
    )
    async def get(self, call: Call[NoParameters, None]) -> web.Response:
        """The run, and how its receiver fares."""
        report = await self._found(call)
        run = await self._service.run(report, call.names["runId"])
        outstanding = await self._service.statuses.outstanding(report, run.id)
        shown: RunWithReceiverShown = {**run_shown(run), "receiver": receiver_shown(outstanding)}
        return json_response(shown)

    async def _before(self, report: Report, cursor: str) -> Run:
        run: Run | None = None
        if re.fullmatch(RUN_PATTERN, cursor, re.ASCII):
            run = await self._service.reports.run(report.id, cursor)
        if run is None:
            raise no_cursor()
        return run
