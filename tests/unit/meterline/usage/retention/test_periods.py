"""What may be dropped now, and what is kept."""

from hypothesis import given
from hypothesis import strategies as st

from meterline.limits import RETENTION_NOTICE_MS
from meterline.usage import (
    EVENTS,
    REJECTS,
    SEEN,
    Kept,
    Notice,
    Period,
    Reach,
    RetentionTerms,
    SealedEnd,
    complete_times_from,
    expired,
    is_sealed,
    kept_of,
    may_drop,
    newest_counted,
)

WEEK_MS = 7 * 86_400_000
TABLES = (EVENTS, REJECTS, SEEN)
ages = st.none() | st.integers(0, 20 * WEEK_MS)
terms = st.builds(RetentionTerms, ages, ages, ages)
weeks = st.integers(0, 60)


def week(table: str, number: int) -> Period:
    return Period(table, f"{number:08}", number * WEEK_MS, (number + 1) * WEEK_MS)


periods = st.lists(st.builds(week, st.sampled_from(TABLES), weeks), unique=True)
notices = st.lists(
    st.builds(
        lambda table, number, latest, catalogue: Notice(
            table, f"{number:08}", (number + 1) * WEEK_MS, latest, catalogue, 0
        ),
        st.sampled_from(TABLES),
        weeks,
        st.integers(0, 80 * WEEK_MS),
        st.integers(0, 9),
    )
)
sealed_ends = st.dictionaries(
    st.integers(0, 3), st.builds(SealedEnd, st.integers(0, 99), st.integers(0, 60 * WEEK_MS))
)


@given(periods, terms, st.integers(0, 60 * WEEK_MS))
def test_only_what_is_as_a_whole_older_than_its_term_may_go_the_oldest_first(
    there: list[Period], of: RetentionTerms, newest_ms: int
) -> None:
    found = expired(there, of, newest_ms)
    for group in found:
        assert len({period.table for period in group}) == 1
        assert group == sorted(group)
    chosen = {period for group in found for period in group}
    for period in there:
        age_ms = of.of(period.table)
        # the youngest row that the period could have
        old = age_ms is not None and newest_ms - (period.to_ms - 1) > age_ms
        assert (period in chosen) == old


@given(periods, st.integers(0, 60 * WEEK_MS))
def test_by_default_everything_is_kept(there: list[Period], newest_ms: int) -> None:
    assert expired(there, RetentionTerms(), newest_ms) == []


@given(st.integers(0, 60 * WEEK_MS), sealed_ends)
def test_neither_a_clock_that_runs_ahead_nor_a_log_alone_makes_rows_old(
    now_ms: int, sealed: dict[int, SealedEnd]
) -> None:
    newest_ms = newest_counted(now_ms, sealed)
    assert newest_ms <= now_ms
    assert newest_ms <= max((end.append_ms for end in sealed.values()), default=0)


@given(st.dictionaries(st.integers(0, 3), st.integers(1, 99)), sealed_ends)
def test_rows_behind_the_last_seal_are_not_sealed(
    ends: dict[int, int], sealed: dict[int, SealedEnd]
) -> None:
    behind = any(n not in sealed or end > sealed[n].offset for n, end in ends.items())
    assert is_sealed(Reach(ends, 0), sealed) == (not behind)


def test_a_period_goes_a_day_after_its_notice() -> None:
    notice = Notice(EVENTS, "20260105", 1, 0, 1, 1_000)
    assert not may_drop(notice, 1_000 + RETENTION_NOTICE_MS - 1)
    assert may_drop(notice, 1_000 + RETENTION_NOTICE_MS)
    assert not may_drop(notice, 0), "a clock that was set back"


@given(notices)
def test_what_is_kept_of_a_table_begins_behind_its_last_notice(given_: list[Notice]) -> None:
    kept = kept_of(given_)
    assert kept.keys() == {one.table for one in given_}
    for table, one in kept.items():
        names = [notice.period for notice in given_ if notice.table == table]
        assert one == Kept(max(names), (int(max(names)) + 1) * WEEK_MS)


@given(notices, st.integers(0, 10))
def test_events_of_a_time_are_all_kept_only_behind_every_notice(
    given_: list[Notice], revision: int
) -> None:
    whole, of_revision = complete_times_from(given_), complete_times_from(given_, revision)
    assert of_revision <= whole
    for one in given_:
        if one.table == EVENTS:
            assert whole >= one.before_ms
            assert whole > one.latest_ms, "sent ahead of its time, and not kept"
            if one.catalogue < revision:
                assert of_revision >= one.before_ms
    assert complete_times_from(given_, 0) == 0, "it counted everything before it was dropped"
