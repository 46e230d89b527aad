"""Revisions of meters (docs/architecture.md, "Meters that change"): how one follows another, and
which answers when.

A meter's timeline is its revision in force and, before the first instant of that, those of before:
together they answer every instant, each exactly one part of time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from meterline.limits import EVENT_TIME_MAX_MS, EVENT_TIME_MIN_MS, SUPERSEDED_KEPT_MS
from meterline.meter.meter import Meter, RevisionState
from meterline.window import MINUTE_MS


class RevisionMove(StrEnum):
    """What moves a revision."""

    REQUEST = "request"  # for the switch of a proposed one
    SWITCH = "switch"
    PRECEDE = "precede"  # a later one takes over from its first instant on
    SUPERSEDE = "supersede"  # another answers everything that it answered
    DISCARD = "discard"


REVISION_MOVES: Final[Mapping[tuple[RevisionState, RevisionMove], RevisionState]] = {
    (RevisionState.PROPOSED, RevisionMove.REQUEST): RevisionState.FILLING,
    (RevisionState.FILLING, RevisionMove.REQUEST): RevisionState.FILLING,  # from another instant on
    (RevisionState.FILLING, RevisionMove.SWITCH): RevisionState.IN_FORCE,
    (RevisionState.IN_FORCE, RevisionMove.PRECEDE): RevisionState.EARLIER,
    (RevisionState.EARLIER, RevisionMove.PRECEDE): RevisionState.EARLIER,
    (RevisionState.IN_FORCE, RevisionMove.SUPERSEDE): RevisionState.SUPERSEDED,
    (RevisionState.EARLIER, RevisionMove.SUPERSEDE): RevisionState.SUPERSEDED,
    (RevisionState.PROPOSED, RevisionMove.DISCARD): RevisionState.DISCARDED,
    (RevisionState.FILLING, RevisionMove.DISCARD): RevisionState.DISCARDED,
}
PENDING: Final = (RevisionState.PROPOSED, RevisionState.FILLING)


def revision_sources(move: RevisionMove) -> tuple[RevisionState, ...]:
    """The states that a move starts from: the condition of a conditional write."""
    return tuple(state for state, by in REVISION_MOVES if by is move)


def revision_target(move: RevisionMove) -> RevisionState:
    """The state that a move leads to: one, wherever it starts."""
    (target,) = {state for (_, by), state in REVISION_MOVES.items() if by is move}
    return target


@dataclass(frozen=True, slots=True)
class MeterRevision:
    """A revision and its history.

    `meter` is its definition alone, for all times; its `revision` is the number. `before` names the
    revision that answers what is earlier than `effective_from_ms`, its first instant (until it is
    switched, the one asked for). `ended_at_ms`: it was superseded or discarded then. `folded`:
    events are counted in it. `not_kept_since_ms`: its rows may be gone since then.
    """

    meter: Meter
    made_at_ms: int
    effective_from_ms: int | None = None
    before: int | None = None
    switched_at_ms: int | None = None
    ended_at_ms: int | None = None
    not_kept_since_ms: int | None = None
    folded: bool = True

    @property
    def number(self) -> int:
        """What names it, over all meters."""
        return self.meter.revision

    @property
    def state(self) -> RevisionState:
        """Where it stands."""
        return self.meter.state


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of time, [from_ms, to_ms) with None for an open end, and the revision that answers it:
    that alone, without its `before`s.
    """

    meter: Meter
    from_ms: int | None
    to_ms: int | None


def timeline(meter: Meter) -> tuple[Meter, ...]:
    """A revision and those of before it, the earliest first."""
    found = [meter]
    while (before := found[-1].before) is not None:
        found.append(before)
    return tuple(reversed(found))


def pieces(meter: Meter, from_ms: int | None = None, to_ms: int | None = None) -> tuple[Piece, ...]:
    """Which revisions answer [from_ms, to_ms), the earliest first; together exactly that. Nothing
    where it is empty.
    """
    found = []
    end_ms = to_ms
    for part in reversed(timeline(meter)):
        starts = [ms for ms in (from_ms, part.effective_from_ms) if ms is not None]
        start_ms = max(starts, default=None)
        if start_ms is None or end_ms is None or start_ms < end_ms:
            found.append(Piece(part, start_ms, end_ms))
        if part.effective_from_ms is not None:
            known = [ms for ms in (end_ms, part.effective_from_ms) if ms is not None]
            end_ms = min(known)
    return tuple(reversed(found))


def revision_at(meter: Meter, at_ms: int) -> Meter:
    """The revision that answers an instant."""
    (piece,) = pieces(meter, at_ms, at_ms + 1)
    return piece.meter


def answering(meter: Meter, from_ms: int | None = None, to_ms: int | None = None) -> set[int]:
    """The numbers of the revisions that answer [from_ms, to_ms): an answer is as complete as the
    least complete of them.
    """
    return {piece.meter.revision for piece in pieces(meter, from_ms, to_ms)}


def dimensions_ever(meter: Meter) -> tuple[str, ...]:
    """What usage can be split by: the dimensions of any revision that answers, sorted. Where the
    one that answers has not one of them, its value is "".
    """
    return tuple(sorted({name for part in timeline(meter) for name in part.dimension_names}))


def switched(before: Meter, after: Meter, effective_from_ms: int | None) -> Meter:
    """A revision in force in place of another: from an instant on, or for all times.

    What answered from that instant on answers nothing any more, and leaves the timeline.
    """
    earlier: Meter | None = None
    if effective_from_ms is not None:
        earlier = _still_answering(before, effective_from_ms)
    return replace(
        after,
        state=RevisionState.IN_FORCE,
        effective_from_ms=effective_from_ms,
        before=None if earlier is None else replace(earlier, state=RevisionState.EARLIER),
    )


def _still_answering(meter: Meter, until_ms: int) -> Meter:
    """The last of a timeline that answers anything before an instant."""
    while meter.effective_from_ms is not None and meter.effective_from_ms >= until_ms:
        assert meter.before is not None, "a first instant has something before it"
        meter = meter.before
    return meter


def needed(revisions: Iterable[MeterRevision], now_ms: int, *, reported: bool) -> set[int]:
    """The numbers of the revisions of a meter that events must be folded for.

    Those that answer or may come to; and where a report is on the meter (`reported`), superseded
    ones for a while, with those of before them: runs that they answered may be corrected.
    """
    by_number = {one.number: one for one in revisions}
    found: set[int] = set()
    for one in by_number.values():
        at: MeterRevision | None = one
        if not one.folded or not _answers_somebody(one, now_ms, reported=reported):
            at = None
        while at is not None:
            found.add(at.number)
            at = None if at.before is None else by_number[at.before]
    return found


def unneeded(
    revisions: Iterable[MeterRevision], now_ms: int, kept_ms: int, *, deleted: bool = False
) -> set[int]:
    """The numbers of the revisions of a meter that nothing asks for any more: their rows may go.

    They were superseded or discarded at least `kept_ms` ago, no events are folded for them (of a
    `deleted` meter for none), and none of them answers for the time before one that is needed. So
    they answer no query and no report, no run can be corrected by them, and they can neither be
    compared nor switched to. It never shrinks: what is unneeded once stays so.
    """
    by_number = {one.number: one for one in revisions}
    kept: set[int] = set()
    for one in by_number.values():
        at = None if _is_over(one, now_ms, kept_ms, deleted=deleted) else one
        while at is not None:
            kept.add(at.number)
            at = None if at.before is None else by_number[at.before]
    return by_number.keys() - kept


def _is_over(one: MeterRevision, now_ms: int, kept_ms: int, *, deleted: bool) -> bool:
    ended = one.state in (RevisionState.SUPERSEDED, RevisionState.DISCARDED)
    if not ended or one.ended_at_ms is None or (one.folded and not deleted):
        return False
    return now_ms - one.ended_at_ms >= kept_ms


def _answers_somebody(one: MeterRevision, now_ms: int, *, reported: bool) -> bool:
    match one.state:
        case RevisionState.DISCARDED:
            return False
        case RevisionState.SUPERSEDED:
            assert one.ended_at_ms is not None, "it was superseded at an instant"
            return reported and now_ms - one.ended_at_ms < SUPERSEDED_KEPT_MS
        case _:
            return True


def instant_fault(effective_from_ms: int) -> str | None:
    """Why an instant cannot be the first of a revision; None where it can."""
    if effective_from_ms % MINUTE_MS:
        return "must be a whole minute: windows are answered whole"
    if not EVENT_TIME_MIN_MS < effective_from_ms < EVENT_TIME_MAX_MS:
        return "must lie between 1970-01-01T00:00:00Z and 2100-01-01T00:00:00Z"
    return None
