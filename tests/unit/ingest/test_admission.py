"""Admission by example: what is accepted, and how each fault is named."""

import json
from typing import Any

import pytest

from ingest.admission import AdmissionRules, BodyForm, admit, body_form
from meterline.event import decode_event
from meterline.limits import (
    ATTRIBUTE_CHARS_MAX,
    INTEGER_TEXT_CHARS_MAX,
    JSON_DEPTH_MAX,
    PROBLEM_ERRORS_MAX,
)
from meterline.problem import Problem, ProblemType

NOW_MS = 1_790_000_000_123
RULES = AdmissionRules(partitions=16)
EVENT: dict[str, Any] = {
    "specversion": "1.0",
    "id": "event-1",
    "source": "service-a",
    "type": "request",
    "subject": "customer-1",
}


def text(**members: object) -> bytes:
    """An event's JSON with some members changed; Ellipsis takes one out."""
    merged = {**EVENT, **members}
    return json.dumps({name: value for name, value in merged.items() if value is not ...}).encode()


def admitted(body: bytes, form: BodyForm = BodyForm.ONE) -> list[bytes]:
    """The stored texts of a body that must be good."""
    return [stored for _, stored in admit(body, form, "default", NOW_MS, RULES)]


def refused(body: bytes, form: BodyForm = BodyForm.ONE, rules: AdmissionRules = RULES) -> Problem:
    """The problem of a body that must be bad."""
    with pytest.raises(Problem) as caught:
        admit(body, form, "default", NOW_MS, rules)
    return caught.value


def fault(body: bytes) -> tuple[str, str]:
    """Field and rule of the only fault of a single event."""
    problem = refused(body)
    assert problem.type is ProblemType.INVALID_EVENT
    (found,) = problem.faults
    assert found.reason
    assert found.index is None
    return found.field, found.rule


@pytest.mark.parametrize(
    ("header", "form"),
    [
        ("application/cloudevents+json", BodyForm.ONE),
        ("application/cloudevents+json; charset=utf-8", BodyForm.ONE),
        ("Application/CloudEvents-Batch+JSON ;charset=UTF-8", BodyForm.BATCH),
        ("application/json", BodyForm.EITHER),
    ],
)
def test_content_types_that_are_known(header: str, form: BodyForm) -> None:
    assert body_form(header) is form


@pytest.mark.parametrize("header", [None, "", "text/plain", "application/xml", "json", "a" * 5000])
def test_other_content_types_are_refused(header: str | None) -> None:
    with pytest.raises(Problem, match="application/cloudevents-batch\\+json") as caught:
        body_form(header)
    assert caught.value.type is ProblemType.UNSUPPORTED_CONTENT_TYPE
    assert caught.value.type.status == 400
    assert len(caught.value.detail) < 400


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"data": None},
        {"data": {}},
        {"data": {"a": 1, "b": [1, {"c": "x"}], "d": None, "e": True, "f": 1.5e3, "g": "1.5"}},
        {
            "data": {
                'quo"te\\': 'back\\slash "and" quote',
                "\u00e9": "\u20ac",
                "emoji": "\U0001f600",
            }
        },
        {"time": None},
        {"time": "2026-01-31T00:00:00Z"},
        {"time": "2026-01-31T00:00:00.123456789+05:30"},
        {"time": "1970-01-01T00:00:00Z"},
        {"time": "2099-12-31T23:59:59.999999Z"},
        {"time": "2099-12-31T23:59:59.9999999Z"},
        {"time": "2026-01-31 00:00:00+00:00"},
        {"time": "2026-01-31T00:00:00." + "0" * 5_000 + "Z"},
        {"datacontenttype": "application/json"},
        {"datacontenttype": None, "dataschema": None},
        {"dataschema": "https://example.com/schema"},
        {"traceparent": "00-abc-def-01", "sampled": True, "level": 7},
        {"traceparent": 'with \u00e9 and \\ and "'},
        {"subject": "with\u00a0no-break space"},
        {"id": "x" * ATTRIBUTE_CHARS_MAX},
        {"data": {"big": 10**400, "tiny": 0.1e-300}},
    ],
)
def test_good_events(members: dict[str, object]) -> None:
    for body in (text(**members), json.dumps({**EVENT, **members}, ensure_ascii=False).encode()):
        (stored,) = admitted(body)
        assert stored.startswith(body[:-1])
        event = decode_event(stored)
        wanted = {**EVENT, **members}
        assert (event.id, event.source) == (wanted["id"], wanted["source"])
        assert (event.type, event.subject) == (wanted["type"], wanted["subject"])
        assert event.namespace == "default"
        assert event.recorded_ms == NOW_MS
        if wanted.get("time") is None:
            assert event.time_ms == NOW_MS


def test_numbers_are_not_touched() -> None:
    body = (
        b'{"specversion":"1.0","id":"1","source":"s","type":"t","subject":"u",'
        b'"data":{"a":0.10,"b":1e999,"c":-0.0,"d":12345678901234567890.123456789}}'
    )
    (stored,) = admitted(body)
    assert stored[: len(body) - 1] == body[:-1]


@pytest.mark.parametrize("name", ["id", "source", "type", "subject", "specversion"])
def test_required_attributes(name: str) -> None:
    assert fault(text(**{name: ...})) == (name, "required")
    assert fault(text(**{name: 7})) == (name, "type")
    assert fault(text(**{name: None})) == (name, "type")


@pytest.mark.parametrize(
    ("members", "field", "rule"),
    [
        ({"id": ""}, "id", "min_length"),
        ({"source": "x" * (ATTRIBUTE_CHARS_MAX + 1)}, "source", "max_length"),
        ({"subject": "a\x00b"}, "subject", "matches_regex"),
        ({"subject": "a\x7fb"}, "subject", "matches_regex"),
        ({"type": "line\nbreak"}, "type", "matches_regex"),
        ({"id": "\ud800"}, "id", "json"),
        ({"specversion": "0.3"}, "specversion", "enum"),
        ({"datacontenttype": "text/xml"}, "datacontenttype", "enum"),
        ({"datacontenttype": 1}, "datacontenttype", "type"),
        ({"dataschema": ""}, "dataschema", "min_length"),
        ({"time": "yesterday"}, "time", "is_date_time"),
        ({"time": "2026-01-31T00:00:00"}, "time", "is_date_time"),
        ({"time": ""}, "time", "is_date_time"),
        ({"time": 1_790_000_000}, "time", "type"),
        ({"time": "1969-12-31T23:59:59.999Z"}, "time", "minimum"),
        ({"time": "1969-12-31T23:59:59.9999999Z"}, "time", "minimum"),
        ({"time": "2100-01-01T00:00:00Z"}, "time", "maximum"),
        ({"time": "0001-01-01T00:00:00+23:59"}, "time", "minimum"),
        ({"time": "9999-12-31T23:59:59-23:59"}, "time", "maximum"),
        ({"data": "text"}, "data", "type"),
        ({"data": "<usage/>"}, "data", "type"),
        ({"data": [1]}, "data", "type"),
        ({"data": 5}, "data", "type"),
        ({"data": True}, "data", "type"),
        ({"data_base64": "AAAA"}, "data_base64", "unknown_property"),
        ({"Upper": "x"}, "Upper", "unknown_property"),
        ({"with-dash": "x"}, "with-dash", "unknown_property"),
        ({"x" * 21: "x"}, "x" * 21, "unknown_property"),
        ({"": "x"}, "", "unknown_property"),
        ({"extension": {"a": 1}}, "extension", "type"),
        ({"extension": [1]}, "extension", "type"),
        ({"extension": "a\x01"}, "extension", "matches_regex"),
        ({"extension": "a\x7f"}, "extension", "matches_regex"),
        ({"subject": "a\x80"}, "subject", "matches_regex"),
        ({"subject": "a\x9f"}, "subject", "matches_regex"),
        ({"extension": "x" * (ATTRIBUTE_CHARS_MAX + 1)}, "extension", "max_length"),
        ({"namespace": "mine"}, "namespace", "reserved_attribute"),
        ({"recordedtime": "2026-01-31T00:00:00Z"}, "recordedtime", "reserved_attribute"),
        ({"data": {"a": "\udc00"}}, "data.a", "json"),
        ({"data": {"a": float("nan")}}, "data.a", "json"),
        ({"data": {"a": [0, {"b": float("-inf")}]}}, "data.a[1].b", "json"),
        ({"extension": float("inf")}, "extension", "json"),
    ],
)
def test_faults_are_named(members: dict[str, object], field: str, rule: str) -> None:
    assert fault(text(**members)) == (field, rule)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"id":"1","id":"1",' + text()[1:], "id"),
        (text().replace(b'"id"', b'"id":"other","\\u0069d"'), "id"),
        (text(data={})[:-3] + b'{"a":1,"a":1}}', "data.a"),
        (text(data={})[:-3] + b'{"a" :1,"a":1}}', "data.a"),
        (text(data={})[:-3] + b'{"a":"x","\\u0061":"\\"y"}}', "data.a"),
        (text(data={})[:-3] + b'{"l":[{"a":{"b":1,"b":{}}}]}}', "data.l[0].a.b"),
        (text(data={})[:-1] + b',"data":{}}', "data"),
        (text(data={})[:-1] + b',"dat\\u0061":{}}', "data"),
    ],
)
def test_repeated_members_are_refused_at_any_depth(body: bytes, field: str) -> None:
    assert fault(body) == (field, "repeated_member")


def test_reserved_names_are_judged_after_decoding() -> None:
    body = text()[:-1] + b',"n\\u0061mespace":"mine"}'
    assert fault(body) == ("namespace", "reserved_attribute")


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (b"", "json"),
        (b"   ", "json"),
        (b"not json", "json"),
        (b"<event/>", "json"),
        (text()[:-1], "json"),
        (text() + b"x", "json"),
        (b"\xef\xbb\xbf" + text(), "json"),
        (text().replace(b"event-1", b"event\xff"), "encoding"),
        (text().replace(b"event-1", b"a\tb"), "json"),
        (b'"text"', "type"),
        (b"17", "type"),
        (b"null", "type"),
        (b"[" + text() + b"]", "type"),
    ],
)
def test_bodies_that_are_no_event(body: bytes, rule: str) -> None:
    assert fault(body) == ("", rule)


def nested(depth: int) -> bytes:
    """An event in which so many objects and arrays stand in each other."""
    inner = b'{"a":' * (depth - 2) + b"1" + b"}" * (depth - 2)
    return text()[:-1] + b',"data":{"d":' + inner + b"}}"


def test_nesting_is_bounded() -> None:
    assert len(admitted(nested(JSON_DEPTH_MAX))) == 1
    assert fault(nested(JSON_DEPTH_MAX + 1))[1] == "max_depth"
    assert fault(nested(5_000))[1] == "max_depth"
    arrays = text()[:-1] + b',"data":{"d":' + b"[" * 50_000 + b"]" * 50_000 + b"}}"
    assert fault(arrays)[1] == "max_depth"


def test_all_faults_of_a_batch_are_listed_with_their_places() -> None:
    bodies = [text(), text(id=""), text(data="x", subject=...), text()]
    problem = refused(b"[" + b",".join(bodies) + b"]", BodyForm.BATCH)
    found = {(fault.index, fault.field, fault.rule) for fault in problem.faults}
    assert found == {(1, "id", "min_length"), (2, "data", "type"), (2, "subject", "required")}
    assert problem.detail == "event 1: id: must not be empty (and 2 more)"


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ('"data":{"a":{"b":[1,%s]}}', "data.a.b[1]"),
        ('"data":{"value":-%s}', "data.value"),
        ('"sampledrate":%s', "sampledrate"),  # counting does not read it, lists of events do
    ],
)
def test_an_integer_without_end_is_named(members: str, field: str) -> None:
    longest = INTEGER_TEXT_CHARS_MAX - members.count("-")
    body = text()[:-1].decode() + "," + members + "}"
    assert admitted((body % ("1" * longest)).encode())
    assert fault((body % ("1" * (longest + 1))).encode()) == (field, "max_length")


def test_the_way_to_a_fault_is_cut_where_it_is_long() -> None:
    nested: object = float("nan")
    for _ in range(JSON_DEPTH_MAX - 1):
        nested = {"name" * 20: nested}
    problem = refused(text(data=nested))
    (found,) = problem.faults
    assert found.field.startswith("data.namename")
    assert len(found.field) == 300
    assert len(problem.detail) < 400


def test_the_list_of_faults_is_bounded() -> None:
    problem = refused(b"[" + b",".join([text(id="", source="")] * 300) + b"]", BodyForm.BATCH)
    assert len(problem.faults) == PROBLEM_ERRORS_MAX
    assert problem.detail.endswith(f"(and at least {PROBLEM_ERRORS_MAX - 1} more)")
    many = {f"Bad{number}": 1 for number in range(1000)}
    assert len(refused(text(**many)).faults) == PROBLEM_ERRORS_MAX


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (text(data={"a": float("nan")}), "json"),
        (text()[:-1], "json"),
        (b"nonsense", "json"),
        (text(data={"a": "\ud800"}), "json"),
        (nested(2_000), "max_depth"),
    ],
)
def test_an_event_that_breaks_its_batch_is_named(broken: bytes, rule: str) -> None:
    body = b"[" + text() + b" , " + text() + b"," + broken + b"," + text() + b"]"
    problem = refused(body, BodyForm.BATCH)
    assert (problem.faults[0].index, problem.faults[0].rule) == (2, rule)
    assert problem.detail.startswith("event 2: ")


@pytest.mark.parametrize("tail", [b"", b"]x", b",]", b" x"])
def test_a_broken_batch_is_refused(tail: bytes) -> None:
    problem = refused(b"[" + text() + tail, BodyForm.BATCH)
    assert problem.type is ProblemType.INVALID_EVENT
    assert problem.faults[0].rule == "json"


def test_the_form_of_the_body_is_kept_to() -> None:
    assert "must be an array" in refused(text(), BodyForm.BATCH).detail
    assert "not an array" in refused(b"[" + text() + b"]", BodyForm.ONE).detail
    assert len(admitted(text(), BodyForm.EITHER)) == 1
    assert len(admitted(b" [" + text() + b"]\n", BodyForm.EITHER)) == 1
    assert len(admitted(b"\n" + text() + b"\r\n ", BodyForm.ONE)) == 1


def test_an_empty_batch_is_admitted_as_nothing() -> None:
    assert admitted(b"[]", BodyForm.BATCH) == []
    assert admitted(b" [ ] ", BodyForm.EITHER) == []


def test_an_event_may_be_as_large_as_its_bound_and_no_larger() -> None:
    (stored,) = admitted(text(data={"a": "x" * 1000}))
    size = len(stored)
    exact = AdmissionRules(partitions=1, event_bytes_max=size)
    body = text(data={"a": "x" * 1000})
    assert len(admit(body, BodyForm.ONE, "default", NOW_MS, exact)) == 1
    problem = refused(body, rules=AdmissionRules(partitions=1, event_bytes_max=size - 1))
    assert problem.faults[0].rule == "max_length"
    assert str(size) in problem.detail


def test_a_batch_has_a_bound() -> None:
    rules = AdmissionRules(partitions=1, batch_events_max=3)
    body = b"[" + b",".join([text()] * 4) + b"]"
    problem = refused(body, BodyForm.BATCH, rules)
    assert problem.type is ProblemType.BODY_TOO_LARGE


def test_bounds_of_time_relative_to_now() -> None:
    rules = AdmissionRules(partitions=1, past_ms_max=60_000, future_ms_max=1_000)

    def at(offset_ms: int) -> bytes:
        moment_ms = NOW_MS + offset_ms
        seconds, milliseconds = divmod(moment_ms, 1000)
        return text(time=f"2026-09-21T{_clock(seconds)}.{milliseconds:03d}Z")

    for offset_ms in (-60_000, 0, 1_000):
        assert len(admit(at(offset_ms), BodyForm.ONE, "n", NOW_MS, rules)) == 1
    assert refused(at(-60_001), rules=rules).faults[0].rule == "minimum"
    assert refused(at(1_001), rules=rules).faults[0].rule == "maximum"


def _clock(seconds: int) -> str:
    minutes, second = divmod(seconds % 86_400, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"


def test_the_namespace_is_escaped() -> None:
    ((_, stored),) = admit(text(), BodyForm.ONE, 'a"b\\c', NOW_MS, RULES)
    assert decode_event(stored).namespace == 'a"b\\c'


def test_copies_go_to_the_same_partition() -> None:
    one = admit(text(data={"a": 1}), BodyForm.ONE, "n", NOW_MS, RULES)
    other = admit(text(data={"a": 2}), BodyForm.ONE, "n", NOW_MS + 5, RULES)
    assert one[0][0] == other[0][0]
