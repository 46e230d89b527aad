"""Bodies: exact bytes, one per subject, filtered per entry; revisions say only what differs."""

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.limits import DELIVERY_BODY_BYTES_MAX
from meterline.meter import Aggregation, Meter
from meterline.number import SCALED_MAX, UNIT
from meterline.report import Interval, Report, Schedule
from meterline.report_body import (
    NO_USAGE_DIGEST,
    BodyTooLarge,
    Statement,
    drafts,
    manifest_digest,
    select,
    statements,
)
from meterline.report_filter import EVERYTHING, Comparison, Condition, ReportFilter
from meterline.report_ports import Booked
from meterline.run import DeliveryDraft, Run, RunState, Trigger, delivery_id, digest_of
from meterline.usage import UsageRow

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
    said = statements(RUN, select(rows, filter_), {})
    return list(drafts(REPORT, METER, RUN, said, 41, TO + 60_000))


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


@given(rows_of_many, st.randoms(use_true_random=False))
def test_bytes_do_not_depend_on_the_order_of_rows(rows: list[UsageRow], random: object) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert rendered(shuffled) == rendered(rows)


@given(rows_of_many, st.integers(-SCALED_MAX, SCALED_MAX))
def test_the_figures_of_a_selection_add_up(rows: list[UsageRow], edge: int) -> None:
    selection = select(rows, ReportFilter(usage=(Condition(Comparison.LTE, (edge,)),)))
    assert selection.entries + selection.filtered_out == len(rows)
    assert selection.total + selection.total_filtered_out == sum(r.value for r in rows)
    assert selection.entries == sum(len(kept) for _, kept in selection.by_subject)


def booked_after(said: list[Statement]) -> dict[str, Booked]:
    return {it.subject: Booked(f"dlv_{it.subject}", it.digest) for it in said}


@given(rows_of_many, rows_of_many)
def test_a_revision_leads_the_receiver_to_the_new_figures(
    before: list[UsageRow], after: list[UsageRow]
) -> None:
    held = {it.subject: it for it in statements(RUN, select(before, EVERYTHING), {})}
    revision = statements(RUN, select(after, EVERYTHING), booked_after(list(held.values())))
    for it in revision:
        assert it.supersedes == (f"dlv_{it.subject}" if it.subject in held else None)
        assert it.subject not in held or held[it.subject].usage != it.usage
        held[it.subject] = it
    fresh = {it.subject: it.usage for it in statements(RUN, select(after, EVERYTHING), {})}
    assert {name: it.usage for name, it in held.items() if it.usage != b"[]"} == fresh
    again = statements(RUN, select(after, EVERYTHING), booked_after(list(held.values())))
    assert again == []


def test_a_subject_that_is_left_out_now_is_corrected_once() -> None:
    booked = {"gone": Booked("dlv_1", b"x"), "told": Booked("dlv_2", NO_USAGE_DIGEST)}
    (it,) = statements(RUN, select([], EVERYTHING), booked)
    assert (it.subject, it.usage, it.supersedes) == ("gone", b"[]", "dlv_1")


def test_a_body_that_is_too_large_is_refused_with_words() -> None:
    usage = b'["' + b"x" * DELIVERY_BODY_BYTES_MAX + b'"]'
    with pytest.raises(BodyTooLarge, match=r"'acme' would have .* group the report by fewer"):
        list(drafts(REPORT, METER, RUN, [Statement("acme", usage)], 1, TO))


def test_the_manifest_names_ids_and_bytes_in_order() -> None:
    one, other = ("a", digest_of(b"1")), ("b", digest_of(b"2"))
    digests = {manifest_digest(parts) for parts in ([one, other], [other, one], [one], [])}
    assert len(digests) == 4
