"""Rows of runs, and the values that they hold."""

from collections.abc import Collection
from typing import Any, Final

import msgspec
from sqlalchemy import Row, bindparam, literal
from sqlalchemy.sql import ColumnElement

from meterline.backends.control_store.tables.reports import report_runs
from meterline.number import from_json_float
from meterline.report import (
    LogEnds,
    Manifest,
    Report,
    ReportFilter,
    Run,
    RunState,
    Trigger,
    filter_document,
    parse_filter,
)

_filter_decoder: Final = msgspec.json.Decoder(float_hook=from_json_float)


def run_row(run: Run) -> dict[str, Any]:
    """The row of a run that was just made."""
    assert run.manifest is None, "a new run is undecided"
    return {
        "id": run.id,
        "report_id": run.report_id,
        "namespace": run.namespace,
        "from_ms": run.from_ms,
        "to_ms": run.to_ms,
        "revision": run.revision,
        "trigger": run.trigger.value,
        "asked_at_ms": run.asked_at_ms,
        "state": run.state.value,
        "reason": run.reason,
        "supersedes": run.supersedes,
        "ended_at_ms": run.ended_at_ms,
        "delivered": 0,
        "failed": 0,
        "meter_revision": run.meter_revision,
    }


def run_of(row: Row[tuple[object, ...]]) -> Run:
    """The run of a row."""
    return Run(
        id=row.id,
        report_id=row.report_id,
        namespace=row.namespace,
        from_ms=int(row.from_ms),
        to_ms=int(row.to_ms),
        revision=int(row.revision),
        trigger=Trigger(row.trigger),
        asked_at_ms=int(row.asked_at_ms),
        state=RunState(row.state),
        reason=row.reason,
        supersedes=row.supersedes,
        meter_revision=row.meter_revision,
        decided_at_ms=row.decided_at_ms,
        ended_at_ms=row.ended_at_ms,
        delivered=int(row.delivered),
        failed=int(row.failed),
        manifest=None if row.digest is None else _manifest(row),
    )


def _manifest(row: Row[tuple[object, ...]]) -> Manifest:
    return Manifest(
        deliveries=int(row.deliveries),
        entries=int(row.entries),
        filtered_out=int(row.filtered_out),
        total=int(row.total),
        total_filtered_out=int(row.total_filtered_out),
        complete_until_ms=int(row.complete_until_ms),
        digest=row.digest,
        sequence_first=int(row.sequence_first),
        corrections=int(row.corrections or 0),
        corrections_digest=row.corrections_digest,
        counted=counted_of(row.counted),
    )


def manifest_row(manifest: Manifest) -> dict[str, Any]:
    """The columns that a decision writes."""
    return {
        "deliveries": manifest.deliveries,
        "entries": manifest.entries,
        "filtered_out": manifest.filtered_out,
        "total": str(manifest.total),
        "total_filtered_out": str(manifest.total_filtered_out),
        "complete_until_ms": manifest.complete_until_ms,
        "digest": manifest.digest,
        "sequence_first": manifest.sequence_first,
        "corrections": manifest.corrections,
        "corrections_digest": manifest.corrections_digest,
        "counted": counted_text(manifest.counted),
    }


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
    return None if counted is None else msgspec.json.encode(counted).decode()


def counted_of(text: str | None) -> LogEnds | None:
    """How far the log was counted."""
    return None if text is None else msgspec.json.decode(text, type=LogEnds)


def question_row(report: Report) -> dict[str, str]:
    """The columns that say how usage is asked for: in a report's row and in those of its runs."""
    return {
        "group_by": msgspec.json.encode(report.group_by).decode(),
        "filter": msgspec.json.encode(filter_document(report.filter)).decode(),
    }


def group_by_of(text: str) -> tuple[str, ...]:
    """The grouping in a row."""
    return msgspec.json.decode(text, type=tuple[str, ...])


def filter_of(text: str) -> ReportFilter:
    """The filter in a row."""
    filter_, faults = parse_filter(_filter_decoder.decode(text))
    assert not faults, "only what was parsed is stored"
    return filter_
