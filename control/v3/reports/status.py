"""Where a report stands, as v3 shows it."""

from typing import Annotated, Final, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from control.shapes.run import DeliveryId, RunId
from control.v3.reports.run_shapes import OutcomeName, RunStateName
from meterline.delivery import Outstanding, Standing
from meterline.http.shapes import InstantShown
from meterline.report import LastError, Report, ReportState, ReportStatus, Run, StartTerms
from meterline.window import rfc3339

LastRunShown = TypedDict(  # a class cannot have a member called `from`
    "LastRunShown",
    {
        "id": RunId,
        "from": InstantShown,
        "to": InstantShown,
        "state": RunStateName,
        "reason": NotRequired[str],
        "decided_at": NotRequired[InstantShown],
        "ended_at": NotRequired[InstantShown],
    },
)
LastRunShown.__doc__ = "The run of the newest window whose run is not still to be made."


class LastErrorShown(TypedDict):
    """The newest attempt that did not arrive."""

    delivery_id: DeliveryId
    at: InstantShown
    outcome: OutcomeName
    status: NotRequired[Annotated[int, Field(description="Of the answer.")]]
    reason: Annotated[str, Field(description="In words.")]


NextRunShown = TypedDict(
    "NextRunShown",
    {
        "from": InstantShown,
        "to": InstantShown,
        "starts_at": Annotated[
            InstantShown,
            Field(
                description="The end of the window, the grace, and the report's place among those "
                "that are due at once. It is made when all that was sent by then is counted."
            ),
        ],
    },
)
NextRunShown.__doc__ = "The first run by schedule that is to come."


class ReceiverShown(TypedDict):
    """How the receiver fares."""

    state: Annotated[
        Literal["well", "down", "failing", "untried"],
        Field(
            description="It takes deliveries; one delivery at a time is tried and the others wait; "
            "it is up and has taken nothing for a day, or never; nothing was sent there yet."
        ),
    ]
    since: NotRequired[Annotated[InstantShown, Field(description="Of the first failure.")]]
    next_probe_at: NotRequired[
        Annotated[InstantShown, Field(description="When it is tried again while it is down.")]
    ]
    retrying_deliveries: Annotated[
        int,
        Field(description="Those that failed and are tried again; 10,000 stands for more, too."),
    ]
    summary: NotRequired[
        Annotated[str, Field(description="In words; left out where nothing is outstanding.")]
    ]


def receiver_shown(outstanding: Outstanding) -> ReceiverShown:
    """How the receiver fares; what there is not is left out."""
    health = outstanding.health
    shown: ReceiverShown = {
        "state": outstanding.standing.value,
        "retrying_deliveries": outstanding.retrying,
    }
    if outstanding.standing in (Standing.DOWN, Standing.FAILING) and health.failing_since_ms:
        shown["since"] = rfc3339(health.failing_since_ms)
    if health.probe_at_ms is not None:
        shown["next_probe_at"] = rfc3339(health.probe_at_ms)
    if words := outstanding.words():
        shown["summary"] = words
    return shown


class ReportStatusShown(TypedDict):
    """Where a report stands."""

    last_run: NotRequired[LastRunShown]
    last_error: NotRequired[LastErrorShown]
    next_run: NotRequired[Annotated[NextRunShown, Field(description="None while it is paused.")]]
    owed_deliveries: Annotated[
        int, Field(description="Those that have not arrived and are not given up.")
    ]
    owed_since: NotRequired[
        Annotated[InstantShown, Field(description="When the oldest of them was made.")]
    ]
    owed_seconds: NotRequired[Annotated[int, Field(description="How long ago that is.")]]
    receiver: ReceiverShown


def status_shown(
    report: Report, status: ReportStatus, start: StartTerms, now_ms: int
) -> ReportStatusShown:
    """The status; what there is not is left out."""
    shown: ReportStatusShown = {
        "owed_deliveries": status.owed,
        "receiver": receiver_shown(status.outstanding),
    }
    if status.last_run is not None:
        shown["last_run"] = _run_shown(status.last_run)
    if status.last_error is not None:
        shown["last_error"] = _error_shown(status.last_error)
    if report.state is not ReportState.PAUSED:
        from_ms, to_ms = status.next_window
        shown["next_run"] = {
            "from": rfc3339(from_ms),
            "to": rfc3339(to_ms),
            "starts_at": rfc3339(start.starts_at_ms(report, from_ms, to_ms)),
        }
    if status.owed_since_ms is not None:
        shown["owed_since"] = rfc3339(status.owed_since_ms)
        shown["owed_seconds"] = max(0, now_ms - status.owed_since_ms) // 1_000
    return shown


def _run_shown(run: Run) -> LastRunShown:
    shown: LastRunShown = {
        "id": run.id,
        "from": rfc3339(run.from_ms),
        "to": rfc3339(run.to_ms),
        "state": run.state.value,
    }
    if run.reason:
        shown["reason"] = run.reason
    if run.decided_at_ms is not None:
        shown["decided_at"] = rfc3339(run.decided_at_ms)
    if run.ended_at_ms is not None:
        shown["ended_at"] = rfc3339(run.ended_at_ms)
    return shown


def _error_shown(error: LastError) -> LastErrorShown:
    shown: LastErrorShown = {
        "delivery_id": error.delivery_id,
        "at": rfc3339(error.at_ms),
        "outcome": error.outcome.value,
        "reason": error.reason,
    }
    if error.status is not None:
        shown["status"] = error.status
    return shown


STATUS_EXAMPLE: Final[ReportStatusShown] = {
    "last_run": {
        "id": "run_cf6inwlmjqelmmezy2kklvx5tgtoar6l",
        "from": "2026-01-31T00:00:00Z",
        "to": "2026-02-01T00:00:00Z",
        "state": "delivering",
        "decided_at": "2026-02-01T00:01:00.733Z",
    },
    "last_error": {
        "delivery_id": "dlv_wbi3n6gx75sb6wfyj4ccl2bvjfrhrvyh",
        "at": "2026-02-01T00:01:01.204Z",
        "outcome": "refused",
        "status": 503,
        "reason": "the receiver answered 503; expected is 2xx",
    },
    "next_run": {
        "from": "2026-02-01T00:00:00Z",
        "to": "2026-02-02T00:00:00Z",
        "starts_at": "2026-02-02T00:01:02.417Z",
    },
    "owed_deliveries": 1,
    "owed_since": "2026-02-01T00:01:00.733Z",
    "owed_seconds": 28_800,
    "receiver": {
        "state": "well",
        "retrying_deliveries": 1,
        "summary": "1 delivery is retried, each by itself (the receiver answered 500; expected is "
        "2xx); the receiver is well.",
    },
}
