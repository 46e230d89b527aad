"""Corrections of revisions in API v3: what was delivered, what it is, and why."""

import re
from typing import Annotated, Final, Literal, NotRequired

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from control.reports.service import ReportService
from control.shapes.pages import CursorMetaShown, cursors
from control.shapes.path_names import REPORT_NAMES
from control.shapes.run import RUN, DeliveryId, Digest
from control.v3.reports.operations import TAG
from meterline.access import Scope
from meterline.http import json_response
from meterline.http.operation import NO_BODY, Answer, Bound, Call, Operation, bind
from meterline.http.shapes import CursorPage, DecimalShown, Parameters
from meterline.number import text
from meterline.problem import Fault, invalid
from meterline.report import KeptCorrection

_CURSOR: Final = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


class CorrectionListParameters(Parameters):
    """Which page."""

    page: CursorPage = CursorPage()


class CorrectionShown(TypedDict):
    """One usage entry that differs from what was delivered."""

    number: Annotated[int, Field(description="From 1, among those of its run.")]
    subject: str
    dimensions: Annotated[
        dict[str, str], Field(description="The group of the entry, by the report's dimensions.")
    ]
    old_value: NotRequired[
        Annotated[DecimalShown, Field(description="As delivered; absent where no entry was.")]
    ]
    new_value: NotRequired[
        Annotated[DecimalShown, Field(description="As it is; absent where there is no entry now.")]
    ]
    difference: Annotated[
        DecimalShown, Field(description="What to add to the old value; what is absent counts as 0.")
    ]
    cause: Annotated[
        Literal["late_usage", "first_seen", "filter", "gone", "meter_changed", "report_changed"],
        Field(
            description="Events came late; the same, for a subject without a delivery; the entry "
            "does not pass the filter any more; there is no usage any more; another revision of "
            "the meter answers; the report is grouped or filtered otherwise."
        ),
    ]
    replaces: NotRequired[
        Annotated[
            DeliveryId, Field(description="The delivery that said the old value, or left it out.")
        ]
    ]
    replaced_digest: NotRequired[
        Annotated[Digest, Field(description="blake2b-256 of the body of that delivery.")]
    ]


class CorrectionPageShown(TypedDict):
    """A page of corrections, by number."""

    data: list[CorrectionShown]
    meta: CursorMetaShown


CORRECTION_EXAMPLE: Final[CorrectionShown] = {
    "number": 1,
    "subject": "customer-1",
    "dimensions": {"model": "large"},
    "old_value": "412.75",
    "new_value": "430",
    "difference": "17.25",
    "cause": "late_usage",
    "replaces": "dlv_wbi3n6gx75sb6wfyj4ccl2bvjfrhrvyh",
    "replaced_digest": "9d" * 32,
}

LIST_RUN_CORRECTIONS: Final = Operation(
    id="list-run-corrections",
    method="GET",
    path="/reports/{reportId}/runs/{runId}/corrections",
    tag=TAG,
    summary="List the corrections of a run",
    description="What a revision says otherwise than what was delivered for its window: every "
    "entry that differs, by subject. They are kept whether they are delivered or only recorded.",
    scope=Scope.REPORTS_READ,
    names={**REPORT_NAMES, "runId": RUN},
    parameters=CorrectionListParameters,
    body=NO_BODY,
    answers=(
        Answer(
            200,
            "A page of corrections.",
            CorrectionPageShown,
            example={"data": [CORRECTION_EXAMPLE], "meta": cursors(20, ["1"], more=False)},
        ),
    ),
)


class V3Corrections:
    """Handler of the corrections of one run."""

    def __init__(self, service: ReportService) -> None:
        self._service = service

    def bound(self) -> list[Bound]:
        """What it answers."""
        return [bind(LIST_RUN_CORRECTIONS, self.list)]

    async def list(self, call: Call[CorrectionListParameters, None]) -> web.Response:
        """One page; of a first run, none."""
        service, page = self._service, call.parameters.page
        report = await service.report(call.namespace, call.names["reportId"])
        run = await service.run(report, call.names["runId"])
        after = _place(page.after)
        # one more than asked for tells whether there is a following page
        found = await service.corrections.corrections(run.id, page.size + 1, after)
        listed = found[: page.size]
        names = [str(one.number) for one in listed]
        answer: CorrectionPageShown = {
            "data": [_shown(one) for one in listed],
            "meta": cursors(page.size, names, more=len(found) > page.size),
        }
        return json_response(answer)


def _place(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if _CURSOR.fullmatch(cursor) is None:
        reason = "is no cursor; take it from meta.page.next of the page before"
        raise invalid(Fault("page[after]", reason, "matches_regex", "query"))
    return int(cursor)


def _shown(kept: KeptCorrection) -> CorrectionShown:
    one = kept.correction
    shown: CorrectionShown = {
        "number": kept.number,
        "subject": one.subject,
        "dimensions": dict(one.groups),
        "difference": text(one.difference),
        "cause": one.cause.value,
    }
    if one.old is not None:
        shown["old_value"] = text(one.old)
    if one.new is not None:
        shown["new_value"] = text(one.new)
    if one.replaces is not None:
        shown["replaces"] = one.replaces
    if one.replaced_digest is not None:
        shown["replaced_digest"] = one.replaced_digest.hex()
    return shown
