from hypothesis import given
from hypothesis import strategies as st

from meterline.limits import START_SPREAD_SHARE
from meterline.report import Interval, Report, Schedule, StartTerms
from meterline.window import HOUR_MS, MINUTE_MS

START = 1_770_000_000_000 // MINUTE_MS * MINUTE_MS


def report(name: str = "01R", grace_ms: int | None = None) -> Report:
    schedule = Schedule(Interval.MINUTE, START)
    url = "https://example.com/"
    return Report(
        name, "default", "r", "01M", schedule, (), url, b"s", START, START, grace_ms=grace_ms
    )


def test_a_report_without_a_grace_has_that_of_the_installation() -> None:
    terms = StartTerms(60_000, 11_000)
    assert terms.grace_of_ms(report()) == 60_000
    assert terms.grace_of_ms(report(grace_ms=90_000)) == 90_000
    assert terms.starts_at_ms(report(grace_ms=90_000), 0, 60_000) == 150_000


def test_a_grace_from_before_the_least_was_raised_is_raised_with_it() -> None:
    assert StartTerms(60_000, 11_000).grace_of_ms(report(grace_ms=5_000)) == 11_000


@given(st.text(min_size=1), st.integers(0, 600_000), st.sampled_from(Interval))
def test_an_offset_is_stable_and_bounded(name: str, spread_ms: int, interval: Interval) -> None:
    terms = StartTerms(spread_ms=spread_ms)
    offset_ms = terms.offset_ms(report(name), interval.length_ms)
    assert offset_ms == terms.offset_ms(report(name), interval.length_ms)
    assert 0 <= offset_ms <= min(spread_ms, interval.length_ms // START_SPREAD_SHARE)


def test_many_reports_are_drawn_apart_and_without_a_spread_they_are_not() -> None:
    names = [f"01R{number}" for number in range(1_000)]
    offsets = [StartTerms(spread_ms=5_000).offset_ms(report(name), HOUR_MS) for name in names]
    by_second = [sum(1_000 * s <= it < 1_000 * (s + 1) for it in offsets) for s in range(5)]
    assert min(by_second) > 150
    assert {StartTerms().offset_ms(report(name), HOUR_MS) for name in names} == {0}
