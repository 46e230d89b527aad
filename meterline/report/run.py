"""Runs: one firing of a report for one window, its states, and what it says when it is decided.

Ids are functions of what they name, so a run that is made twice, or restored from a backup, has
the same ids, and receivers can deduplicate for ever (docs/architecture.md, "The dispatcher"). They
hold no dot: the signature is made over `id.timestamp.body` (Standard Webhooks).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from meterline.delivery import content_id


class Trigger(StrEnum):
    """Why a run exists."""

    SCHEDULE = "schedule"
    MANUAL = "manual"
    LATE = "late"  # events came for its window after it was decided


class RunState(StrEnum):
    """Where a run stands."""

    SCHEDULED = "scheduled"  # its window is over, nobody has looked yet
    WAITING = "waiting"  # until everything sent for its window counts
    MATERIALIZING = "materializing"  # one dispatcher holds its lease
    DELIVERING = "delivering"  # decided: its deliveries will never change
    SUCCEEDED = "succeeded"
    PARTLY_FAILED = "partly_failed"
    FAILED = "failed"
    SKIPPED = "skipped"
    RECORDED = "recorded"  # a revision that is kept and not sent


@dataclass(frozen=True, slots=True)
class RunQuery:
    """Which runs of a report are asked for: all conditions hold at once; None or empty asks for
    nothing. `from_min_ms` and `to_max_ms` bound their windows: those within are meant.
    """

    states: tuple[RunState, ...] = ()
    triggers: tuple[Trigger, ...] = ()
    from_min_ms: int | None = None
    to_max_ms: int | None = None


EVERY_RUN: Final = RunQuery()


class RunMove(StrEnum):
    """What moves a run."""

    WAIT = "wait"
    CLAIM = "claim"
    RELEASE = "release"
    DECIDE = "decide"
    DECIDE_EMPTY = "decide_empty"  # no entry passed: nothing to deliver
    RECORD = "record"  # a revision whose corrections its report does not ask to be sent
    UNCHANGED = "unchanged"  # a revision that would say the same again
    REFUSE = "refuse"  # its usage cannot be asked for
    CANCEL = "cancel"  # its report was deleted, or resumed without it
    ALL_DELIVERED = "all_delivered"
    SOME_DELIVERED = "some_delivered"
    NONE_DELIVERED = "none_delivered"
    REVIVE = "revive"  # asked for by hand after all
    REOPEN = "reopen"  # one of its deliveries is sent again


RUN_MOVES: Final[Mapping[tuple[RunState, RunMove], RunState]] = {
    (RunState.SCHEDULED, RunMove.WAIT): RunState.WAITING,
    (RunState.SCHEDULED, RunMove.CLAIM): RunState.MATERIALIZING,
    (RunState.WAITING, RunMove.CLAIM): RunState.MATERIALIZING,
    (RunState.MATERIALIZING, RunMove.CLAIM): RunState.MATERIALIZING,  # once the lease ran out
    (RunState.MATERIALIZING, RunMove.RELEASE): RunState.WAITING,
    (RunState.MATERIALIZING, RunMove.DECIDE): RunState.DELIVERING,
    (RunState.MATERIALIZING, RunMove.DECIDE_EMPTY): RunState.SUCCEEDED,
    (RunState.MATERIALIZING, RunMove.RECORD): RunState.RECORDED,
    (RunState.MATERIALIZING, RunMove.UNCHANGED): RunState.SKIPPED,
    (RunState.MATERIALIZING, RunMove.REFUSE): RunState.FAILED,
    (RunState.SCHEDULED, RunMove.CANCEL): RunState.SKIPPED,
    (RunState.WAITING, RunMove.CANCEL): RunState.SKIPPED,
    (RunState.MATERIALIZING, RunMove.CANCEL): RunState.SKIPPED,
    (RunState.DELIVERING, RunMove.ALL_DELIVERED): RunState.SUCCEEDED,
    (RunState.DELIVERING, RunMove.SOME_DELIVERED): RunState.PARTLY_FAILED,
    (RunState.DELIVERING, RunMove.NONE_DELIVERED): RunState.FAILED,
    # A dispatcher that was thought dead may report a success after the run was closed.
    (RunState.FAILED, RunMove.SOME_DELIVERED): RunState.PARTLY_FAILED,
    (RunState.FAILED, RunMove.ALL_DELIVERED): RunState.SUCCEEDED,
    (RunState.PARTLY_FAILED, RunMove.SOME_DELIVERED): RunState.PARTLY_FAILED,
    (RunState.PARTLY_FAILED, RunMove.ALL_DELIVERED): RunState.SUCCEEDED,
    (RunState.SKIPPED, RunMove.REVIVE): RunState.WAITING,
    (
        RunState.FAILED,
        RunMove.REVIVE,
    ): RunState.WAITING,  # only one that was refused: it has no deliveries
    # Only those that have deliveries. What comes of the replay decides once more.
    (RunState.SUCCEEDED, RunMove.REOPEN): RunState.DELIVERING,
    (RunState.PARTLY_FAILED, RunMove.REOPEN): RunState.DELIVERING,
    (RunState.FAILED, RunMove.REOPEN): RunState.DELIVERING,
}
UNDECIDED: Final = (RunState.SCHEDULED, RunState.WAITING, RunState.MATERIALIZING)


def run_sources(move: RunMove) -> tuple[RunState, ...]:
    """The states that a move starts from: the condition of a conditional write."""
    return tuple(state for state, by in RUN_MOVES if by is move)


def run_target(move: RunMove) -> RunState:
    """The state that a move leads to: one, wherever it starts."""
    (target,) = {state for (_, by), state in RUN_MOVES.items() if by is move}
    return target


def outcome_of(delivered: int, total: int) -> RunMove:
    """The move of a run none of whose deliveries is open any more."""
    if delivered == total:
        return RunMove.ALL_DELIVERED
    return RunMove.SOME_DELIVERED if delivered else RunMove.NONE_DELIVERED


@dataclass(frozen=True, slots=True)
class LogEnds:
    """How far a log had certainly been counted when usage was asked for: (partition, offset), all
    below which is in the answer. A fact about the log, by no clock.
    """

    log: int
    ends: tuple[tuple[int, int], ...]

    def end(self, log: int, partition: int) -> int:
        """The end in a partition; 0 where nothing is known."""
        return dict(self.ends).get(partition, 0) if log == self.log else 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a decided run says: written once, with the decision.

    `digest` is the blake2b-256, in hex, over the ids and digests of its deliveries in order.
    Totals are sums of entry values as scaled integers. A revision counts its corrections, and has
    the digest over them (`correction.digest_over`). `counted` tells which events came after it.
    """

    deliveries: int  # one per subject
    entries: int
    filtered_out: int  # entries that did not pass the filter
    total: int  # of the entries that are delivered
    total_filtered_out: int
    complete_until_ms: int  # the watermark that the usage was asked at
    digest: str
    sequence_first: int  # 0 where there is no delivery; the last is first + deliveries - 1
    corrections: int = 0
    corrections_digest: str | None = None  # None in a first run
    counted: LogEnds | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One firing of one report for the window [from_ms, to_ms)."""

    id: str
    report_id: str
    namespace: str
    from_ms: int
    to_ms: int
    revision: int  # from 1; a revision of the same window supersedes the ones before
    trigger: Trigger
    asked_at_ms: int  # when it was found due, or asked for
    state: RunState = RunState.SCHEDULED
    reason: str = ""
    supersedes: str | None = None  # id of the run of the revision before
    # of the meter that answered; None until decided, but a late run is told which one to ask
    meter_revision: int | None = None
    decided_at_ms: int | None = None
    ended_at_ms: int | None = None
    delivered: int = 0
    failed: int = 0  # failed and cancelled
    manifest: Manifest | None = None

    def __post_init__(self) -> None:
        if not self.from_ms < self.to_ms:
            message = f"a run's window is not empty: {self.from_ms} to {self.to_ms}"
            raise ValueError(message)


def run_id(report_id: str, from_ms: int, to_ms: int, revision: int) -> str:
    """The id of the run of a report for a window."""
    return content_id("run", report_id, str(from_ms), str(to_ms), str(revision))
