"""Replays of many deliveries: which ones, how fast, how far they are.

A replay walks over the deliveries that it is asked for, by their places in lists, and has each sent
again as a replay of one does. Its place is kept, so it goes on where it was after any crash.
"""

from dataclasses import dataclass
from enum import StrEnum

from meterline.delivery.delivery import DeliveryMove, DeliveryState, delivery_sources
from meterline.delivery.listing import DeliveryPlace, DeliveryQuery
from meterline.limits import REPLAY_STEP_MAX, REPLAY_STEPS_A_SECOND
from meterline.window import rfc3339


class ReplayState(StrEnum):
    """Where a replay stands."""

    RUNNING = "running"
    DONE = "done"  # it came to its end; what it had sent again may still be on its way
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Replay:
    """A replay of the deliveries of a namespace that `query` asks for.

    `counted` asked for when it began; each of them that is still asked for when its turn comes is
    `replayed`, or is `in_flight` (on its way already, so left alone), or is `refused`.
    """

    id: str
    namespace: str
    query: DeliveryQuery
    per_second: int
    created_at_ms: int
    state: ReplayState = ReplayState.RUNNING
    counted: int = 0
    replayed: int = 0
    in_flight: int = 0
    refused: int = 0
    ended_at_ms: int | None = None
    due_at_ms: int | None = None  # its next step; None once it ended
    after: DeliveryPlace | None = None  # the last delivery that it came to


def portion(per_second: int) -> int:
    """How many deliveries a step takes at a pace."""
    return max(1, min(REPLAY_STEP_MAX, per_second // REPLAY_STEPS_A_SECOND))


def due_after(per_second: int, taken: int, now_ms: int) -> int:
    """When the step after one that took so many is due: never faster than the pace."""
    return now_ms + -(-1_000 * taken // per_second)


def replayable(query: DeliveryQuery) -> frozenset[DeliveryState]:
    """The states from which a replay has a delivery sent again; others are left alone."""
    if query.failed_since_ms is not None:
        return frozenset({DeliveryState.FAILED})  # one may have arrived after all, late
    return frozenset(delivery_sources(DeliveryMove.REPLAY))


def summary_of(query: DeliveryQuery) -> str:
    """What a replay was asked for, in a few words."""
    parts = []
    if query.report_id is not None:
        parts.append(f"report {query.report_id}")
    if query.run_id is not None:
        parts.append(f"run {query.run_id}")
    if query.subject is not None:
        parts.append(f"subject {query.subject}")
    if query.from_min_ms is not None:
        parts.append(f"from {rfc3339(query.from_min_ms)}")
    if query.to_max_ms is not None:
        parts.append(f"to {rfc3339(query.to_max_ms)}")
    if query.failed_since_ms is not None:
        parts.append(f"failed since {rfc3339(query.failed_since_ms)}")
    return ", ".join(parts)
