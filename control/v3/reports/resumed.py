"""What is said and shown of a report that is resumed, in v3."""

from typing import Annotated, Final

from pydantic import Field
from typing_extensions import TypedDict

from control.reports.rules import OwedName
from control.v3.reports.shapes import REPORT_EXAMPLE, ReportShown
from meterline.http.shapes import Closed


class ResumeBody(Closed):
    """What is sent of what a report owes."""

    owed: OwedName = "all"


class ReportOwedShown(TypedDict):
    """What a report owes now that it is resumed, and what it owes no more."""

    runs: Annotated[int, Field(description="Still to be made, of all windows.")]
    runs_skipped: int
    deliveries: Annotated[int, Field(description="Still to be sent, of runs that are made.")]
    deliveries_cancelled: int


class ReportResumedShown(ReportShown):
    """A report that was resumed."""

    owed: ReportOwedShown


REPORT_RESUMED_EXAMPLE: Final[ReportResumedShown] = {
    **REPORT_EXAMPLE,
    "owed": {"runs": 1, "runs_skipped": 6, "deliveries": 0, "deliveries_cancelled": 48},
}
