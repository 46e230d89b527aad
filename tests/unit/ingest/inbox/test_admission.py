import json

import pytest

from ingest.admission import AdmissionRules
from ingest.inbox.admission import InboxRecord, admit_record, refusal_partition, refuse
from meterline.event import (
    Record,
    RecordKind,
    Refusal,
    Unreadable,
    decode_event,
    decode_record,
    encode_refusal,
)
from meterline.limits import REJECT_TEXT_BYTES_MAX

RULES = AdmissionRules(partitions=8)
EVENT = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "subject": "u"}
BINARY = [(f"ce_{name}", value.encode()) for name, value in EVENT.items()]
AT_MS = 1_790_000_000_123


def record(value: bytes, *headers: tuple[str, bytes | None]) -> InboxRecord:
    return InboxRecord("usage", 3, 17, AT_MS, headers, value)


def admitted(value: bytes, *headers: tuple[str, bytes | None]) -> dict[str, object]:
    """The stored event as JSON."""
    outcome = admit_record(record(value, *headers), "space", RULES)
    assert not isinstance(outcome, Refusal), outcome
    event = decode_event(outcome[1])
    assert (event.namespace, event.recorded_ms) == ("space", AT_MS)
    stored: dict[str, object] = json.loads(outcome[1])
    return stored


def refused(value: bytes, *headers: tuple[str, bytes | None]) -> Refusal:
    outcome = admit_record(record(value, *headers), "space", RULES)
    assert isinstance(outcome, Refusal)
    assert (outcome.namespace, outcome.topic) == ("space", "usage")
    assert (outcome.partition, outcome.offset) == (3, 17)
    assert outcome.reason
    return outcome


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("content-type", b"application/cloudevents+json")],
        [("Content-Type", b"application/cloudevents+json; charset=UTF-8")],
        [("content-type", b"application/json"), ("other", b"\xff")],
    ],
)
def test_structured_records(headers: list[tuple[str, bytes]]) -> None:
    stored = admitted(json.dumps({**EVENT, "data": {"a": 1}}).encode(), *headers)
    assert stored["data"] == {"a": 1}


def test_binary_records() -> None:
    extra = ("ce_traceparent", b"00-1"), ("ce_time", b"2026-01-31T00:00:00Z"), ("other", b"x")
    stored = admitted(
        b' {"a": 0.10} ', ("content-type", b"application/json; charset=utf-8"), *BINARY, *extra
    )
    assert {name: stored[name] for name in EVENT} == EVENT
    assert stored["data"] == {"a": 0.1}
    assert (stored["traceparent"], stored["time"]) == ("00-1", "2026-01-31T00:00:00Z")
    assert stored["datacontenttype"] == "application/json"
    assert "other" not in stored
    assert "data" not in admitted(b"", *BINARY)


@pytest.mark.parametrize(
    ("value", "headers", "field"),
    [
        (b"not json", [], ""),
        (b"", [], ""),
        (b"\xff", [], ""),
        (b"[]", [], ""),
        (json.dumps({**EVENT, "id": ""}).encode(), [], "id"),
        (b"[]", [("content-type", b"application/cloudevents-batch+json")], "content-type"),
        (b"x", [("content-type", b"application/cloudevents+avro")], "content-type"),
        (b"<a/>", BINARY, "data"),
        (b'{"a":NaN}', BINARY, "data"),
        (b'1},"id":"2","x":{', BINARY, "data"),
        (b'"text"', BINARY, "data"),
        (b"{}", [("content-type", b"text/plain"), *BINARY], "datacontenttype"),
        (b"{}", BINARY[1:], "specversion"),
        (b"{}", [*BINARY, ("ce_namespace", b"mine")], "namespace"),
        (b"{}", [*BINARY, ("ce_data", b"{}")], "data"),
        (b"{}", [*BINARY, ("ce_subject", b"\xff")], "ce_subject"),
    ],
)
def test_refusals(value: bytes, headers: list[tuple[str, bytes]], field: str) -> None:
    refusal = refused(value, *headers)
    assert refusal.field == field
    stored = Record(0, 5, AT_MS, RecordKind.REFUSAL, encode_refusal(refusal), "log")
    (found,) = decode_record(stored)
    assert isinstance(found, Unreadable)
    assert (found.field, found.reason) == (field, refusal.reason)


def test_what_was_refused_is_kept_cut() -> None:
    refusal = refused(b"x" * (REJECT_TEXT_BYTES_MAX + 1))
    assert refusal.text == "x" * REJECT_TEXT_BYTES_MAX


def test_of_a_record_in_binary_mode_the_whole_event_is_kept() -> None:
    headers = [one for one in BINARY if one[0] != "ce_subject"]
    refusal = refused(b'{"a": 0.10}', *headers)
    kept = {name: value for name, value in EVENT.items() if name != "subject"}
    assert json.loads(refusal.text) == {**kept, "data": {"a": 0.1}}
    assert '{"a": 0.10}' in refusal.text, "data stays as it was sent"
    assert refused(b"{", *headers).text == "{", "no event can be made of it"


def test_a_refusal_has_the_time_of_its_record() -> None:
    assert refused(b"x").append_ms == AT_MS
    unread = InboxRecord("usage", 3, 17, 0, (), b"")  # of one that could not be decoded
    assert refuse(unread, "space", "", "why").append_ms is None


def test_a_refusal_has_one_partition() -> None:
    one = refused(b"x")
    assert refusal_partition(one, 8) == refusal_partition(one, 8)
    spread = {
        refusal_partition(Refusal("n", "t", 0, offset, "", "", ""), 8) for offset in range(100)
    }
    assert spread == set(range(8))


def test_a_header_without_a_value_is_as_one_that_is_absent() -> None:
    whole = json.dumps(EVENT).encode()
    for name in ("content-type", "other", "ce_subject"):
        assert admitted(whole, (name, None))["id"] == "1"
    assert "time" not in admitted(b"{}", *BINARY, ("ce_time", None))
    assert refused(b"{}", *BINARY[:-1], ("ce_subject", None)).field == "subject"


@pytest.mark.parametrize(
    ("append_ms", "rules"), [(10**18, RULES), (AT_MS, AdmissionRules(partitions=0))]
)
def test_whatever_goes_wrong_with_a_record_is_a_refusal(
    append_ms: int, rules: AdmissionRules
) -> None:
    odd = InboxRecord("usage", 3, 17, append_ms, (), json.dumps(EVENT).encode())
    outcome = admit_record(odd, "space", rules)
    assert isinstance(outcome, Refusal)
    assert (outcome.partition, outcome.offset, outcome.field) == (3, 17, "")
    assert outcome.reason.startswith("cannot be read: ")
