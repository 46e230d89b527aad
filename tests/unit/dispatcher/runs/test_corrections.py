"""Rules of corrections and of what is late, as properties."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.runs.corrections import (
    Sent,
    changed_meanwhile,
    corrections_of,
    entries_of,
    says_nothing_new,
)
from dispatcher.runs.late import TouchedMinutes
from meterline.meter import Aggregation, Catalogue, Meter
from meterline.number import from_text, text
from meterline.report import (
    NOTHING,
    Baseline,
    Cause,
    Correction,
    DecidedWindow,
    Interval,
    LogEnds,
    Report,
    ReportFilter,
    Run,
    Schedule,
    Trigger,
)
from meterline.report.correction import digest_over
from meterline.report.filter import EVERYTHING
from meterline.usage import Comparison, Condition, Touched, UsageRow
from meterline.window import MINUTE_MS
from tests.portions import drafts, first_statements

START_MS = 1_767_225_600_000
END_MS = START_MS + 60 * MINUTE_MS
METER = Meter(
    "m1",
    7,
    "default",
    "tokens",
    "",
    "",
    Aggregation.SUM,
    "prompt",
    "$.v",
    (("model", "$.m"),),
    0,
    0,
)
OTHER = replace(METER, id="m2", revision=9, key="other", event_type="other")
REPORT = Report(
    "01R",
    "default",
    "r",
    METER.id,
    Schedule(Interval.HOUR, START_MS),
    ("model",),
    "https://example.com",
    b"",
    0,
    0,
)
RUN = Run("run_1", "01R", "default", START_MS, END_MS, 1, Trigger.SCHEDULE, 0)
entries = st.dictionaries(
    st.text(max_size=3).map(lambda model: (("model", model),)),
    st.integers(-(10**60), 10**60),
    max_size=4,
)


@given(st.integers(-(10**70), 10**70))
def test_a_number_is_read_back_from_its_text(value: int) -> None:
    assert from_text(text(value)) == value


def rows(of: dict[tuple[tuple[str, str], ...], int]) -> list[UsageRow]:
    return [UsageRow(START_MS, END_MS, "s", groups, value, 1, 0) for groups, value in of.items()]


def sent(of: dict[tuple[tuple[str, str], ...], int]) -> Sent | None:
    """A delivery that says this, as it is really written; None for none."""
    made = drafts(REPORT, METER, RUN, first_statements(RUN, rows(of)), 1, 0)
    return Sent(made[0].id, made[0].body) if made else None


@given(entries, entries)
def test_corrections_lead_from_what_was_sent_to_what_is(
    old: dict[tuple[tuple[str, str], ...], int], new: dict[tuple[tuple[str, str], ...], int]
) -> None:
    before = sent(old)
    assert (before.entries() if before else {}) == old
    found = list(corrections_of("s", before, entries_of(rows(new)), (), None))
    assert [one.groups for one in found] == sorted({one.groups for one in found})
    after = {groups: Fraction(value) for groups, value in old.items()}
    for one in found:
        assert (one.old, one.new) == (old.get(one.groups), new.get(one.groups))
        assert one.replaces == (before.delivery_id if before else None)
        after[one.groups] = after.get(one.groups, Fraction(0)) + one.difference
        if one.new is None:
            assert after.pop(one.groups) == 0
    assert after == new
    assert list(corrections_of("s", before, old, (), None)) == []


def test_the_cause_is_told() -> None:
    a, b, c = ((("model", name),) for name in "abc")

    def causes(
        old: dict[tuple[tuple[str, str], ...], int],
        new: dict[tuple[tuple[str, str], ...], int],
        changed: Cause | None = None,
    ) -> list[Cause]:
        return [one.cause for one in corrections_of("s", sent(old), new, {b}, changed)]

    assert causes({a: 1, b: 2, c: 3}, {a: 2}) == [Cause.LATE_USAGE, Cause.FILTER, Cause.GONE]
    assert causes({a: 1}, {a: 1, c: 1}) == [Cause.LATE_USAGE]
    assert causes({}, {a: 1, c: 1}) == [Cause.FIRST_SEEN] * 2
    assert causes({a: 1, b: 1}, {}, Cause.METER_CHANGED) == [Cause.METER_CHANGED] * 2
    with pytest.raises(ValueError, match="nothing is corrected"):
        Correction("s", (), 1, 1, Cause.GONE)


def test_what_else_than_usage_changed() -> None:
    only_a = ReportFilter(subject=(Condition(Comparison.EQ, ("a",)),))
    was = Baseline("run_1", 7, ("model",), EVERYTHING, None)
    assert changed_meanwhile(was, REPORT, 7) is None
    assert changed_meanwhile(was, REPORT, 8) is Cause.METER_CHANGED
    assert changed_meanwhile(replace(was, group_by=()), REPORT, 7) is Cause.REPORT_CHANGED
    assert changed_meanwhile(replace(was, filter=only_a), REPORT, 7) is Cause.REPORT_CHANGED
    unknown = replace(was, group_by=None, filter=None)
    assert changed_meanwhile(unknown, REPORT, 7) is None


@pytest.mark.parametrize(
    ("recorded", "now", "speaks", "sends", "nothing"),
    [
        (None, NOTHING, False, False, True),
        (None, NOTHING, False, True, True),
        (None, "d1", True, False, False),  # to be recorded
        (None, "d1", True, True, False),  # to be sent
        ("d1", "d1", True, False, True),  # recorded already
        ("d1", "d1", True, True, False),  # recorded, and now to be sent
        ("d1", "d2", True, False, False),
        ("d1", NOTHING, False, False, False),  # taken back
        ("d1", NOTHING, False, True, False),
        (None, NOTHING, True, False, True),  # written otherwise, the same numbers
    ],
)
def test_when_a_revision_says_nothing_new(
    recorded: str | None, now: str, speaks: bool, sends: bool, nothing: bool
) -> None:
    baseline = Baseline("run_1", 7, (), EVERYTHING, recorded)
    assert says_nothing_new(baseline, now, speaks=speaks, sends=sends) is nothing


def test_a_digest_tells_corrections_apart() -> None:
    one = Correction("s", (("a", "b"),), 1, 2, Cause.GONE, "dlv_x")
    others = [
        replace(one, subject="t"),
        replace(one, groups=()),
        replace(one, groups=(("a", ""), ("b", ""))),
        replace(one, old=None),
        replace(one, new=None),
        replace(one, new=3),
        replace(one, replaces=None),
    ]
    digests = {digest_over([it]) for it in (one, *others)}
    assert len(digests | {NOTHING, digest_over([one, one])}) == len(others) + 3
    assert digest_over([replace(one, cause=Cause.FILTER)]) == digest_over([one])


touched = st.lists(
    st.builds(
        Touched,
        partition=st.integers(0, 2),
        namespace=st.sampled_from(["default", "foreign"]),
        type=st.sampled_from(["prompt", "other", "unmetered"]),
        minute=st.integers(0, 5_000),
        offset=st.integers(0, 9),
    ),
    max_size=12,
)
windows = st.builds(
    lambda meter_id, from_ms, length_ms, ends: DecidedWindow(
        "01R",
        meter_id,
        from_ms,
        from_ms + length_ms,
        None if ends is None else LogEnds(3, tuple(enumerate(ends))),
    ),
    st.sampled_from(["m1", "m2"]),
    st.integers(0, 5_000 * MINUTE_MS),
    st.integers(1, 3_000 * MINUTE_MS),
    st.none() | st.lists(st.integers(0, 10), max_size=3),
)


@given(touched, windows, st.integers(0, 100), st.integers(1, 2_000))
def test_a_window_is_touched_by_what_lies_in_it_behind_what_was_counted(
    found: list[Touched], window: DecidedWindow, apart: int, longest: int
) -> None:
    minutes = TouchedMinutes(Catalogue(9, (METER, OTHER)), found)
    types = {"m1": "prompt", "m2": "other"}
    ends = dict(window.counted.ends) if window.counted else {}
    behind = [
        one
        for one in found
        if one.namespace == "default"
        and one.type == types[window.meter_id]
        and one.minute * MINUTE_MS < window.to_ms
        and (one.minute + 1) * MINUTE_MS > window.from_ms
        and one.offset >= ends.get(one.partition, 0)
    ]
    assert minutes.touch(3, window) == bool(behind)
    if behind and window.counted is not None:
        assert minutes.touch(4, window)  # nothing is known of another log
    spans = list(minutes.spans(apart, longest))
    assert all(span.to_ms - span.from_ms <= longest * MINUTE_MS for span in spans)
    for one in behind:
        assert any(
            window.meter_id in span.meter_ids
            and span.from_ms <= one.minute * MINUTE_MS < span.to_ms
            for span in spans
        )
    length_ms = sum(span.to_ms - span.from_ms for span in spans)
    assert length_ms <= len({(it.type, it.minute) for it in found}) * (apart + 1) * MINUTE_MS
