"""Where a report stands, as v3 shows it."""

from typing import Annotated, Final, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from control.shapes.optional_members import Maybe, instant, present
from control.shapes.run import DeliveryId, OutcomeName, RunId, RunStateName
from meterline.delivery import Outstanding, Standing
from meterline.http.shapes import InstantShown
from meterline.report import LastError, Report, ReportState, ReportStatus, Run, StartTerms
from meterline.window import rfc3339

_SUMMARY: Final = (
    "Why the receiver delays deliveries. Absent while it is not down and none is retried: what is"
    " pending then waits for its turn."
)
LastRunShown = TypedDict(  # a class cannot have a member called `from`
    "LastRunShown",
    {
        "id": RunId,
        "from": InstantShown,
        "to": InstantShown,
        "state": RunStateName,
        "reason": NotRequired[Maybe[str]],
        "decided_at": NotRequired[Maybe[InstantShown]],
        "ended_at": NotRequired[Maybe[InstantShown]],
    },
)
LastRunShown.__doc__ = "The run of the newest window whose run is not still to be made."


class LastErrorShown(TypedDict):
    """The newest attempt that did not arrive."""

    delivery_id: DeliveryId
    at: InstantShown
    outcome: OutcomeName
    status: NotRequired[Annotated[Maybe[int], Field(description="Of the answer.")]]
    reason: Annotated[str, Field(description="In words.")]


NextRunShown = TypedDict(
    "NextRunShown",
    {
        "from": InstantShown,
        "to": InstantShown,
        "starts_at": Annotated[
            InstantShown,
            Field(
                description="The end of the window, plus the grace, plus up to `start_spread_ms`. "
                "The run then waits until all events that were sent by this time are counted."
            ),
        ],
    },
)
NextRunShown.__doc__ = "The next scheduled run."


class ReceiverShown(TypedDict):
    """How the receiver fares."""

    state: Annotated[
        Literal["well", "down", "failing", "untried"],
        Field(
            description="`well`: it accepts deliveries. `down`: one delivery at a time tests it, "
            "the others wait. `failing`: it responds, but accepted nothing for a day, or never. "
            "`untried`: nothing was sent yet."
        ),
    ]
    since: NotRequired[
        Annotated[Maybe[InstantShown], Field(description="Time of the first failure.")]
    ]
    next_probe_at: NotRequired[
        Annotated[
            Maybe[InstantShown], Field(description="While it is down: when it is tested next.")
        ]
    ]
    retrying_deliveries: Annotated[
        int,
        Field(description="Deliveries that failed and are retried. 10,000 means 10,000 or more."),
    ]
    summary: NotRequired[Annotated[Maybe[str], Field(description=_SUMMARY)]]


def receiver_shown(outstanding: Outstanding) -> ReceiverShown:
    """How the receiver fares; what there is not is left out."""
    health, fails = outstanding.health, (Standing.DOWN, Standing.FAILING)
    since_ms = health.failing_since_ms if outstanding.standing in fails else None
    shown: ReceiverShown = {
        "state": outstanding.standing.value,
        "since": instant(since_ms or None),
        "next_probe_at": instant(health.probe_at_ms),
        "retrying_deliveries": outstanding.retrying,
        "summary": outstanding.message() or None,
    }
    return present(shown)


class ReportStatusShown(TypedDict):
    """Where a report stands."""

    last_run: NotRequired[Maybe[LastRunShown]]
    last_error: NotRequired[Maybe[LastErrorShown]]
    next_run: NotRequired[
        Annotated[Maybe[NextRunShown], Field(description="Absent while it is paused.")]
    ]
    owed_deliveries: Annotated[
        int, Field(description="Deliveries that have not arrived and are not given up.")
    ]
    owed_since: NotRequired[
        Annotated[Maybe[InstantShown], Field(description="When the oldest of them was created.")]
    ]
    owed_seconds: NotRequired[
        Annotated[Maybe[int], Field(description="Age of the oldest, in seconds.")]
    ]
    receiver: ReceiverShown


def status_shown(
    report: Report, status: ReportStatus, start: StartTerms, now_ms: int
) -> ReportStatusShown:
    """The status; what there is not is left out."""
    last, error, since_ms = status.last_run, status.last_error, status.owed_since_ms
    paused = report.state is ReportState.PAUSED
    shown: ReportStatusShown = {
        "last_run": None if last is None else _run_shown(last),
        "last_error": None if error is None else _error_shown(error),
        "next_run": None if paused else _next_shown(report, status, start),
        "owed_deliveries": status.owed,
        "owed_since": instant(since_ms),
        "owed_seconds": None if since_ms is None else max(0, now_ms - since_ms) // 1_000,
        "receiver": receiver_shown(status.outstanding),
    }
    return present(shown)


def _next_shown(report: Report, status: ReportStatus, start: StartTerms) -> NextRunShown:
    from_ms, to_ms = status.next_window
    starts_at_ms = start.starts_at_ms(report, from_ms, to_ms)
    return {"from": rfc3339(from_ms), "to": rfc3339(to_ms), "starts_at": rfc3339(starts_at_ms)}


def _run_shown(run: Run) -> LastRunShown:
    shown: LastRunShown = {
        "id": run.id,
        "from": rfc3339(run.from_ms),
        "to": rfc3339(run.to_ms),
        "state": run.state.value,
        "reason": run.reason or None,
        "decided_at": instant(run.decided_at_ms),
        "ended_at": instant(run.ended_at_ms),
    }
    return present(shown)


def _error_shown(error: LastError) -> LastErrorShown:
    shown: LastErrorShown = {
        "delivery_id": error.delivery_id,
        "at": rfc3339(error.at_ms),
        "outcome": error.outcome.value,
        "status": error.status,
        "reason": error.reason,
    }
    return present(shown)


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
        "reason": "the receiver answered 503; expected 2xx",
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
        "summary": "1 delivery is retried without delaying others (the receiver answered 500; "
        "expected 2xx). The receiver accepts other deliveries.",
    },
}
