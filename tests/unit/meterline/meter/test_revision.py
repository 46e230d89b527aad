"""Which revision answers when: pieces tile time, whatever switches there were."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.limits import SUPERSEDED_KEPT_MS
from meterline.meter import (
    Aggregation,
    Catalogue,
    Meter,
    MeterRevision,
    RevisionMove,
    RevisionState,
    answering,
    dimensions_ever,
    instant_fault,
    needed,
    pieces,
    revision_at,
    revision_sources,
    revision_target,
    switched,
    timeline,
    unneeded,
)
from meterline.meter.revision import REVISION_MOVES
from meterline.window import MINUTE_MS

SPAN = 20  # minutes that switches and questions lie in


def meter(revision: int, *dimensions: str) -> Meter:
    paths = tuple((name, f"$.{name}") for name in dimensions)
    return Meter("m", revision, "default", "m", "", "", Aggregation.SUM, "t", "$.v", paths, 0, 0)


FIRST_INSTANTS = st.lists(st.none() | st.integers(1, SPAN - 1), max_size=8)
ENDS = st.none() | st.integers(0, SPAN * MINUTE_MS)


def after(instants: list[int | None]) -> Meter:
    """The meter after switches from these minutes on; revisions are numbered from 0."""
    there = meter(0)
    for number, minute in enumerate(instants, start=1):
        from_ms = None if minute is None else minute * MINUTE_MS
        there = switched(there, meter(number), from_ms)
    return there


@given(FIRST_INSTANTS)
def test_each_instant_is_answered_by_the_last_switch_that_took_it(
    instants: list[int | None],
) -> None:
    answers = [0] * SPAN
    for number, minute in enumerate(instants, start=1):
        answers[minute or 0 :] = [number] * (SPAN - (minute or 0))
    there = after(instants)
    for minute, expected in enumerate(answers):
        for at_ms in (minute * MINUTE_MS, (minute + 1) * MINUTE_MS - 1):
            assert revision_at(there, at_ms).revision == expected


@given(FIRST_INSTANTS, ENDS, ENDS)
def test_pieces_tile_time(
    instants: list[int | None], from_ms: int | None, to_ms: int | None
) -> None:
    there = after(instants)
    found = pieces(there, from_ms, to_ms)
    if from_ms is not None and to_ms is not None and from_ms >= to_ms:
        assert found == ()
        return
    assert found[0].from_ms == from_ms
    assert found[-1].to_ms == to_ms
    for piece in found:
        assert piece.from_ms is None or piece.to_ms is None or piece.from_ms < piece.to_ms
    for one, following in pairwise(found):
        assert one.to_ms == following.from_ms
    numbers = [piece.meter.revision for piece in found]
    assert len(set(numbers)) == len(numbers)
    assert answering(there, from_ms, to_ms) == set(numbers)


@given(FIRST_INSTANTS)
def test_a_timeline_is_what_answers_and_its_first_instants_ascend(
    instants: list[int | None],
) -> None:
    there = after(instants)
    parts = timeline(there)
    assert {part.revision for part in parts} == answering(there)
    starts = [part.effective_from_ms for part in parts]
    assert starts[0] is None
    known = [start for start in starts[1:] if start is not None]
    assert len(known) == len(parts) - 1
    assert known == sorted(set(known))
    assert there.state is RevisionState.IN_FORCE
    assert instants == [] or {part.state for part in parts[:-1]} <= {RevisionState.EARLIER}
    assert Catalogue(1, parts).in_force == (there,)


def test_usage_can_be_split_by_what_any_revision_has() -> None:
    old, new = meter(1, "b", "a"), meter(2, "c", "a")
    assert dimensions_ever(switched(old, new, MINUTE_MS)) == ("a", "b", "c")
    assert dimensions_ever(switched(old, new, None)) == ("a", "c")


@pytest.mark.parametrize(
    ("at_ms", "words"),
    [(1, "whole minute"), (0, "between"), (-MINUTE_MS, "between"), (1 << 50, "whole minute")],
)
def test_a_first_instant_is_a_whole_minute_of_our_time(at_ms: int, words: str) -> None:
    assert words in (instant_fault(at_ms) or "")
    assert instant_fault(MINUTE_MS) is None


def test_every_move_leads_to_one_state_and_ends_are_final() -> None:
    for move in RevisionMove:
        assert revision_target(move) in RevisionState
        assert revision_sources(move)
    final = {RevisionState.SUPERSEDED, RevisionState.DISCARDED}
    assert not final & {state for state, _ in REVISION_MOVES}


def revision(number: int, state: RevisionState, **more: int | None) -> MeterRevision:
    return MeterRevision(replace(meter(number), state=state), 0, **more)  # type: ignore[arg-type]


def test_what_answers_or_may_come_to_is_needed() -> None:
    found = [
        revision(1, RevisionState.SUPERSEDED, ended_at_ms=100),
        revision(2, RevisionState.EARLIER),
        revision(3, RevisionState.IN_FORCE, before=2),
        revision(4, RevisionState.PROPOSED),
        revision(5, RevisionState.FILLING),
        revision(6, RevisionState.DISCARDED, ended_at_ms=100),
    ]
    assert needed(found, 100, reported=False) == {2, 3, 4, 5}
    assert needed(found, 100, reported=True) == {1, 2, 3, 4, 5}
    assert needed(found, 100 + SUPERSEDED_KEPT_MS, reported=True) == {2, 3, 4, 5}


def test_what_a_kept_one_falls_back_on_is_kept_with_it() -> None:
    found = [
        revision(1, RevisionState.SUPERSEDED, ended_at_ms=0),
        revision(2, RevisionState.SUPERSEDED, ended_at_ms=SUPERSEDED_KEPT_MS, before=1),
        revision(3, RevisionState.IN_FORCE),
    ]
    now_ms = SUPERSEDED_KEPT_MS + 1
    assert needed(found, now_ms, reported=True) == {1, 2, 3}
    gone = [replace(one, folded=False) if one.number == 2 else one for one in found]
    assert needed(gone, now_ms, reported=True) == {3}


KEPT_MS = 2 * SUPERSEDED_KEPT_MS
STEP_MS = SUPERSEDED_KEPT_MS // 2
HISTORIES = st.lists(
    st.tuples(st.sampled_from(("switch", "propose", "discard")), st.none() | st.integers(1, 19)),
    max_size=10,
)


def history(
    steps: list[tuple[str, int | None]], *, reported: bool
) -> tuple[Meter, dict[int, MeterRevision], int]:
    """The meter in force, all of its revisions, and now, after steps that take time each: what
    nobody needs leaves the catalogue at each of them.
    """
    there, now_ms = meter(0), 0
    known = {0: MeterRevision(there, 0)}
    for number, (step, minute) in enumerate(steps, start=1):
        now_ms += STEP_MS
        one = replace(meter(number), state=RevisionState.PROPOSED)
        if step == "switch":
            from_ms = None if minute is None else minute * MINUTE_MS
            there, before = switched(there, one, from_ms), there
            left = {it.revision for it in timeline(before)} - {
                it.revision for it in timeline(there)
            }
            known |= {it: _moved(known[it], RevisionState.SUPERSEDED, now_ms) for it in left}
            earlier = {it.revision for it in timeline(there)} - {number}
            known |= {it: _moved(known[it], RevisionState.EARLIER) for it in earlier}
            first = None if there.before is None else there.before.revision
            force = replace(one, state=RevisionState.IN_FORCE)
            known[number] = MeterRevision(force, now_ms, from_ms, first)
        elif step == "propose":
            known[number] = MeterRevision(one, now_ms)
        else:
            gone = replace(one, state=RevisionState.DISCARDED)
            known[number] = MeterRevision(gone, 0, ended_at_ms=now_ms, folded=False)
        kept = needed(known.values(), now_ms, reported=reported)
        known = {it: replace(one, folded=one.folded and it in kept) for it, one in known.items()}
    return there, known, now_ms


def _moved(one: MeterRevision, state: RevisionState, ended_ms: int | None = None) -> MeterRevision:
    return replace(one, meter=replace(one.meter, state=state), ended_at_ms=ended_ms)


@given(HISTORIES, st.booleans(), st.integers(0, 12))
def test_nothing_asks_for_what_is_unneeded(
    steps: list[tuple[str, int | None]],
    reported: bool,
    later: int,
) -> None:
    there, known, now_ms = history(steps, reported=reported)
    now_ms += later * STEP_MS
    gone = unneeded(known.values(), now_ms, KEPT_MS)
    assert not gone & {it.revision for it in timeline(there)}, "it answers"
    for told in (False, True):
        assert not gone & needed(known.values(), now_ms, reported=told), "events are counted in it"
    for number, one in known.items():
        if number in gone:
            assert one.state in (RevisionState.SUPERSEDED, RevisionState.DISCARDED)
            assert now_ms - (one.ended_at_ms or 0) >= KEPT_MS
        elif one.before is not None:
            assert one.before not in gone, "one that is kept falls back on it"


@given(HISTORIES, st.booleans(), st.integers(0, 12), st.integers(1, 12))
def test_what_is_unneeded_stays_so_and_what_ended_comes_to_be(
    steps: list[tuple[str, int | None]],
    reported: bool,
    later: int,
    more: int,
) -> None:
    _, known, now_ms = history(steps, reported=reported)
    at_ms = now_ms + later * STEP_MS
    gone = unneeded(known.values(), at_ms, KEPT_MS)
    longer, longer_known, _ = history([*steps, ("switch", more)], reported=reported)
    assert gone <= unneeded(longer_known.values(), at_ms + STEP_MS, KEPT_MS)
    assert longer.revision not in gone
    end_ms = now_ms + KEPT_MS
    left = {it: replace(one, folded=False) for it, one in known.items()}
    ended = {it for it, one in known.items() if one.ended_at_ms is not None}
    assert unneeded(left.values(), end_ms, KEPT_MS) == ended
    assert unneeded(known.values(), end_ms, KEPT_MS, deleted=True) == ended


def test_a_revision_that_events_are_folded_for_is_kept() -> None:
    over = MeterRevision(
        replace(meter(1), state=RevisionState.SUPERSEDED), 0, ended_at_ms=0, folded=True
    )
    assert unneeded([over], KEPT_MS, KEPT_MS) == set()
    assert unneeded([replace(over, folded=False)], KEPT_MS, KEPT_MS) == {1}
    assert unneeded([replace(over, folded=False)], KEPT_MS - 1, KEPT_MS) == set()
