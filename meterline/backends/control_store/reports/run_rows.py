"""Rows of runs, and the values that they hold."""

from collections.abc import Collection
from typing import Any, Final

import msgspec
from sqlalchemy import Row, and_, bindparam, literal
from sqlalchemy.sql import ColumnElement

from meterline.backends.control_store.store import json_text, row_of, value_of
from meterline.backends.control_store.tables.reports import report_runs
from meterline.number import from_json_float
from meterline.report import (
    LogEnds,
    Manifest,
    Report,
    ReportFilter,
    Run,
    RunState,
    filter_document,
    parse_filter,
)

_filter_decoder: Final = msgspec.json.Decoder(float_hook=from_json_float)
_counted: Final = msgspec.json.Decoder(LogEnds)


def run_row(run: Run) -> dict[str, Any]:
    """The row of a run that was just made."""
    assert run.manifest is None, "a new run is undecided"
    return row_of(run, report_runs)


def run_of(row: Row[tuple[object, ...]]) -> Run:
    """The run of a row."""
    manifest = None if row.digest is None else _manifest(row)
    return value_of(Run, row, manifest=manifest)


def _manifest(row: Row[tuple[object, ...]]) -> Manifest:
    return value_of(
        Manifest,
        row,
        total=int(row.total),
        total_filtered_out=int(row.total_filtered_out),
        corrections=row.corrections or 0,
        counted=counted_of(row.counted),
    )


def manifest_row(manifest: Manifest) -> dict[str, Any]:
    """The columns that a decision writes."""
    return row_of(
        manifest,
        report_runs,
        total=str(manifest.total),
        total_filtered_out=str(manifest.total_filtered_out),
        counted=counted_text(manifest.counted),
    )


def same_window(one: Any, other: Any) -> ColumnElement[bool]:
    """Whether two are of one window of one report: columns of tables, or those and a value."""
    return and_(
        one.report_id == other.report_id,
        one.from_ms == other.from_ms,
        one.to_ms == other.to_ms,
    )


def run_states(states: Collection[RunState]) -> ColumnElement[bool]:
    """Whether a run is in one of some states. As literals: an index on part of the rows is used
    only where the condition is seen to fit it.
    """
    names = sorted(state.value for state in states)
    if len(names) == 1:
        return report_runs.c.state == literal(names[0], literal_execute=True)
    return report_runs.c.state.in_(bindparam(None, names, expanding=True, literal_execute=True))


def counted_text(counted: LogEnds | None) -> str | None:
    """What is kept of how far the log was counted."""
    return None if counted is None else json_text(counted)


def counted_of(text: str | None) -> LogEnds | None:
    """How far the log was counted."""
    return None if text is None else _counted.decode(text)


def question_row(report: Report) -> dict[str, str]:
    """The columns that say how usage is asked for: in a report's row and in those of its runs."""
    return {
        "group_by": json_text(report.group_by),
        "filter": json_text(filter_document(report.filter)),
    }


def group_by_of(text: str) -> tuple[str, ...]:
    """The grouping in a row."""
    return msgspec.json.decode(text, type=tuple[str, ...])


def filter_of(text: str) -> ReportFilter:
    """The filter in a row."""
    filter_, faults = parse_filter(_filter_decoder.decode(text))
    if faults:
        raise ValueError(f"the stored filter is none that can be read: {faults[0]}")
    return filter_
