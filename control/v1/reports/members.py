"""Reports, runs and deliveries as API v1 shows them. Nothing here is secret but what is asked
for by name.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, NotRequired, cast

import msgspec
from pydantic import Field
from typing_extensions import TypedDict

from control.shapes.optional_members import Maybe, present
from control.shapes.run import (
    DeliveryId,
    DeliveryStateName,
    Digest,
    OutcomeName,
    RunId,
    RunStateName,
    corrections_of,
    sequence_of,
)
from control.v3.reports.filter_shapes import SubjectConditionsShown
from meterline.delivery import Attempt, Delivery
from meterline.http.shapes import InstantShown, Ulid
from meterline.number import text
from meterline.report import Manifest, Report, Run, Schedule, Takeover, filter_document
from meterline.window import rfc3339_ms

Number = Annotated[float, Field(description="A JSON number with all its digits.")]
IntervalShown = Literal["1m", "1h", "1d"]


class ScheduleShown(TypedDict):
    """The schedule that was asked for last."""

    interval: IntervalShown
    startAt: InstantShown


class EndingScheduleShown(TypedDict):
    """A schedule that is in force until the one that was asked for takes over."""

    interval: IntervalShown
    startAt: InstantShown
    endsAt: InstantShown


class QueryShown(TypedDict):
    """How entries are split."""

    groupBy: list[str]


class EndpointShown(TypedDict):
    """Where deliveries go. The secret is in the answer that makes the report."""

    url: str
    headerNames: NotRequired[Maybe[list[str]]]
    signingSecret: NotRequired[Maybe[str]]


UsageConditionsShown = TypedDict(
    "UsageConditionsShown",
    {
        "$gt": NotRequired[float],
        "$gte": NotRequired[float],
        "$lt": NotRequired[float],
        "$lte": NotRequired[float],
        "$eq": NotRequired[float],
        "$ne": NotRequired[float],
        "$in": NotRequired[list[float]],
        "$nin": NotRequired[list[float]],
    },
)


class FilterShown(TypedDict):
    """Which entries are reported."""

    usage: NotRequired[Maybe[UsageConditionsShown]]
    subject: NotRequired[Maybe[SubjectConditionsShown]]


class ManifestShown(TypedDict):
    """What a decided run says."""

    deliveries: int
    entries: int
    filteredOut: int
    total: Number
    totalFilteredOut: Number
    completeUntil: InstantShown
    digest: str
    sequenceFirst: int | None
    sequenceLast: int | None


RunShown = TypedDict(
    "RunShown",
    {
        "id": RunId,
        "reportId": Ulid,
        "from": InstantShown,
        "to": InstantShown,
        "revision": int,
        "supersedes": RunId | None,
        "trigger": Literal["schedule", "manual", "late"],
        "state": RunStateName,
        "reason": str,
        "askedAt": InstantShown,
        "decidedAt": InstantShown | None,
        "endedAt": InstantShown | None,
        "meterRevision": int | None,
        "delivered": int,
        "failed": int,
        "manifest": ManifestShown | None,
        "corrections": int | None,
    },
)


class AttemptShown(TypedDict):
    """One POST of a delivery."""

    number: int
    startedAt: InstantShown
    durationMs: int
    outcome: OutcomeName
    status: int | None
    reason: str
    answer: str
    nextAttemptAt: InstantShown | None


class DeliveryShown(TypedDict):
    """One subject of a run."""

    id: DeliveryId
    subject: str
    number: int
    sequence: int
    revision: int
    supersedes: DeliveryId | None
    state: DeliveryStateName
    digest: Digest
    failure: str | None
    createdAt: InstantShown
    nextAttemptAt: InstantShown | None
    endedAt: InstantShown | None
    attempts: list[AttemptShown]


class RunWithDeliveriesShown(RunShown):
    """A run with a page of its deliveries."""

    deliveries: list[DeliveryShown]


class ReportShown(TypedDict):
    """A report, with the contract's words (2.2)."""

    id: Ulid
    slug: str
    meterIdOrSlug: str
    meterId: Ulid
    type: Literal["webhook"]
    schedule: ScheduleShown
    endingSchedule: NotRequired[Maybe[EndingScheduleShown]]
    query: QueryShown
    filter: NotRequired[Maybe[FilterShown]]
    endpoint: EndpointShown
    revisions: Literal["record", "send"]
    graceSeconds: NotRequired[Maybe[int]]
    state: Literal["active", "paused", "parked"]
    stateReason: NotRequired[Maybe[str]]
    createdAt: InstantShown
    lastRun: NotRequired[RunShown | None]


class OwedShown(TypedDict):
    """What a report owes now that it is resumed, and what it owes no more."""

    runs: int
    runsSkipped: int
    deliveries: int
    deliveriesCancelled: int


class ReportResumedShown(ReportShown):
    """A report that was resumed."""

    owed: OwedShown


def report_members(report: Report, meter_slug: str) -> ReportShown:
    """A report with the contract's words (2.2), and what became of it."""
    asked, ending = report.schedule_asked, report.takeover
    # the numbers of its filter are texts of numbers
    filter_ = cast("FilterShown", filter_document(report.filter))
    names = [*report.headers.names] or None
    endpoint: EndpointShown = {"url": report.endpoint, "headerNames": names}
    shown: ReportShown = {
        "id": report.id,
        "slug": report.slug,
        "meterIdOrSlug": meter_slug,
        "meterId": report.meter_id,
        "type": "webhook",
        "schedule": {
            "interval": asked.interval.value,
            "startAt": rfc3339_ms(asked.start_at_ms),
        },
        "endingSchedule": None if ending is None else _ending_members(report.schedule, ending),
        "query": {"groupBy": list(report.group_by)},
        "filter": filter_ or None,
        "endpoint": present(endpoint),
        "revisions": report.revisions.value,
        "graceSeconds": None if report.grace_ms is None else report.grace_ms // 1_000,
        "state": report.state.value,
        "stateReason": report.state_reason or None,
        "createdAt": rfc3339_ms(report.created_at_ms),
    }
    return present(shown)


def _ending_members(schedule: Schedule, takeover: Takeover) -> EndingScheduleShown:
    return {
        "interval": schedule.interval.value,
        "startAt": rfc3339_ms(schedule.start_at_ms),
        "endsAt": rfc3339_ms(takeover.at_ms),
    }


def run_members(run: Run) -> RunShown:
    """A run; `manifest` is there once it is decided."""
    return {
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
        "corrections": corrections_of(run),
    }


def delivery_members(delivery: Delivery, attempts: Sequence[Attempt]) -> DeliveryShown:
    """A delivery with its attempts; `digest` is the blake2b-256 of its body; without
    one, of `failure`.
    """
    return {
        "id": delivery.id,
        "subject": delivery.subject,
        "number": delivery.number,
        "sequence": delivery.sequence,
        "revision": delivery.revision,
        "supersedes": delivery.supersedes,
        "state": delivery.state.value,
        "digest": delivery.digest.hex(),
        "failure": delivery.failure,
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


def _manifest_members(manifest: Manifest) -> ManifestShown:
    first, last = sequence_of(manifest)
    return {
        "deliveries": manifest.deliveries,
        "entries": manifest.entries,
        "filteredOut": manifest.filtered_out,
        "total": _number(manifest.total),
        "totalFilteredOut": _number(manifest.total_filtered_out),
        "completeUntil": rfc3339_ms(manifest.complete_until_ms),
        "digest": manifest.digest,
        "sequenceFirst": first,
        "sequenceLast": last,
    }


def _number(value: int) -> float:
    """A scaled integer as a JSON number with all its digits, which no float would keep."""
    raw: Any = msgspec.Raw(text(value).encode())
    return cast("float", raw)


def _instant(at_ms: int | None) -> str | None:
    return None if at_ms is None else rfc3339_ms(at_ms)


REPORT_SENT: Final = {
    "slug": "daily-tokens",
    "meterIdOrSlug": "tokens",
    "type": "webhook",
    "schedule": {"interval": "1d", "startAt": "2026-01-01T00:00:00.000Z"},
    "query": {"groupBy": ["model"]},
    "filter": {"usage": {"$gt": 100}, "subject": {"$nin": ["internal"]}},
    "endpoint": {"url": "https://billing.example.com/usage"},
}
REPORT_EXAMPLE: Final[ReportShown] = {
    "id": "01M7ZMF4YA7D2SQ292V0W9JPT8",
    "slug": "daily-tokens",
    "meterIdOrSlug": "tokens",
    "meterId": "01M7ZMF4Y0000SQ292V0W9JPT8",
    "type": "webhook",
    "schedule": {"interval": "1d", "startAt": "2026-01-01T00:00:00.000Z"},
    "query": {"groupBy": ["model"]},
    "filter": {"usage": {"$gt": 100}, "subject": {"$nin": ["internal"]}},
    "endpoint": {"url": "https://billing.example.com/usage"},
    "revisions": "record",
    "state": "active",
    "createdAt": "2026-01-31T10:00:00.000Z",
}
RUN_EXAMPLE: Final[RunShown] = {
    "id": "run_cf6inwlmjqelmmezy2kklvx5tgtoar6l",
    "reportId": "01M7ZMF4YA7D2SQ292V0W9JPT8",
    "from": "2026-01-31T00:00:00.000Z",
    "to": "2026-02-01T00:00:00.000Z",
    "revision": 1,
    "supersedes": None,
    "trigger": "manual",
    "state": "waiting",
    "reason": "",
    "askedAt": "2026-02-01T09:00:00.000Z",
    "decidedAt": None,
    "endedAt": None,
    "meterRevision": None,
    "delivered": 0,
    "failed": 0,
    "manifest": None,
    "corrections": None,
}
