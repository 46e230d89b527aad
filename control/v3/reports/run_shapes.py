"""What of a run and of a delivery is sent and shown in v3."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from control.shapes.optional_members import Maybe, instant, present
from control.shapes.pages import page_shape
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
from meterline.delivery import Attempt, Delivery
from meterline.http.shapes import Closed, DecimalShown, Instant, InstantShown, Ulid
from meterline.number import text
from meterline.report import Manifest, Run
from meterline.window import rfc3339


class RunBody(Closed):
    """A run by hand, of any window that is over."""

    from_: Annotated[Instant, Field(alias="from", description="Start of the window.")]
    to: Annotated[Instant, Field(description="End of the window, not in it.")]
    revise: Annotated[
        bool,
        Field(
            description="If the window was already run, create a revision. It delivers the "
            "subjects whose figures differ from what was delivered. So it also sends corrections "
            "that were only recorded."
        ),
    ] = False


class ManifestShown(TypedDict):
    """The figures of a run whose bodies are final. They never change."""

    deliveries: Annotated[int, Field(description="One for each subject.")]
    entries: Annotated[int, Field(description="Usage entries of all deliveries.")]
    filtered_out: Annotated[int, Field(description="Entries that did not pass the filter.")]
    total: Annotated[DecimalShown, Field(description="Sum of the values that are delivered.")]
    total_filtered_out: DecimalShown
    complete_until: Annotated[
        InstantShown, Field(description="Everything recorded up to this instant is included.")
    ]
    digest: Annotated[
        str, Field(description="blake2b-256 over ids and digests of the deliveries, in order.")
    ]
    sequence_first: NotRequired[
        Annotated[
            Maybe[int], Field(description="Deliveries of a report are numbered without gaps.")
        ]
    ]
    sequence_last: NotRequired[Maybe[int]]


RunShown = TypedDict(  # a class cannot have a member called `from`
    "RunShown",
    {
        "id": RunId,
        "report_id": Ulid,
        "from": Annotated[InstantShown, Field(description="Start of the window.")],
        "to": Annotated[InstantShown, Field(description="End of the window, not in it.")],
        "revision": Annotated[int, Field(description="From 1; of the same window.")],
        "supersedes": NotRequired[
            Annotated[Maybe[RunId], Field(description="The run of the revision before.")]
        ],
        "trigger": Annotated[
            Literal["schedule", "manual", "late"],
            Field(description="`late`: events came for its window after it was decided."),
        ],
        "state": Annotated[
            RunStateName,
            Field(
                description="Its window is over (`scheduled`), it waits until everything counts, "
                "its bodies are written, they are sent; all, some or none arrived; or it was not "
                "made. A replay opens it once more. A revision for late usage is only `recorded` "
                "where its report does not ask for it to be sent."
            ),
        ],
        "reason": NotRequired[
            Annotated[Maybe[str], Field(description="Why it failed or was skipped.")]
        ],
        "asked_at": Annotated[InstantShown, Field(description="When it was found due or asked.")],
        "decided_at": NotRequired[
            Annotated[Maybe[InstantShown], Field(description="From then on it never changes.")]
        ],
        "ended_at": NotRequired[Maybe[InstantShown]],
        "meter_revision": NotRequired[Maybe[int]],
        "delivered": Annotated[int, Field(description="Deliveries that arrived.")],
        "failed": Annotated[int, Field(description="Deliveries that failed or were cancelled.")],
        "manifest": NotRequired[Maybe[ManifestShown]],
        "corrections": NotRequired[
            Annotated[
                Maybe[int],
                Field(description="Of a revision: entries that differ from what was delivered."),
            ]
        ],
    },
)


RunShown.__doc__ = "One firing of a report, for one window."


RUN_PAGE: Final = page_shape("RunPageShown", RunShown, "A page of runs, the newest window first.")


class DeliveryReportShown(TypedDict):
    """The report of a delivery."""

    id: Ulid
    slug: str


class AttemptShown(TypedDict):
    """One POST of a delivery."""

    number: Annotated[int, Field(description="From 1; replays go on counting.")]
    started_at: InstantShown
    duration_ms: int
    outcome: Annotated[
        OutcomeName,
        Field(
            description="Under way; a 2xx; another answer; none; an address that may not be "
            "dialled; or not known, for the dispatcher died."
        ),
    ]
    url: NotRequired[
        Annotated[Maybe[str], Field(description="Where it went, without user information.")]
    ]
    status: NotRequired[Annotated[Maybe[int], Field(description="Of the answer.")]]
    reason: NotRequired[Annotated[Maybe[str], Field(description="In words.")]]
    answer: NotRequired[Annotated[Maybe[str], Field(description="The first kilobyte of its body.")]]
    next_attempt_at: NotRequired[Maybe[InstantShown]]


DeliveryShown = TypedDict(
    "DeliveryShown",
    {
        "id": Annotated[DeliveryId, Field(description="The same in `svix-id` of every attempt.")],
        "report": DeliveryReportShown,
        "run_id": RunId,
        "from": Annotated[InstantShown, Field(description="Start of the window.")],
        "to": Annotated[InstantShown, Field(description="End of the window, not in it.")],
        "subject": str,
        "number": Annotated[int, Field(description="From 1, among those of its run.")],
        "sequence": Annotated[int, Field(description="From 1, among those of its report.")],
        "revision": int,
        "supersedes": NotRequired[
            Annotated[Maybe[DeliveryId], Field(description="The one whose figures it replaces.")]
        ],
        "state": DeliveryStateName,
        "attempt_count": Annotated[int, Field(description="All attempts, before replays too.")],
        "digest": Annotated[
            Digest, Field(description="blake2b-256 of the body; without one, of `failure`.")
        ],
        "failure": NotRequired[
            Annotated[
                Maybe[str],
                Field(
                    description="Why it could not be made, in words, with what to do: it has no "
                    "body and is never sent."
                ),
            ]
        ],
        "created_at": InstantShown,
        "next_attempt_at": NotRequired[Maybe[InstantShown]],
        "ended_at": NotRequired[Maybe[InstantShown]],
        "replayed_at": NotRequired[
            Annotated[
                Maybe[InstantShown], Field(description="When it was last asked to be sent again.")
            ]
        ],
    },
)


DeliveryShown.__doc__ = "One subject of one run, sent as one message."


class DeliveryWithAttemptsShown(DeliveryShown):
    """One subject of one run, with every attempt."""

    attempts: list[AttemptShown]


DELIVERY_PAGE: Final = page_shape(
    "DeliveryPageShown",
    DeliveryShown,
    "A page of deliveries: those of the run decided last first, and of a run by number.",
)


def run_shown(run: Run) -> RunShown:
    """The run as v3 shows it; what it does not have is left out."""
    manifest = run.manifest
    shown: RunShown = {
        "id": run.id,
        "report_id": run.report_id,
        "from": rfc3339(run.from_ms),
        "to": rfc3339(run.to_ms),
        "revision": run.revision,
        "supersedes": run.supersedes,
        "trigger": run.trigger.value,
        "state": run.state.value,
        "reason": run.reason or None,
        "asked_at": rfc3339(run.asked_at_ms),
        "decided_at": instant(run.decided_at_ms),
        "ended_at": instant(run.ended_at_ms),
        "meter_revision": run.meter_revision,
        "delivered": run.delivered,
        "failed": run.failed,
        "manifest": None if manifest is None else _manifest_shown(manifest),
        "corrections": corrections_of(run),
    }
    return present(shown)


def _manifest_shown(manifest: Manifest) -> ManifestShown:
    first, last = sequence_of(manifest)
    shown: ManifestShown = {
        "deliveries": manifest.deliveries,
        "entries": manifest.entries,
        "filtered_out": manifest.filtered_out,
        "total": text(manifest.total),
        "total_filtered_out": text(manifest.total_filtered_out),
        "complete_until": rfc3339(manifest.complete_until_ms),
        "digest": manifest.digest,
        "sequence_first": first,
        "sequence_last": last,
    }
    return present(shown)


def delivery_shown(delivery: Delivery) -> DeliveryShown:
    """The delivery as v3 shows it; what it does not have is left out."""
    shown: DeliveryShown = {
        "id": delivery.id,
        "report": {"id": delivery.report_id, "slug": delivery.report_slug},
        "run_id": delivery.run_id,
        "from": rfc3339(delivery.from_ms),
        "to": rfc3339(delivery.to_ms),
        "subject": delivery.subject,
        "number": delivery.number,
        "sequence": delivery.sequence,
        "revision": delivery.revision,
        "supersedes": delivery.supersedes,
        "state": delivery.state.value,
        "attempt_count": delivery.attempts,
        "digest": delivery.digest.hex(),
        "failure": delivery.failure,
        "created_at": rfc3339(delivery.created_at_ms),
        "next_attempt_at": instant(delivery.next_attempt_at_ms),
        "ended_at": instant(delivery.ended_at_ms),
        "replayed_at": instant(delivery.replayed_at_ms),
    }
    return present(shown)


def with_attempts(delivery: Delivery, attempts: Sequence[Attempt]) -> DeliveryWithAttemptsShown:
    """The delivery with its attempts."""
    return {**delivery_shown(delivery), "attempts": [_attempt_shown(it) for it in attempts]}


def _attempt_shown(attempt: Attempt) -> AttemptShown:
    shown: AttemptShown = {
        "number": attempt.number,
        "started_at": rfc3339(attempt.started_at_ms),
        "duration_ms": attempt.duration_ms,
        "outcome": attempt.outcome.value,
        "url": attempt.endpoint or None,
        "status": attempt.status,
        "reason": attempt.reason or None,
        "answer": attempt.answer.decode(errors="replace") or None,
        "next_attempt_at": instant(attempt.next_attempt_at_ms),
    }
    return present(shown)


RUN_EXAMPLE: Final[RunShown] = {
    "id": "run_cf6inwlmjqelmmezy2kklvx5tgtoar6l",
    "report_id": "01M7ZMF4YA7D2SQ292V0W9JPT8",
    "from": "2026-01-31T00:00:00Z",
    "to": "2026-02-01T00:00:00Z",
    "revision": 1,
    "trigger": "schedule",
    "state": "succeeded",
    "asked_at": "2026-02-01T00:00:00.120Z",
    "decided_at": "2026-02-01T00:01:00.733Z",
    "ended_at": "2026-02-01T00:01:01.204Z",
    "meter_revision": 3,
    "delivered": 2,
    "failed": 0,
    "manifest": {
        "deliveries": 2,
        "entries": 3,
        "filtered_out": 1,
        "total": "512.75",
        "total_filtered_out": "3",
        "complete_until": "2026-02-01T00:01:00.412Z",
        "digest": "6f" * 32,
        "sequence_first": 1,
        "sequence_last": 2,
    },
}
DELIVERY_EXAMPLE: Final[DeliveryShown] = {
    "id": "dlv_wbi3n6gx75sb6wfyj4ccl2bvjfrhrvyh",
    "report": {"id": "01M7ZMF4YA7D2SQ292V0W9JPT8", "slug": "daily-tokens"},
    "run_id": "run_cf6inwlmjqelmmezy2kklvx5tgtoar6l",
    "from": "2026-01-31T00:00:00Z",
    "to": "2026-02-01T00:00:00Z",
    "subject": "customer-1",
    "number": 1,
    "sequence": 1,
    "revision": 1,
    "state": "delivered",
    "attempt_count": 1,
    "digest": "9d" * 32,
    "created_at": "2026-02-01T00:01:00.733Z",
    "ended_at": "2026-02-01T00:01:01.204Z",
}
ATTEMPTS_EXAMPLE: Final[DeliveryWithAttemptsShown] = {
    **DELIVERY_EXAMPLE,
    "attempts": [
        {
            "number": 1,
            "started_at": "2026-02-01T00:01:01.102Z",
            "duration_ms": 85,
            "outcome": "delivered",
            "status": 200,
            "answer": "{}",
        }
    ],
}
