"""Reports, runs and deliveries as API v1 shows them. Nothing here is secret but what is asked
for by name.
"""

from collections.abc import Sequence

import msgspec

from meterline.number import text
from meterline.report import Report
from meterline.report_filter import filter_document
from meterline.run import Attempt, Delivery, Manifest, Run
from meterline.window import rfc3339_ms


def report_members(report: Report, meter_slug: str) -> dict[str, object]:
    """A report with the contract's words (2.2), and what became of it."""
    members: dict[str, object] = {
        "id": report.id,
        "slug": report.slug,
        "meterIdOrSlug": meter_slug,
        "meterId": report.meter_id,
        "type": "webhook",
        "schedule": {
            "interval": report.schedule.interval.value,
            "startAt": rfc3339_ms(report.schedule.start_at_ms),
        },
        "query": {"groupBy": report.group_by},
        "endpoint": {"url": report.endpoint},
        "state": report.state.value,
        "createdAt": rfc3339_ms(report.created_at_ms),
    }
    filter_ = filter_document(report.filter)
    if filter_:
        members["filter"] = filter_
    if report.state_reason:
        members["stateReason"] = report.state_reason
    return members


def run_members(run: Run) -> dict[str, object]:
    """A run; `manifest` is there once it is decided."""
    members: dict[str, object] = {
        "id": run.id,
        "reportId": run.report_id,
        "from": rfc3339_ms(run.from_ms),
        "to": rfc3339_ms(run.to_ms),
        "revision": run.revision,
        "supersedes": run.supersedes,
        "trigger": run.trigger.value,
        "state": run.state.value,
        "reason": run.reason,
        "askedAt": rfc3339_ms(run.asked_at_ms),
        "decidedAt": _instant(run.decided_at_ms),
        "endedAt": _instant(run.ended_at_ms),
        "meterRevision": run.meter_revision,
        "delivered": run.delivered,
        "failed": run.failed,
        "manifest": None if run.manifest is None else _manifest_members(run.manifest),
    }
    return members


def delivery_members(delivery: Delivery, attempts: Sequence[Attempt]) -> dict[str, object]:
    """A delivery with its attempts; `digest` is the blake2b-256 of its body."""
    return {
        "id": delivery.id,
        "subject": delivery.subject,
        "number": delivery.number,
        "sequence": delivery.sequence,
        "revision": delivery.revision,
        "supersedes": delivery.supersedes,
        "state": delivery.state.value,
        "digest": delivery.digest.hex(),
        "createdAt": rfc3339_ms(delivery.created_at_ms),
        "nextAttemptAt": _instant(delivery.next_attempt_at_ms),
        "endedAt": _instant(delivery.ended_at_ms),
        "attempts": [
            {
                "number": attempt.number,
                "startedAt": rfc3339_ms(attempt.started_at_ms),
                "durationMs": attempt.duration_ms,
                "outcome": attempt.outcome.value,
                "status": attempt.status,
                "reason": attempt.reason,
                "answer": attempt.answer.decode(errors="replace"),
                "nextAttemptAt": _instant(attempt.next_attempt_at_ms),
            }
            for attempt in attempts
        ],
    }


def _manifest_members(manifest: Manifest) -> dict[str, object]:
    first, count = manifest.sequence_first, manifest.deliveries
    return {
        "deliveries": count,
        "entries": manifest.entries,
        "filteredOut": manifest.filtered_out,
        "total": msgspec.Raw(text(manifest.total).encode()),
        "totalFilteredOut": msgspec.Raw(text(manifest.total_filtered_out).encode()),
        "completeUntil": rfc3339_ms(manifest.complete_until_ms),
        "digest": manifest.digest,
        "sequenceFirst": first if count else None,
        "sequenceLast": first + count - 1 if count else None,
    }


def _instant(at_ms: int | None) -> str | None:
    return None if at_ms is None else rfc3339_ms(at_ms)
