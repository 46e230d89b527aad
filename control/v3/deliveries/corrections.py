"""Corrections of revisions in API v3: what was delivered, what it is, and why."""

import re
from typing import Annotated, Final, Literal, NotRequired

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from control.handlers import OfReports, Operation
from control.shapes.optional_members import Maybe, present
from control.shapes.pages import PageParameters, cursor_page, page_answer, page_shape, parts_after
from control.shapes.run import DeliveryId, Digest
from meterline.access import Scope
from meterline.http import json_response
from meterline.http.operation import Call
from meterline.http.shapes import DecimalShown
from meterline.number import text
from meterline.report import KeptCorrection

_CURSOR: Final = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


class CorrectionShown(TypedDict):
    """One usage entry that differs from what was delivered."""

    number: Annotated[int, Field(description="From 1, among those of its run.")]
    subject: str
    dimensions: Annotated[
        dict[str, str], Field(description="The group of the entry, by the report's dimensions.")
    ]
    old_value: NotRequired[
        Annotated[
            Maybe[DecimalShown], Field(description="As delivered; absent where no entry was.")
        ]
    ]
    new_value: NotRequired[
        Annotated[
            Maybe[DecimalShown], Field(description="As it is; absent where there is no entry now.")
        ]
    ]
    difference: Annotated[
        DecimalShown, Field(description="What to add to the old value; what is absent counts as 0.")
    ]
    cause: Annotated[
        Literal["late_usage", "first_seen", "filter", "gone", "meter_changed", "report_changed"],
        Field(
            description="`late_usage`: events came late. `first_seen`: events came late, for a "
            "subject without a delivery. `filter`: the entry no longer passes the filter. `gone`: "
            "there is no usage any more. `meter_changed`: another revision of the meter is used. "
            "`report_changed`: the report is grouped or filtered differently."
        ),
    ]
    replaces: NotRequired[
        Annotated[
            Maybe[DeliveryId],
            Field(description="The delivery that said the old value, or left it out."),
        ]
    ]
    replaced_digest: NotRequired[
        Annotated[Maybe[Digest], Field(description="blake2b-256 of the body of that delivery.")]
    ]


_PAGE: Final = page_shape(
    "CorrectionPageShown", CorrectionShown, "A page of corrections, by number."
)
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


class V3Corrections(OfReports, tag="Reports"):
    """Handler of the corrections of one run."""

    @Operation(
        id="list-run-corrections",
        route="GET /reports/{reportId}/runs/{runId}/corrections",
        summary="List the corrections of a run",
        description="Every entry of a revision that differs from what was delivered for its "
        "window, by subject. Corrections are stored whether they are delivered or only recorded.",
        scope=Scope.REPORTS_READ,
        parameters=PageParameters,
        answer=page_answer("A page of corrections.", _PAGE, CORRECTION_EXAMPLE, "1"),
    )
    async def list(self, call: Call[PageParameters, None]) -> web.Response:
        """One page; of a first run, none."""
        service, page = self._service, call.parameters.page
        report = await self._found(call)
        run = await service.run(report, call.names["runId"])
        after = parts_after(page, _CURSOR)
        number = 0 if after is None else int(after[0])
        found = await service.corrections.corrections(run.id, page.size + 1, number)
        return json_response(cursor_page(found, page, _shown, lambda it: str(it.number)))


def _shown(kept: KeptCorrection) -> CorrectionShown:
    one = kept.correction
    shown: CorrectionShown = {
        "number": kept.number,
        "subject": one.subject,
        "dimensions": dict(one.groups),
        "old_value": None if one.old is None else text(one.old),
        "new_value": None if one.new is None else text(one.new),
        "difference": text(one.difference),
        "cause": one.cause.value,
        "replaces": one.replaces,
        "replaced_digest": one.replaced_digest.hex() if one.replaced_digest else None,
    }
    return present(shown)
