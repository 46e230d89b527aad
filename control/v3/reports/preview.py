"""What a run of a report would send, in API v3: shown, neither stored nor sent."""

import asyncio
from dataclasses import replace
from typing import Annotated, Final, NotRequired

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from control.handlers import OfReports, Operation
from control.openapi.report_message import EXAMPLE
from control.reports.preview import PreviewedBody, Previewing, ReportPreview
from control.reports.rules import window_faults
from control.shapes.optional_members import Maybe, instant, present
from control.shapes.pages import CursorMetaShown, PageParameters, cursors
from control.usage.admission import Asks
from control.usage.query import complete_until
from meterline.access import Scope
from meterline.http import json_response
from meterline.http.operation import Answer, Call, json_body
from meterline.http.shapes import Closed, DecimalShown, Instant, InstantShown, Text
from meterline.limits import (
    ATTRIBUTE_CHARS_MAX,
    PREVIEW_TOO_LARGE_SHOWN,
    RUN_ROWS_READ,
    SUBJECTS_ASKED_BYTES_MAX,
)
from meterline.meter import Meter
from meterline.number import text
from meterline.problem import Problem, ProblemType, invalid
from meterline.report import Report, Run, Trigger, run_id, subjects_asked
from meterline.usage import Filter, Operator, UsageQuery

_TEXT_EXAMPLE: Final = (
    '{"type":"report.meter","timestamp":"2026-02-01T00:00:00.000Z","report":{"slug":"daily-tokens"}'
    ',"usage":[],"query":{},"meter":{},"run":{}}'
)
_SUBJECT: Final = EXAMPLE["query"]["subject"]


class ReportPreviewBody(Closed):
    """A window that is over, and maybe one subject."""

    from_: Annotated[Instant, Field(alias="from", description="Start of the window.")]
    to: Annotated[Instant, Field(description="End of the window, not in it.")]
    subject: Annotated[
        Maybe[Annotated[Text, Field(max_length=ATTRIBUTE_CHARS_MAX)]],
        Field(description="Only the body for this subject."),
    ] = None


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
            example={
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
            },
        ),
        problems=(ProblemType.CONFLICT,),
    )
    async def preview(self, call: Call[PageParameters, ReportPreviewBody]) -> web.Response:
        """A page of bodies; 409 where the report groups by what its meter has no more."""
        service, asked, page = self._service, call.body, call.parameters.page
        report = await self._found(call)
        now_ms = service.now_ms
        if faults := window_faults(asked.from_, asked.to, now_ms):
            raise invalid(*faults)
        meter = await service.stores.meter(report.namespace, report.meter_id)
        query = _query(report, meter, asked)
        # first: what it speaks of was in before the rows are read
        until_ms = await complete_until(service.stores, query)
        found = await self._made(
            Previewing(report, _run(report, asked, now_ms), page.size, page.after or ""),
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


def _query(report: Report, meter: Meter, asked: ReportPreviewBody) -> UsageQuery:
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


def _run(report: Report, asked: ReportPreviewBody, now_ms: int) -> Run:
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
