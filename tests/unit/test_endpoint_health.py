"""How an endpoint fares: outages, probes, places that open again, a patience that ends."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from meterline.endpoint_health import Health, HealthTerms, Heard, Sign, after, doubted

NOW = 1_770_000_000_000
TERMS = HealthTerms(
    outages=3, places_max=8, probe_pause_ms=5_000, patience_ms=1_000_000, silence_ms=200_000
)


def heard(
    sign: Sign, at_ms: int, took_ms: int = 10, reason: str = "no", retry_after_ms: int = 0
) -> Heard:
    return Heard("default", "http://x/", sign, at_ms - took_ms, at_ms, reason, retry_after_ms)


def told(health: Health, *signs: tuple[Sign, int]) -> Health:
    for sign, at_ms in signs:
        health = after(health, heard(sign, at_ms), TERMS)
    return health


def out() -> Health:
    return told(Health(), *((Sign.OUT, NOW + 100 * n) for n in range(3)))


def test_three_in_a_row_are_an_outage_and_two_are_not() -> None:
    two = told(Health(), (Sign.OUT, NOW), (Sign.OUT, NOW + 100))
    assert not two.out
    assert two.room(0, 8, NOW) == 8
    assert not told(two, (Sign.TAKEN, NOW + 200), (Sign.OUT, NOW + 300)).out
    assert not told(two, (Sign.ANSWERED, NOW + 200), (Sign.OUT, NOW + 300)).out
    assert out().probe_at_ms == NOW + 200 + TERMS.probe_pause_ms


def test_pauses_between_probes_double_up_to_five_minutes() -> None:
    health, pauses = out(), []
    for _ in range(9):
        assert health.probe_at_ms is not None
        at_ms = health.probe_at_ms + 10
        health = after(health, heard(Sign.OUT, at_ms), TERMS)
        assert health.probe_at_ms is not None
        pauses.append((health.probe_at_ms - at_ms) // 1_000)
    assert pauses == [10, 20, 40, 80, 160, 300, 300, 300, 300]


def test_many_that_fail_together_are_one_blow() -> None:
    health = Health()
    for place in range(8):
        health = after(health, heard(Sign.OUT, NOW + place, took_ms=15_000), TERMS)
    assert health.outages == 3
    assert health.probe_at_ms == NOW + 7 + TERMS.probe_pause_ms


def test_a_receiver_may_ask_for_a_longer_pause() -> None:
    asked = heard(Sign.OUT, NOW + 300, retry_after_ms=60_000)
    health = after(told(Health(), (Sign.OUT, NOW), (Sign.OUT, NOW + 100)), asked, TERMS)
    assert health.probe_at_ms == NOW + 300 + 60_000


def test_there_is_one_probe_and_only_when_it_is_due() -> None:
    health = out()
    assert health.probe_at_ms is not None
    assert health.room(0, 8, health.probe_at_ms - 1) == 0
    assert health.room(0, 8, health.probe_at_ms) == 1
    assert health.room(1, 8, health.probe_at_ms) == 0


def test_after_a_success_places_open_one_by_one_with_each_further_one() -> None:
    health, places, now_ms = out(), [], NOW + 10_000
    while True:
        now_ms += 1_000
        health = after(health, heard(Sign.TAKEN, now_ms), TERMS)
        places.append(health.room(0, 8, now_ms))
        if health.places is None:
            break
    assert places == [2, 3, 4, 5, 6, 7, 8]
    assert health == Health(last_success_at_ms=now_ms)


def test_one_failure_while_it_opens_is_an_outage_again() -> None:
    opening = told(out(), (Sign.TAKEN, NOW + 10_000), (Sign.TAKEN, NOW + 11_000))
    assert opening.places == 3
    again = told(opening, (Sign.OUT, NOW + 12_000))
    assert again.out
    assert again.places is None


def test_a_refusal_opens_it_but_is_no_success() -> None:
    health = told(out(), (Sign.ANSWERED, NOW + 10_000))
    assert health.places == 2
    assert not health.out
    assert health.failing_since_ms == NOW


def test_what_began_before_a_success_says_nothing() -> None:
    well = told(Health(), (Sign.TAKEN, NOW))
    late = heard(Sign.OUT, NOW + 15_000, took_ms=15_001)
    assert after(well, late, TERMS) is well


def test_successes_of_an_endpoint_that_is_well_are_told_once_a_minute() -> None:
    well = told(Health(), (Sign.TAKEN, NOW))
    assert told(well, (Sign.TAKEN, NOW + 59_999)) is well
    assert told(well, (Sign.TAKEN, NOW + 60_000)).last_success_at_ms == NOW + 60_000


def failing(*, every_ms: int, for_ms: int, sign: Sign = Sign.OUT) -> tuple[Health, int]:
    health, now_ms = told(Health(), (Sign.TAKEN, NOW - 1_000)), NOW
    while True:
        health = after(health, heard(sign, now_ms), TERMS)
        if now_ms + every_ms > NOW + for_ms:
            return health, now_ms
        now_ms += every_ms


def test_it_is_doubted_when_nothing_was_taken_for_the_whole_patience() -> None:
    for sign in (Sign.OUT, Sign.ANSWERED):
        health, now_ms = failing(every_ms=100_000, for_ms=900_000, sign=sign)
        assert doubted(health, now_ms, TERMS) == ""
        health, now_ms = failing(every_ms=100_000, for_ms=1_000_000, sign=sign)
        words = doubted(health, now_ms, TERMS)
        assert "since 2026-02-02T02:40:00Z" in words
        assert "last error: no" in words
        assert doubted(health, now_ms, replace(TERMS, patience_ms=0)) == ""


def test_one_that_was_not_tried_all_along_is_given_a_new_patience() -> None:
    health, now_ms = failing(every_ms=250_000, for_ms=2_000_000)
    assert doubted(health, now_ms, TERMS) == ""
    assert health.failing_since_ms == now_ms


def test_a_success_clears_it() -> None:
    health, now_ms = failing(every_ms=100_000, for_ms=900_000)
    well = told(health, (Sign.TAKEN, now_ms + 50_000))
    assert well.failing_since_ms is None
    assert told(well, (Sign.OUT, now_ms + 150_000)).failing_since_ms == now_ms + 150_000


signs = st.lists(
    st.tuples(st.sampled_from(Sign), st.integers(1, 400_000), st.integers(0, 20_000)), max_size=60
)


@given(signs)
def test_whatever_is_heard_its_parts_agree(events: list[tuple[Sign, int, int]]) -> None:
    health, now_ms = Health(), NOW
    for sign, pause_ms, took_ms in events:
        now_ms += pause_ms
        health = after(health, heard(sign, now_ms, took_ms), TERMS)
        assert health.out == (health.probe_at_ms is not None)
        assert health.out == (health.outages >= TERMS.outages)
        assert health.places is None or 2 <= health.places < TERMS.places_max
        assert not (health.out and health.places is not None)
        assert 0 <= health.room(0, 8, now_ms) <= 8
        if sign is Sign.TAKEN:
            assert (health.failing_since_ms, health.outages) == (None, 0)
        if health.failing_since_ms is not None:
            assert health.failing_since_ms <= now_ms
            assert health.last_failure_at_ms is not None
        # it is never shut for ever: at some instant a probe may go
        assert health.room(0, 8, now_ms + 10**9) >= 1
