"""Bodies: exact bytes, one per subject, filtered per entry; revisions say only what differs."""

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.delivery import DeliveryDraft, delivery_id, digest_of
from meterline.limits import DELIVERY_BODY_BYTES_MAX, GROUP_VALUES_COUNTED_MAX
from meterline.meter import Aggregation, Meter
from meterline.number import SCALED_MAX, UNIT
from meterline.report import (
    Booked,
    Gathering,
    Interval,
    Report,
    ReportFilter,
    Run,
    RunState,
    Schedule,
    Statement,
    Trigger,
    statements,
)
from meterline.report.body import NO_USAGE_DIGEST, manifest_digest
from meterline.report.filter import EVERYTHING
from meterline.usage import Comparison, Condition, UsageRow
from tests.portions import drafts, first_statements, gathered

FROM = 1_767_225_600_000  # 2026-01-01T00:00:00Z
TO = FROM + 86_400_000
METER = Meter(
    id="01M",
    revision=3,
    namespace="default",
    key="tokens",
    name="Tokens",
    description="",
    aggregation=Aggregation.SUM,
    event_type="prompt",
    value_property="$.tokens",
    dimensions=(("model", "$.model"), ("type", "$.type")),
    created_at_ms=0,
    updated_at_ms=0,
)
REPORT = Report(
    id="01R",
    namespace="default",
    slug="daily-tokens",
    meter_id="01M",
    schedule=Schedule(Interval.DAY, FROM),
    group_by=("model",),
    endpoint="https://example.com/",
    signing_secret_sealed=b"",
    created_at_ms=FROM,
    updated_at_ms=FROM,
)
RUN = Run("run_x", "01R", "default", FROM, TO, 1, Trigger.SCHEDULE, TO, RunState.MATERIALIZING)

rows_of_many = st.lists(
    st.builds(
        lambda subject, model, value: row(subject, value, model),
        st.text(max_size=3),
        st.text(max_size=3),
        st.integers(-SCALED_MAX, SCALED_MAX),
    ),
    unique_by=lambda it: (it.subject, it.groups),
)


def row(subject: str, value: int, model: str = "m") -> UsageRow:
    return UsageRow(FROM, TO, subject, (("model", model),), value, 1, 0)


def rendered(rows: list[UsageRow], filter_: ReportFilter = EVERYTHING) -> list[DeliveryDraft]:
    subject_usage = first_statements(RUN, rows, filter_)
    return drafts(REPORT, METER, RUN, subject_usage, 41, TO + 60_000)


def test_the_exact_bytes() -> None:
    first, second = rendered(
        [
            row("acme", 12 * UNIT + UNIT // 2, "x"),
            row('b"ü', 10**39 + 1, "y"),
            row("acme", -7, "a"),
        ]
    )
    assert first.body.decode() == (
        '{"type":"report.meter","timestamp":"2026-01-02T00:00:00.000Z",'
        '"report":{"slug":"daily-tokens"},"usage":['
        '{"subject":"acme","value":-0.000000000000000007,"valueText":"-0.000000000000000007",'
        '"groupBy":{"model":"a"},"windowStart":"2026-01-01T00:00:00.000Z",'
        '"windowEnd":"2026-01-02T00:00:00.000Z"},'
        '{"subject":"acme","value":12.5,"valueText":"12.5","groupBy":{"model":"x"},'
        '"windowStart":"2026-01-01T00:00:00.000Z","windowEnd":"2026-01-02T00:00:00.000Z"}],'
        '"query":{"from":"2026-01-01T00:00:00.000Z","to":"2026-01-02T00:00:00.000Z",'
        '"subject":"acme","groupBy":["model"]},'
        '"meter":{"id":"01M","slug":"tokens","description":"","aggregation":"SUM",'
        '"windowSize":"MINUTE","eventType":"prompt","valueProperty":"$.tokens",'
        '"groupBy":{"model":"$.model","type":"$.type"}},'
        '"run":{"id":"run_x","trigger":"schedule","sequence":41,"number":1,"of":2,"revision":1,'
        '"supersedes":null,"completeUntil":"2026-01-02T00:01:00.000Z"}}'
    )
    assert first.id == delivery_id("01R", FROM, TO, "acme", 1)
    assert first.digest == digest_of(first.body)
    assert (second.subject, second.number, second.sequence) == ('b"ü', 2, 42)
    assert b'"value":1000000000000000000000.000000000000000001,' in second.body


@given(rows_of_many, st.integers(-SCALED_MAX, SCALED_MAX))
def test_every_entry_that_passes_is_in_the_body_of_its_subject(
    rows: list[UsageRow], edge: int
) -> None:
    filter_ = ReportFilter(usage=(Condition(Comparison.GT, (edge,)),))
    passing = {(r.subject, r.groups[0][1]): r.value for r in rows if r.value > edge}
    found = {}
    made = rendered(rows, filter_)
    for draft in made:
        body = json.loads(draft.body, parse_float=Decimal, parse_int=Decimal)
        assert body["query"]["subject"] == draft.subject
        assert body["usage"]
        for entry in body["usage"]:
            assert entry["subject"] == draft.subject
            assert Decimal(entry["valueText"]) == entry["value"]
            # in the wide context of the test's own arithmetic: text to scaled integer
            whole, _, fraction = entry["valueText"].lstrip("-").partition(".")
            scaled = int(whole + fraction.ljust(18, "0"))
            sign = -1 if entry["valueText"].startswith("-") else 1
            found[draft.subject, entry["groupBy"]["model"]] = sign * scaled
    assert found == passing
    subjects = [draft.subject for draft in made]
    assert subjects == sorted({str(subject) for subject, _ in passing})
    assert [draft.number for draft in made] == list(range(1, len(made) + 1))
    assert [draft.sequence for draft in made] == list(range(41, 41 + len(made)))


@given(rows_of_many, st.integers(1, 4))
def test_what_subjects_say_does_not_depend_on_the_portions(rows: list[UsageRow], size: int) -> None:
    ordered = sorted(rows, key=lambda it: (it.subject or "", it.groups))
    gathering = Gathering(RUN, EVERYTHING)
    subject_usage = []
    for start in range(0, len(ordered), size):
        subject_usage += gathering.add(ordered[start : start + size])
    subject_usage += gathering.end()
    made = drafts(REPORT, METER, RUN, statements(subject_usage, {}), 41, TO + 60_000)
    assert made == rendered(rows)


@given(rows_of_many, st.integers(-SCALED_MAX, SCALED_MAX))
def test_the_figures_of_a_run_add_up(rows: list[UsageRow], edge: int) -> None:
    filter_ = ReportFilter(usage=(Condition(Comparison.LTE, (edge,)),))
    subject_usage, figures = gathered(RUN, filter_, rows)
    assert figures.entries + figures.filtered_out == len(rows)
    assert figures.total + figures.total_filtered_out == sum(r.value for r in rows)
    assert figures.entries == sum(one.entries for one in subject_usage)
    assert figures.total == sum(one.total for one in subject_usage)


def booked_after(subject_usage: list[Statement]) -> dict[str, Booked]:
    return {
        it.subject: Booked(f"dlv_{it.subject}", it.subject_usage.digest) for it in subject_usage
    }


@given(rows_of_many, rows_of_many)
def test_a_revision_leads_the_receiver_to_the_new_figures(
    before: list[UsageRow], after: list[UsageRow]
) -> None:
    held = {it.subject: it for it in first_statements(RUN, before)}
    subject_usage, _ = gathered(RUN, EVERYTHING, after)
    for it in statements(subject_usage, booked_after(list(held.values()))):
        assert it.supersedes == (f"dlv_{it.subject}" if it.subject in held else None)
        assert (
            it.subject not in held or held[it.subject].subject_usage.usage != it.subject_usage.usage
        )
        held[it.subject] = it
    fresh = {it.subject: it.subject_usage.usage for it in first_statements(RUN, after)}
    assert {
        name: it.subject_usage.usage for name, it in held.items() if it.subject_usage.usage != b"[]"
    } == fresh
    assert statements(subject_usage, booked_after(list(held.values()))) == []


def test_a_subject_that_is_left_out_now_is_corrected_once() -> None:
    booked = {
        "gone": Booked("dlv_1", b"x"),
        "told": Booked("dlv_2", NO_USAGE_DIGEST),
        "never sent": Booked(None, b"y"),
    }
    (it,) = statements([], booked)
    assert (it.subject, it.subject_usage.usage, it.supersedes) == ("gone", b"[]", "dlv_1")


def many(subject: str, entries: int, letters: int = 200) -> list[UsageRow]:
    return [row(subject, UNIT, f"{n:06}{'x' * letters}") for n in range(entries)]


def test_a_subject_that_is_too_large_has_a_delivery_without_bytes_that_says_so() -> None:
    entries = 60_000
    rows = [row("acme", UNIT), *many("big", entries), row("zeta", UNIT)]
    acme, big, zeta = rendered(rows)
    assert (acme.failure, zeta.failure) == (None, None)
    assert (acme.number, big.number, zeta.number, zeta.sequence) == (1, 2, 3, 43)
    assert json.loads(zeta.body)["run"]["of"] == 3
    assert big.failure is not None
    assert big.body == b""
    assert big.digest == digest_of(big.failure.encode())
    assert big.id == delivery_id("01R", FROM, TO, "big", 1)
    whole = [it for it in rows if it.subject == "big"]
    usage = len(acme.body) - len(b'"acme"') * 2 - len(b'"m"')  # a body with one entry
    size = int(big.failure.split(" would have ")[1].split(" bytes")[0].replace(",", ""))
    assert size > DELIVERY_BODY_BYTES_MAX
    assert size > usage + len(whole) * 200
    assert f"in {entries:,} entries" in big.failure
    assert f"more than the {DELIVERY_BODY_BYTES_MAX:,} bytes" in big.failure
    assert f"model at least {GROUP_VALUES_COUNTED_MAX:,}" in big.failure
    assert "fewer keys" in big.failure


@pytest.mark.parametrize("entries", [999, 1_000, 1_001, 2_500])
def test_the_size_and_the_digest_of_what_is_too_large_are_those_of_its_bytes(entries: int) -> None:
    """Beyond the bound nothing is kept, and all is measured: as if it had been kept."""
    letters = DELIVERY_BODY_BYTES_MAX // 900
    (subject_usage,), _ = gathered(RUN, EVERYTHING, many("big", entries, letters))
    assert subject_usage.usage is None
    assert subject_usage.rows == ()
    one = len(gathered(RUN, EVERYTHING, many("big", 1, letters))[0][0].usage or b"") - 2
    assert subject_usage.size == entries * (one + 1) + 1
    assert subject_usage.entries == entries
    assert subject_usage.total == entries * UNIT
    (less,), _ = gathered(RUN, EVERYTHING, many("big", entries - 1, letters))
    assert less.digest != subject_usage.digest


def test_many_entries_that_fit_are_the_same_bytes_as_all_at_once() -> None:
    rows = many("s", 2_345, 10)
    (made,) = rendered(rows)
    assert [it["groupBy"]["model"] for it in json.loads(made.body)["usage"]] == [
        it.groups[0][1] for it in rows
    ]
    usage = made.body.partition(b'"usage":')[2].partition(b',"query":')[0]
    assert made.usage_digest == digest_of(usage)


def test_the_manifest_names_ids_and_bytes_in_order() -> None:
    one, other = ("a", digest_of(b"1")), ("b", digest_of(b"2"))
    digests = {manifest_digest(parts) for parts in ([one, other], [other, one], [one], [])}
    assert len(digests) == 4
