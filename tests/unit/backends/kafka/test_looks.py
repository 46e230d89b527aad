"""Whether a leader was asked soon before it took a record in, by two clocks."""

from hypothesis import given
from hypothesis import strategies as st

from meterline.backends.kafka.looks import Looks

LEADER, PARTITION = 1, 0


def looked(append_ms: int | None = 5_000, at_s: float = 100.0) -> Looks:
    """A record came, then the leader was asked."""
    looks = Looks(1.0)
    looks.appended(PARTITION, append_ms)
    looks.ended(LEADER, looks.begun(at_s))
    return looks


def test_soon_after_the_leader_was_asked_it_need_not_be_asked_again() -> None:
    assert looked().holds(LEADER, PARTITION, 5_900, 100.9)


def test_it_must_where_its_clock_went_on_while_this_machine_was_suspended() -> None:
    assert not looked().holds(LEADER, PARTITION, 6_001, 100.0)


def test_it_must_where_its_clock_stepped_back_and_this_one_went_on() -> None:
    assert not looked().holds(LEADER, PARTITION, 5_001, 101.1)


def test_it_must_where_its_clock_stepped_back_further_than_a_look_holds() -> None:
    assert not looked().holds(LEADER, PARTITION, 3_999, 100.0)


def test_what_another_leader_or_partition_was_asked_of_says_nothing() -> None:
    looks = looked()
    assert not looks.holds(2, PARTITION, 5_000, 100.0)
    assert not looks.holds(LEADER, 1, 5_000, 100.0)


def test_a_leader_that_does_not_say_when_is_asked_each_time() -> None:
    assert not looked(None).holds(LEADER, PARTITION, None, 100.0)
    assert not looked().holds(LEADER, PARTITION, None, 100.0)


def test_what_came_while_it_was_asked_came_later() -> None:
    looks = looked(1_000)
    look = looks.begun(100.5)
    looks.appended(PARTITION, 2_500)
    looks.ended(LEADER, look)
    assert not looks.holds(LEADER, PARTITION, 2_500, 100.6)


def test_before_an_append_any_broker_will_do() -> None:
    looks = looked()
    assert looks.is_recent(101.0)
    assert not looks.is_recent(101.1)
    assert not Looks(1.0).is_recent(0.0)


STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 900), st.integers(-900, 900)), max_size=30)


@given(STEPS, st.booleans())
def test_with_either_clock_right_success_is_told_soon_after_a_look_only(
    steps: list[tuple[bool, int, int]], mine_is_right: bool
) -> None:
    looks, at_ms, wrong_ms, asked_ms = Looks(1.0), 0, 0, -10_000
    for asks, right, wrong in steps:
        at_ms, wrong_ms = at_ms + right, wrong_ms + wrong
        mine_ms, theirs_ms = (at_ms, wrong_ms) if mine_is_right else (wrong_ms, at_ms)
        if asks:
            asked_ms = at_ms
            looks.ended(LEADER, looks.begun(mine_ms / 1_000))
        looks.appended(PARTITION, theirs_ms)
        if looks.holds(LEADER, PARTITION, theirs_ms, mine_ms / 1_000):
            assert at_ms - asked_ms <= 1_000
