"""What a run of a report would send, in API v3: shown, neither stored nor sent."""

import asyncio
from dataclasses import replace
from typing import Annotated, Any, Final, NotRequired

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict
from ulid import ULID

from control.handlers import OfReports, Operation
from control.openapi.report_message import EXAMPLE
from control.reports.preview import PreviewedBody, Previewing, ReportPreview
from control.reports.rules import V3_NAMES, Slug, group_faults, window_faults
from control.shapes.optional_members import Maybe, instant, present
from control.shapes.pages import CursorMetaShown, PageParameters, cursors
from control.usage.admission import Asks
from control.usage.query import complete_until
from control.v3.reports.filter_shapes import ReportFilterBody
from control.v3.reports.shapes import MeterName, ReportQueryBody
from meterline.access import Scope
from meterline.http import json_response
from meterline.http.operation import Answer, Call, json_body
from meterline.http.shapes import Closed, DecimalShown, Instant, InstantShown, Text
from meterline.limits import (
    ATTRIBUTE_CHARS_MAX,
    PREVIEW_TOO_LARGE_SHOWN,
    REPORT_SLUG_CHARS_MAX,
    RUN_ROWS_READ,
    SUBJECTS_ASKED_BYTES_MAX,
)
from meterline.meter import Meter
from meterline.number import text
from meterline.problem import Fault, Problem, ProblemType, invalid
from meterline.report import (
    Interval,
    Report,
    ReportFilter,
    Run,
    Schedule,
    Trigger,
    run_id,
    subjects_asked,
)
from meterline.usage import Filter, Operator, UsageQuery

_TEXT_EXAMPLE: Final = (
    '{"type":"report.meter","timestamp":"2026-02-01T00:00:00.000Z","report":{"slug":"daily-tokens"}'
    ',"usage":[],"query":{},"meter":{},"run":{}}'
)
_SUBJECT: Final = EXAMPLE["query"]["subject"]


class _Window(Closed):
    """A window that is over, and maybe one subject."""

    from_: Annotated[Instant, Field(alias="from", description="Start of the window.")]
    to: Annotated[Instant, Field(description="End of the window, not in it.")]
    subject: Annotated[
        Maybe[Annotated[Text, Field(max_length=ATTRIBUTE_CHARS_MAX)]],
        Field(description="Only the body for this subject."),
    ] = None


class ReportPreviewBody(_Window):
    """A window that is over, and maybe one subject."""


class PreviewedReportBody(Closed):
    """What defines a report, as far as it decides what is sent."""

    slug: Slug
    meter_id_or_key: MeterName
    query: Maybe[ReportQueryBody] = None
    filter: Maybe[ReportFilterBody] = None

    def report(self, meter: Meter, now_ms: int) -> Report:
        """A report that no store knows: it is sent nowhere, and by nobody."""
        return Report(
            id=str(ULID.from_timestamp(now_ms)),
            namespace=meter.namespace,
            slug=self.slug,
            meter_id=meter.id,
            schedule=Schedule(Interval.DAY, 0),
            group_by=tuple((self.query and self.query.group_by_dimensions) or ()),
            endpoint="",
            signing_secret_sealed=b"",
            created_at_ms=now_ms,
            updated_at_ms=now_ms,
            filter=ReportFilter() if self.filter is None else self.filter.filter(),
        )


class NewReportPreviewBody(_Window):
    """A report that is not there, and a window that is over."""

    report: PreviewedReportBody


class PreviewedBodyShown(TypedDict):
    """The body that one subject would get."""

    subject: str
    entries: Annotated[int, Field(description="Of usage, in it.")]
    bytes: Annotated[int, Field(description="Its length.")]
    body: NotRequired[
        Annotated[
            Maybe[str],
            Field(
                description="The exact text that would be sent, except for the member `run`. "
                "Absent if it would be too large."
            ),
        ]
    ]


class TooLargeShown(TypedDict):
    """A subject whose body would be too large: its delivery would fail, and the others be sent."""

    subject: str
    entries: int
    bytes: int
    reason: Annotated[str, Field(description="In words, with what to do.")]


class ReportPreviewShown(TypedDict):
    """What a run of a window would send now, a page of it, by subject."""

    deliveries: Annotated[int, Field(description="One for each subject.")]
    entries: int
    filtered_out: Annotated[int, Field(description="Entries that do not pass the filter.")]
    total: Annotated[DecimalShown, Field(description="Sum of the values that would be delivered.")]
    total_filtered_out: DecimalShown
    complete_until: Annotated[
        InstantShown | None,
        Field(description="Everything recorded up to then is included. Null: not known."),
    ]
    too_large: Annotated[
        list[TooLargeShown],
        Field(
            description=f"Up to {PREVIEW_TOO_LARGE_SHOWN} subjects whose body would be too large. "
            "Their deliveries would fail, the others would be sent."
        ),
    ]
    data: list[PreviewedBodyShown]
    meta: CursorMetaShown


_EXAMPLE: Final[Any] = {
    "deliveries": 1,
    "entries": 1,
    "filtered_out": 1,
    "total": "350.25",
    "total_filtered_out": "3",
    "complete_until": "2026-02-01T09:00:00.412Z",
    "too_large": [],
    "data": [
        {
            "subject": _SUBJECT,
            "entries": 1,
            "bytes": len(_TEXT_EXAMPLE),
            "body": _TEXT_EXAMPLE,
        }
    ],
    "meta": cursors(20, [_SUBJECT], more=False),
}
_NEW: Final[Any] = {
    "report": {
        "slug": "daily-tokens",
        "meter_id_or_key": "tokens_total",
        "query": {"group_by_dimensions": ["model"]},
    },
    "from": "2026-01-31T00:00:00Z",
    "to": "2026-02-01T00:00:00Z",
}


class V3ReportPreview(OfReports, tag="Reports"):
    """Handler of previews."""

    @Operation(
        id="preview-report",
        route="POST /reports/{reportId}/preview",
        summary="Preview what a report would send",
        description="Show the exact bodies that a first run of a window would send now, by "
        "subject. Nothing is stored or sent. They equal the deliveries, except for the member "
        "`run` (its `sequence` is 0).",
        scope=Scope.REPORTS_READ,
        asks=Asks.MUCH,
        parameters=PageParameters,
        body=json_body(
            ReportPreviewBody, {"from": "2026-01-31T00:00:00Z", "to": "2026-02-01T00:00:00Z"}
        ),
        answer=Answer(
            200,
            "A page of bodies.",
            ReportPreviewShown,
            example=_EXAMPLE,
        ),
        problems=(ProblemType.CONFLICT,),
    )
    async def preview(self, call: Call[PageParameters, ReportPreviewBody]) -> web.Response:
        """A page of bodies; 409 where the report groups by what its meter has no more."""
        report = await self._found(call)
        _check_over(call.body, self._service.now_ms)
        meter = await self._service.stores.meter(report.namespace, report.meter_id)
        return await self._previewed(report, meter, call.body, call.parameters)

    @Operation(
        id="preview-new-report",
        route="POST /report-preview",
        summary="Preview what a new report would send",
        description="Show the exact bodies that a report would send if you created it, as "
        "`preview-report` does for one that exists. Nothing is created, stored or sent.",
        scope=Scope.USAGE_READ,
        asks=Asks.MUCH,
        parameters=PageParameters,
        body=json_body(NewReportPreviewBody, _NEW),
        answer=Answer(200, "A page of bodies.", ReportPreviewShown, example=_EXAMPLE),
    )
    async def preview_new(self, call: Call[PageParameters, NewReportPreviewBody]) -> web.Response:
        """A page of bodies; 400 with every fault of the report and the window."""
        service, asked = self._service, call.body.report
        faults = window_faults(call.body.from_, call.body.to, service.now_ms)
        meter = await service.stores.catalogue.meter(call.namespace, asked.meter_id_or_key)
        if meter is None:
            reason = f"there is no meter {asked.meter_id_or_key[:REPORT_SLUG_CHARS_MAX]!r}"
            raise invalid(*faults, Fault("report.meter_id_or_key", reason, "not_found"))
        document = asked.model_dump(exclude_none=True)
        faults += [
            replace(fault, field=f"report.{fault.field}")
            for fault in group_faults(meter, document, V3_NAMES)
        ]
        if faults:
            raise invalid(*faults)
        report = asked.report(meter, service.now_ms)
        return await self._previewed(report, meter, call.body, call.parameters)

    async def _previewed(
        self, report: Report, meter: Meter, asked: _Window, parameters: PageParameters
    ) -> web.Response:
        service, page = self._service, parameters.page
        query = _query(report, meter, asked)
        # first: what it speaks of was in before the rows are read
        until_ms = await complete_until(service.stores, query)
        found = await self._made(
            Previewing(report, _run(report, asked, service.now_ms), page.size, page.after or ""),
            query,
            until_ms or 0,
        )
        return json_response(_shown(found, until_ms, page.size))

    async def _made(
        self, previewing: Previewing, query: UsageQuery, complete_until_ms: int
    ) -> ReportPreview:
        usage, left_out = self._service.stores.usage, (0, 0)
        async for rows in usage.usage_by_subject(query, RUN_ROWS_READ):
            await asyncio.to_thread(previewing.add, rows)  # a second where there are many subjects
        if query.subjects:
            left_out = await usage.usage_sum(replace(query, other_subjects=True))
        return await asyncio.to_thread(previewing.end, query.meter, complete_until_ms, left_out)


def _check_over(asked: _Window, now_ms: int) -> None:
    if faults := window_faults(asked.from_, asked.to, now_ms):
        raise invalid(*faults)


def _query(report: Report, meter: Meter, asked: _Window) -> UsageQuery:
    if missing := set(report.group_by) - set(meter.dimension_names):
        detail = f"The meter has no group-by key {min(missing)!r} any more; no run could be made."
        raise Problem(ProblemType.CONFLICT, detail)
    filters: tuple[tuple[str, Filter], ...] = ()
    if asked.subject is not None:
        filters = (("subject", Filter(Operator.EQ, (asked.subject,))),)
    group_by = ("subject", *report.group_by)
    subjects = subjects_asked(report.filter, SUBJECTS_ASKED_BYTES_MAX)
    return UsageQuery(
        meter, asked.from_, asked.to, group_by=group_by, filters=filters, subjects=subjects
    )


def _run(report: Report, asked: _Window, now_ms: int) -> Run:
    name = run_id(report.id, asked.from_, asked.to, 1)
    return Run(name, report.id, report.namespace, asked.from_, asked.to, 1, Trigger.MANUAL, now_ms)


def _shown(found: ReportPreview, until_ms: int | None, page_size: int) -> ReportPreviewShown:
    figures = found.figures
    return {
        "deliveries": found.deliveries,
        "entries": figures.entries,
        "filtered_out": figures.filtered_out,
        "total": text(figures.total),
        "total_filtered_out": text(figures.total_filtered_out),
        "complete_until": instant(until_ms),
        "too_large": [
            {
                "subject": it.subject,
                "entries": it.entries,
                "bytes": it.size,
                "reason": it.failure,
            }
            for it in found.too_large
        ],
        "data": [_body_shown(it) for it in found.bodies],
        "meta": cursors(page_size, [it.subject for it in found.bodies], more=found.more),
    }


def _body_shown(one: PreviewedBody) -> PreviewedBodyShown:
    shown: PreviewedBodyShown = {
        "subject": one.subject,
        "entries": one.entries,
        "bytes": one.size,
        "body": None if one.body is None else one.body.decode(),
    }
    return present(shown)
