"""By which meters freshness is told: newer ones are waited for after a while, and never before."""

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from meterline.limits import NEWER_METERS_WITHIN_MS
from meterline.runtime.wiring.freshness import WaitedFor

LOOK_MS = 10_000
REVISIONS = st.integers(0, 12)
LOOKS = st.lists(st.tuples(REVISIONS, st.integers(1, NEWER_METERS_WITHIN_MS)), min_size=1)


def test_a_newer_meter_is_waited_for_when_workers_had_time_to_take_it_on() -> None:
    waits = WaitedFor()
    assert waits.revision(3, 0) == 0  # a process that has just begun
    assert waits.revision(3, NEWER_METERS_WITHIN_MS) == 3
    new_ms = NEWER_METERS_WITHIN_MS + LOOK_MS
    assert waits.revision(4, new_ms) == 3
    assert waits.revision(4, new_ms + NEWER_METERS_WITHIN_MS - 1) == 3
    assert waits.revision(4, new_ms + NEWER_METERS_WITHIN_MS) == 4


def test_a_meter_each_minute_hides_none_that_workers_never_take_on() -> None:
    waits = WaitedFor()
    for look in range(200):
        waits.revision(1 + look * LOOK_MS // 60_000, look * LOOK_MS)
    late = NEWER_METERS_WITHIN_MS // 60_000
    assert waits.revision(34, 200 * LOOK_MS) in range(34 - late - 1, 34 - late + 1)


def test_what_was_deleted_is_waited_for_no_longer() -> None:
    waits = WaitedFor()
    waits.revision(3, 0)
    assert waits.revision(3, NEWER_METERS_WITHIN_MS) == 3
    waits.revision(4, NEWER_METERS_WITHIN_MS)
    assert waits.revision(2, NEWER_METERS_WITHIN_MS + LOOK_MS) == 2  # it was there before 3
    assert waits.revision(0, NEWER_METERS_WITHIN_MS + 2 * LOOK_MS) == 0


@given(LOOKS)
def test_it_was_there_long_enough_and_none_that_was_is_left_out(
    looks: list[tuple[int, int]],
) -> None:
    waits = WaitedFor()
    at_ms = list(accumulate(pause_ms for _, pause_ms in looks))
    for number, ((in_force, _), now_ms) in enumerate(zip(looks, at_ms, strict=True)):
        seen = zip(looks[: number + 1], at_ms, strict=False)
        old = [it for (it, _), since_ms in seen if now_ms - since_ms >= NEWER_METERS_WITHIN_MS]
        assert waits.revision(in_force, now_ms) == min(in_force, max(old, default=0))
