"""Reports in API v1 (contract 4.2), the operations that the contract leaves open, and their
runs by hand.
"""

import base64
import re
import secrets
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from aiohttp import web
from ulid import ULID

from control.edge import integer_parameter, parameters_of
from control.report_body import ReportDraft, report_draft, run_window
from control.report_members import delivery_members, report_members, run_members
from control.stores import Stores
from meterline import limits
from meterline.http import json_response
from meterline.problem import Fault, invalid, not_found
from meterline.report import Report, is_slug
from meterline.report_ports import ReportStore, SecretBox
from meterline.run import Run

_ONE: Final = "/api/v1/reports/{id_or_slug}"
_RUN_ID: Final = re.compile(r"run_[a-z2-7]{32}")
# An answer that shows a secret is kept by nobody on its way.
_UNKEPT: Final = {"Cache-Control": "no-store"}


class V1Reports:
    """Handlers of reports and their runs. `wake` tells a dispatcher of this process that there
    is work.
    """

    def __init__(
        self, stores: Stores, reports: ReportStore, box: SecretBox, wake: Callable[[], None]
    ) -> None:
        self._stores = stores
        self._reports = reports
        self._box = box
        self._wake = wake

    def routes(self) -> list[web.RouteDef]:
        """Where they are mounted."""
        return [
            web.post("/api/v1/reports", self.create),
            web.get("/api/v1/reports", self.list),
            web.get(_ONE, self.get),
            web.delete(_ONE, self.delete),
            web.get(f"{_ONE}/secret", self.secret),
            web.post(f"{_ONE}/resume", self.resume),
            web.post(f"{_ONE}/runs", self.run),
            web.get(f"{_ONE}/runs", self.runs),
            web.get(f"{_ONE}/runs/{{run_id}}", self.get_run),
        ]

    async def create(self, request: web.Request) -> web.Response:
        """201 with the report as stored and its signing secret, which only the secrets
        operation shows again.
        """
        now_ms = self._stores.clock.now_ms()
        draft = await report_draft(request, self._stores, now_ms)
        random = secrets.token_bytes(limits.SIGNING_SECRET_BYTES)
        secret = f"whsec_{base64.b64encode(random).decode()}"
        report = self._report(draft, secret, now_ms)
        await self._reports.create_report(report, report.schedule.first_window_ms(now_ms))
        self._wake()
        members = report_members(report, draft.meter.key)
        members["endpoint"] = {"url": report.endpoint, "signingSecret": secret}
        headers = {**_UNKEPT, "Location": f"/api/v1/reports/{report.id}"}
        return json_response(members, status=201, headers=headers)

    def _report(self, draft: ReportDraft, secret: str, now_ms: int) -> Report:
        user_info = draft.endpoint.user_info
        return Report(
            id=str(ULID.from_timestamp(now_ms)),
            namespace=self._stores.namespace,
            slug=draft.slug,
            meter_id=draft.meter.id,
            schedule=draft.schedule,
            group_by=draft.group_by,
            endpoint=draft.endpoint.url,
            signing_secret_sealed=self._box.seal(secret),
            created_at_ms=now_ms,
            filter=draft.filter,
            user_info_sealed=None if user_info is None else self._box.seal(user_info),
        )

    async def list(self, _request: web.Request) -> web.Response:
        """All reports, by creation, in a bare array."""
        namespace = self._stores.namespace
        slugs = {meter.id: meter.key for meter in await self._stores.catalogue.meters(namespace)}
        reports = await self._reports.reports(namespace)
        return json_response([report_members(it, slugs.get(it.meter_id, "")) for it in reports])

    async def get(self, request: web.Request) -> web.Response:
        """The report with its last run."""
        report = await self._found(request)
        meter = await self._stores.meter(report.meter_id)
        last = await self._reports.runs(report.id, 1)
        members = report_members(report, meter.key)
        return json_response({**members, "lastRun": run_members(last[0]) if last else None})

    async def delete(self, request: web.Request) -> web.Response:
        """204; what was not sent yet never will be, and is recorded as cancelled."""
        report = await self._found(request)
        await self._reports.delete_report(report.id, self._stores.clock.now_ms())
        return web.Response(status=204)

    async def secret(self, request: web.Request) -> web.Response:
        """The signing secret."""
        report = await self._found(request)
        secret = self._box.open(report.signing_secret_sealed)
        return json_response({"signingSecret": secret}, headers=_UNKEPT)

    async def resume(self, request: web.Request) -> web.Response:
        """The report, active again: what its parked endpoint is owed is sent."""
        report = await self._found(request)
        await self._reports.resume_report(report.id)
        self._wake()
        return await self.get(request)

    async def run(self, request: web.Request) -> web.Response:
        """201 with a run of the window; 200 with the one that is there already."""
        report = await self._found(request)
        now_ms = self._stores.clock.now_ms()
        asked = await run_window(request, now_ms)
        run, new = await self._reports.ask_run(
            report, asked.from_ms, asked.to_ms, now_ms, revise=asked.revise
        )
        self._wake()
        headers = {"Location": f"/api/v1/reports/{report.id}/runs/{run.id}"}
        return json_response(run_members(run), status=201 if new else 200, headers=headers)

    async def runs(self, request: web.Request) -> web.Response:
        """Runs, the newest window first; `before` names the last one of the page before."""
        parameters = parameters_of(request, ("limit", "before"))
        limit = integer_parameter(
            parameters, "limit", limits.PAGE_SIZE_DEFAULT, 1, limits.RUNS_LISTED_MAX
        )
        report = await self._found(request)
        before: Run | None = None
        if "before" in parameters:
            before = await self._run(report, parameters["before"])
            if before is None:
                raise invalid(Fault("before", "names no run of this report", source="query"))
        runs = await self._reports.runs(report.id, limit, before)
        return json_response([run_members(run) for run in runs])

    async def get_run(self, request: web.Request) -> web.Response:
        """A run with its deliveries and their attempts; `after` is the number of the last one
        of the page before.
        """
        parameters = parameters_of(request, ("limit", "after"))
        most = limits.DELIVERIES_LISTED_MAX
        limit = integer_parameter(parameters, "limit", limits.PAGE_SIZE_MAX, 1, most)
        after = integer_parameter(parameters, "after", 0, 0, 10**9 - 1)
        report = await self._found(request)
        run = await self._run(report, request.match_info["run_id"])
        if run is None:
            raise not_found("run", request.match_info["run_id"])
        deliveries = await self._reports.deliveries(run.id, limit, after)
        attempts = defaultdict(list)
        for attempt in await self._reports.attempts([it.id for it in deliveries]):
            attempts[attempt.delivery_id].append(attempt)
        shown = [delivery_members(it, attempts[it.id]) for it in deliveries]
        return json_response({**run_members(run), "deliveries": shown})

    async def _found(self, request: web.Request) -> Report:
        name = request.match_info["id_or_slug"]
        report = None
        if is_slug(name):  # ids have the form of slugs
            report = await self._reports.report(self._stores.namespace, name)
        if report is None:
            raise not_found("report", name)
        return report

    async def _run(self, report: Report, run_id: str) -> Run | None:
        if not _RUN_ID.fullmatch(run_id):
            return None
        return await self._reports.run(report.id, run_id)
