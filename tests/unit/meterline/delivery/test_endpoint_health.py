"""How an endpoint fares: outages, probes, places that open again, a patience that ends."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from meterline import limits
from meterline.delivery import (
    EndpointObservation,
    EndpointSignal,
    Health,
    HealthTerms,
    after,
    distrusted,
)

NOW = 1_770_000_000_000
TERMS = HealthTerms(
    outages=3, places_max=8, probe_pause_ms=5_000, patience_ms=1_000_000, silence_ms=200_000
)


def observed(
    signal: EndpointSignal,
    at_ms: int,
    took_ms: int = 10,
    reason: str = "no",
    retry_after_ms: int = 0,
    *,
    first: bool = True,
    probe: bool = False,
) -> EndpointObservation:
    began_ms = at_ms - took_ms
    return EndpointObservation(
        "default", "http://x/", signal, began_ms, at_ms, reason, retry_after_ms, first, probe
    )


def probed(health: Health, signal: EndpointSignal) -> tuple[Health, int]:
    """The health after the next probe, and when it ended."""
    assert health.probe_at_ms is not None
    at_ms = health.probe_at_ms + 10
    return after(health, observed(signal, at_ms, probe=True), TERMS), at_ms


def told(health: Health, *signals: tuple[EndpointSignal, int]) -> Health:
    for signal, at_ms in signals:
        health = after(health, observed(signal, at_ms), TERMS)
    return health


def out() -> Health:
    return told(Health(), *((EndpointSignal.OUT, NOW + 100 * n) for n in range(3)))


def test_three_in_a_row_are_an_outage_and_two_are_not() -> None:
    two = told(Health(), (EndpointSignal.OUT, NOW), (EndpointSignal.OUT, NOW + 100))
    assert not two.out
    assert two.room(0, 8, TERMS.faults, NOW) == 8
    assert not told(two, (EndpointSignal.TAKEN, NOW + 200), (EndpointSignal.OUT, NOW + 300)).out
    assert not told(two, (EndpointSignal.ANSWERED, NOW + 200), (EndpointSignal.OUT, NOW + 300)).out
    assert out().probe_at_ms == NOW + 200 + TERMS.probe_pause_ms


def test_three_probes_fail_before_the_pause_doubles_up_to_its_bound() -> None:
    health, pauses = out(), []
    for _ in range(21):
        health, at_ms = probed(health, EndpointSignal.OUT)
        assert health.probe_at_ms is not None
        pauses.append((health.probe_at_ms - at_ms) // TERMS.probe_pause_ms)
    assert pauses == [1, 1, *[2] * 3, *[4] * 3, *[8] * 3, *[16] * 3, *[32] * 3, *[45] * 4]


def test_an_hour_costs_less_than_two_hundred_attempts_and_a_return_is_noticed_within_45_s() -> None:
    terms, hour_ms = HealthTerms(), NOW + 3_600_000
    for signal, needed in ((EndpointSignal.OUT, 3), (EndpointSignal.FAULT, 96)):
        health, at_ms, attempts, longest_ms = Health(), NOW, 0, 0
        while at_ms < hour_ms:
            health = after(health, observed(signal, at_ms, probe=health.out), terms)
            attempts += 1
            assert health.out == (attempts >= needed)
            if health.probe_at_ms is not None:
                longest_ms = max(longest_ms, health.probe_at_ms - at_ms)
                at_ms = health.probe_at_ms
        assert attempts <= 192
        assert longest_ms == 45_000


def test_deliveries_that_fail_by_themselves_never_make_an_outage() -> None:
    health = Health()
    for place in range(2_000):
        signal = EndpointSignal.TAKEN if place % 90 == 0 else EndpointSignal.FAULT
        health = after(health, observed(signal, NOW + place), TERMS)
        assert health.room(0, 8, TERMS.faults, NOW) >= 5
    # nor do their retries, which are the same deliveries again
    for place in range(2_000, 4_000):
        health = after(health, observed(EndpointSignal.FAULT, NOW + place, first=False), TERMS)
        assert not health.out


def test_many_different_deliveries_that_fail_and_none_that_is_taken_are_an_outage() -> None:
    health = Health()
    for place in range(TERMS.faults):
        assert not health.out
        # in doubt, no more are in hand than may fail before it is out
        in_hand = TERMS.faults - place if place >= TERMS.faults // 3 else 1_000
        assert health.room(0, 1_000, TERMS.faults, NOW) == in_hand
        health = after(health, observed(EndpointSignal.FAULT, NOW + place), TERMS)
    assert health.out
    opened, _ = probed(health, EndpointSignal.TAKEN)
    assert (opened.out, opened.faults, opened.alarms) == (False, 0, 0)


def test_where_nothing_is_taken_retries_have_a_share() -> None:
    assert [Health(faults=n).retries(8, 96) for n in (0, 31, 32, 95)] == [0, 0, 4, 4]
    assert sum(Health(faults=n).retries(1, 96) for n in range(32, 52)) == 10
    shares = [Health(probe_at_ms=NOW, probes=n).retries(1, 96) for n in range(6)]
    assert shares == [0, 0, 1, 0, 0, 1], "every third probe is the retry that waits the longest"


def test_an_endpoint_that_is_out_for_some_only_holds_up_the_others_less_and_less() -> None:
    """503 for one of two customers: after each false alarm twice as many in a row are needed."""
    health, now_ms, needed = Health(), NOW, []
    for _ in range(7):
        failures = 0
        while not health.out:
            now_ms += 10
            health = after(health, observed(EndpointSignal.OUT, now_ms), TERMS)
            failures += 1
        needed.append(failures)
        health, now_ms = probed(health, EndpointSignal.TAKEN)
    assert needed == [3, 6, 12, 24, 48, 96, 96]
    for minute in range(1, 40):  # it is well again
        health = after(health, observed(EndpointSignal.TAKEN, now_ms + 60_000 * minute), TERMS)
    assert health.alarms == 0


def test_a_long_outage_is_no_false_alarm() -> None:
    health = out()
    assert health.alarms == 1
    for _ in range(12):
        health, _ = probed(health, EndpointSignal.OUT)
    assert health.alarms == 0


def test_who_asks_to_be_left_alone_is_at_once_and_for_five_minutes_at_most() -> None:
    for asked_ms, pause_ms in ((0, 5_000), (60_000, 60_000), (86_400_000, 300_000)):
        health = after(
            Health(), observed(EndpointSignal.THROTTLED, NOW, retry_after_ms=asked_ms), TERMS
        )
        assert health.probe_at_ms == NOW + pause_ms
        assert health.alarms == 0


def test_a_receiver_that_answers_500_after_an_outage_is_soon_tried_again() -> None:
    health = out()
    for _ in range(12):
        health, _ = probed(health, EndpointSignal.OUT)
    health, at_ms = probed(health, EndpointSignal.FAULT)
    assert health.probe_at_ms == at_ms + TERMS.probe_pause_ms


def test_many_that_fail_together_are_one_blow() -> None:
    health = Health()
    for place in range(8):
        health = after(health, observed(EndpointSignal.OUT, NOW + place, took_ms=15_000), TERMS)
    assert health.outages == 3
    assert health.probe_at_ms == NOW + 7 + TERMS.probe_pause_ms


def test_a_receiver_may_ask_for_a_longer_pause() -> None:
    asked = observed(EndpointSignal.OUT, NOW + 300, retry_after_ms=60_000)
    health = after(
        told(Health(), (EndpointSignal.OUT, NOW), (EndpointSignal.OUT, NOW + 100)), asked, TERMS
    )
    assert health.probe_at_ms == NOW + 300 + 60_000


def test_there_is_one_probe_and_only_when_it_is_due() -> None:
    health = out()
    assert health.probe_at_ms is not None
    assert health.room(0, 8, TERMS.faults, health.probe_at_ms - 1) == 0
    assert health.room(0, 8, TERMS.faults, health.probe_at_ms) == 1
    assert health.room(1, 8, TERMS.faults, health.probe_at_ms) == 0


def test_after_a_success_places_open_one_by_one_with_each_further_one() -> None:
    health, places, now_ms = out(), [], NOW + 10_000
    while True:
        now_ms += 1_000
        health = after(health, observed(EndpointSignal.TAKEN, now_ms), TERMS)
        places.append(health.room(0, 8, TERMS.faults, now_ms))
        if health.places is None:
            break
    assert places[:7] == [2, 3, 4, 5, 6, 7, 8]
    assert set(places[7:]) == {8}
    assert health == Health(last_success_at_ms=now_ms)


def test_an_outage_after_which_all_is_well_is_no_alarm_and_one_that_comes_again_is() -> None:
    calm = TERMS.places_max + limits.CALM_ANSWERS - 1
    answers = [(EndpointSignal.TAKEN, NOW + 10_000 + n) for n in range(calm)]
    assert told(out(), *answers[:-1]).alarms == 1
    assert told(out(), *answers).alarms == 0
    # it falls back to half of its places, and begins to count anew
    failed = told(out(), *answers[:-1], (EndpointSignal.OUT, NOW + 20_000))
    assert (failed.alarms, failed.places) == (1, TERMS.places_max // 2)
    assert told(failed, (EndpointSignal.TAKEN, NOW + 21_000)).alarms == 1


def test_outages_again_and_again_are_noticed_as_soon_as_the_first() -> None:
    """A receiver that goes up and down costs few attempts each time."""
    health, now_ms = Health(), NOW
    for _ in range(20):
        failures = 0
        while not health.out:
            now_ms, failures = now_ms + 100, failures + 1
            health = told(health, (EndpointSignal.OUT, now_ms))
        assert failures == TERMS.outages
        for _ in range(40):
            now_ms += 100
            health = told(health, (EndpointSignal.TAKEN, now_ms))


def test_a_failure_while_it_opens_halves_its_places() -> None:
    opening = told(out(), *((EndpointSignal.TAKEN, NOW + 10_000 + n) for n in range(4)))
    assert opening.places == 5
    slower = told(opening, (EndpointSignal.OUT, NOW + 12_000))
    assert (slower.out, slower.places) == (False, 2)
    again = told(slower, *((EndpointSignal.OUT, NOW + 12_000 + n) for n in range(1, 6)))
    assert (again.out, again.places) == (True, None)


def test_a_refusal_opens_it_but_is_no_success() -> None:
    health = told(out(), (EndpointSignal.ANSWERED, NOW + 10_000))
    assert health.places == 2
    assert not health.out
    assert health.failing_since_ms == NOW


def test_what_began_before_a_success_says_nothing() -> None:
    well = told(Health(), (EndpointSignal.TAKEN, NOW))
    late = observed(EndpointSignal.OUT, NOW + 15_000, took_ms=15_001)
    assert after(well, late, TERMS) is well


def test_successes_of_an_endpoint_that_is_well_are_told_once_a_minute() -> None:
    well = told(Health(), (EndpointSignal.TAKEN, NOW))
    assert told(well, (EndpointSignal.TAKEN, NOW + 59_999)) is well
    assert told(well, (EndpointSignal.TAKEN, NOW + 60_000)).last_success_at_ms == NOW + 60_000


def failing(
    *, every_ms: int, for_ms: int, signal: EndpointSignal = EndpointSignal.OUT
) -> tuple[Health, int]:
    health, now_ms = told(Health(), (EndpointSignal.TAKEN, NOW - 1_000)), NOW
    while True:
        health = after(health, observed(signal, now_ms), TERMS)
        if now_ms + every_ms > NOW + for_ms:
            return health, now_ms
        now_ms += every_ms


def test_it_is_doubted_when_nothing_was_taken_for_the_whole_patience() -> None:
    for signal in (EndpointSignal.OUT, EndpointSignal.ANSWERED):
        health, now_ms = failing(every_ms=100_000, for_ms=900_000, signal=signal)
        assert distrusted(health, now_ms, TERMS) == ""
        health, now_ms = failing(every_ms=100_000, for_ms=1_000_000, signal=signal)
        words = distrusted(health, now_ms, TERMS)
        assert "since 2026-02-02T02:40:00Z" in words
        assert "last error: no" in words
        assert distrusted(health, now_ms, replace(TERMS, patience_ms=0)) == ""


def test_one_that_was_not_tried_all_along_is_given_a_new_patience() -> None:
    health, now_ms = failing(every_ms=250_000, for_ms=2_000_000)
    assert distrusted(health, now_ms, TERMS) == ""
    assert health.failing_since_ms == now_ms


def test_a_success_clears_it() -> None:
    health, now_ms = failing(every_ms=100_000, for_ms=900_000)
    well = told(health, (EndpointSignal.TAKEN, now_ms + 50_000))
    assert well.failing_since_ms is None
    assert told(well, (EndpointSignal.OUT, now_ms + 150_000)).failing_since_ms == now_ms + 150_000


signals = st.lists(
    st.tuples(
        st.sampled_from(EndpointSignal),
        st.integers(1, 400_000),
        st.integers(0, 20_000),
        st.booleans(),
    ),
    max_size=200,
)


@given(signals)
def test_whatever_is_heard_its_parts_agree(
    events: list[tuple[EndpointSignal, int, int, bool]],
) -> None:
    health, now_ms = Health(), NOW
    for signal, pause_ms, took_ms, first in events:
        now_ms += pause_ms
        probe = health.out and first
        health = after(health, observed(signal, now_ms, took_ms, first=first, probe=probe), TERMS)
        assert health.out == (health.probe_at_ms is not None)
        assert health.out or health.outages < TERMS.tolerated(health.alarms)
        assert health.out or health.faults < TERMS.faults
        assert 0 <= health.alarms <= len(events)
        assert 0 <= health.retries(8, TERMS.faults) <= 4
        assert health.out or not health.probes
        # beyond all places it counts answers, until an alarm is taken back
        most = TERMS.places_max + (limits.CALM_ANSWERS if health.alarms else 0)
        assert health.places is None or 2 <= health.places < most
        assert not (health.out and health.places is not None)
        assert 0 <= health.room(0, 8, TERMS.faults, now_ms) <= 8
        if signal is EndpointSignal.TAKEN:
            assert (health.failing_since_ms, health.outages, health.faults) == (None, 0, 0)
        if health.failing_since_ms is not None:
            assert health.failing_since_ms <= now_ms
            assert health.last_failure_at_ms is not None
        # it is never shut for ever: at some instant a probe may go
        assert health.room(0, 8, TERMS.faults, now_ms + 10**9) >= 1
