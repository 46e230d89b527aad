"""Filters of the lists of reports and of their runs in API v3."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from control.shapes.run import WindowEndFilter, WindowStartFilter
from control.shapes.text_filter import TextFilter
from meterline.http.shapes import CursorPage, Parameters
from meterline.report import Report, ReportState, RunQuery, RunState, Trigger

_SEVERAL: Final = "One, or several with commas between them."


def _listed(names: type[StrEnum]) -> str:
    one = f"({'|'.join(names)})"
    return f"^{one}(,{one})*$"


class ReportsFilter(Parameters):
    """Conditions on reports, joined by and."""

    slug: TextFilter | None = None
    meter: Annotated[
        str | None, Field(pattern=r"^[A-Za-z0-9_]+$", description="Id or key of a meter.")
    ] = None
    state: Annotated[
        str | None,
        Field(pattern=_listed(ReportState), description=_SEVERAL, examples=["paused,parked"]),
    ] = None

    def accepts(self, report: Report, meter_key: str) -> bool:
        """Whether a report is listed."""
        return (
            (self.slug is None or self.slug.accepts(report.slug))
            and (
                self.meter is None
                or meter_key == self.meter
                or report.meter_id == self.meter.upper()
            )
            and (self.state is None or report.state in self.state.split(","))
        )


class ReportListParameters(Parameters):
    """Which reports, which page."""

    page: CursorPage = CursorPage()
    filter: ReportsFilter = ReportsFilter()


class RunFilter(Parameters):
    """Conditions on runs, joined by and."""

    state: Annotated[
        str | None,
        Field(pattern=_listed(RunState), description=_SEVERAL, examples=["failed,partly_failed"]),
    ] = None
    trigger: Annotated[
        str | None,
        Field(pattern=_listed(Trigger), description=_SEVERAL, examples=["manual"]),
    ] = None
    from_: Annotated[WindowStartFilter, Field(alias="from")] = WindowStartFilter()
    to: WindowEndFilter = WindowEndFilter()

    def query(self) -> RunQuery:
        """What it asks for."""
        states = () if self.state is None else self.state.split(",")
        triggers = () if self.trigger is None else self.trigger.split(",")
        return RunQuery(
            states=tuple(map(RunState, states)),
            triggers=tuple(map(Trigger, triggers)),
            from_min_ms=self.from_.gte,
            to_max_ms=self.to.lte,
        )


class RunListParameters(Parameters):
    """Which runs, which page."""

    page: CursorPage = CursorPage()
    filter: RunFilter = RunFilter()
