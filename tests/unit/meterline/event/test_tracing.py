"""The trace that an event belongs to is read from its text, and may be put there."""

import json

import pytest

from ingest.admission import AdmissionRules, BodyForm, admit
from meterline.event import decode_event, trace_of, traces_of, with_trace
from meterline.limits import TRACE_LINKS_MAX
from meterline.ports import TraceContext

CONTEXT = TraceContext(0xABC, 0xDEF, sampled=True)
EVENT = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "subject": "u"}
RULES = AdmissionRules(4)


def text(**members: object) -> bytes:
    """An event as it stands in the log."""
    ((_, spliced),) = admit(
        json.dumps({**EVENT, **members}).encode(), BodyForm.ONE, "default", 1_000, RULES
    )
    return spliced


@pytest.mark.parametrize(
    ("members", "found"),
    [
        ({}, None),
        ({"traceparent": CONTEXT.traceparent}, CONTEXT),
        (
            {"traceparent": CONTEXT.traceparent, "tracestate": "a=b"},
            TraceContext(0xABC, 0xDEF, sampled=True, state="a=b"),
        ),
        ({"traceparent": "nothing"}, None),
        ({"traceparent": 5}, None),
        ({"traceparent": None}, None),
        ({"data": {"traceparent": CONTEXT.traceparent}}, None),  # of the payload, not the event
        ({"data": {"a": '"traceparent"'}}, None),
    ],
)
def test_only_the_attribute_is_read(members: dict[str, object], found: object) -> None:
    assert trace_of(text(**members)) == found


def test_what_is_no_event_brings_nothing() -> None:
    assert trace_of(b'{"traceparent"') is None


def test_the_event_that_carries_a_trace_is_the_same_event() -> None:
    before = text(data={"v": 1.50}, time="2026-01-01T00:00:00Z")
    after = with_trace(before, CONTEXT)
    assert trace_of(after) == CONTEXT
    one, other = decode_event(before), decode_event(after)
    assert (one.key, one.check, one.data) == (other.key, other.check, other.data)
    assert json.loads(after) == {**json.loads(before), "traceparent": CONTEXT.traceparent}


@pytest.mark.parametrize(
    "members",
    [
        {"traceparent": "00-00000000000000000000000000000001-0000000000000001-00"},
        {"traceparent": None},
        {"tracestate": "a=b"},
        {"data": {"a": "\\"}},
    ],
)
def test_what_may_have_a_trace_by_any_spelling_is_left_as_it_is(
    members: dict[str, object],
) -> None:
    assert with_trace(text(**members), CONTEXT) == text(**members)


def test_many_traces_are_read_up_to_a_bound() -> None:
    texts = [
        text(id=str(one), traceparent=TraceContext(one + 1, 1, one % 2 == 0).traceparent)
        for one in range(2 * TRACE_LINKS_MAX + 10)
    ]
    found = traces_of(texts)
    assert len(found) == TRACE_LINKS_MAX
    assert all(it.sampled for it in found)
    asked = iter(texts)
    assert traces_of(asked, at_most=100, tries=3) == found[:2]
    assert len(list(asked)) == len(texts) - 3
    assert traces_of([texts[0]] * 5) == found[:1]
