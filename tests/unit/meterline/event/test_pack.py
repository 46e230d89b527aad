import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.event import (
    Event,
    Record,
    RecordKind,
    Refusal,
    Unreadable,
    decode_record,
    encode_pack,
    encode_refusal,
    identity_key,
    index_of,
    offset_of,
    position,
    record_digest,
)
from meterline.limits import PACK_EVENTS_MAX, POSITION_INDEX_BITS


def record(value: bytes, kind: RecordKind = RecordKind.PACK) -> Record:
    return Record(2, 7, 1_000, kind, value, "log")


def text(number: int) -> bytes:
    return json.dumps(
        {
            "specversion": "1.0",
            "id": str(number),
            "source": "s",
            "type": "t",
            "subject": "u",
            "namespace": "n",
            "recordedtime": "2026-01-31T00:00:00.000Z",
        }
    ).encode()


@given(
    st.lists(
        st.tuples(st.integers(0, 2**50), st.integers(0, 2**POSITION_INDEX_BITS - 1)), min_size=2
    )
)
def test_positions_order_as_offset_and_index_do(pairs: list[tuple[int, int]]) -> None:
    assert [position(*pair) for pair in sorted(pairs)] == sorted(position(*p) for p in pairs)
    for offset, index in pairs:
        both = position(offset, index)
        assert (offset_of(both), index_of(both)) == (offset, index)
    assert PACK_EVENTS_MAX < 2**POSITION_INDEX_BITS


@given(st.lists(st.one_of(st.integers(0, 99).map(text), st.just(b'{"id":5}')), max_size=30))
def test_a_pack_gives_back_its_events_in_their_places(texts: list[bytes]) -> None:
    found = decode_record(record(encode_pack(texts)))
    assert len(found) == len(texts)
    for index, (event, sent) in enumerate(zip(found, texts, strict=True)):
        if sent == b'{"id":5}':
            assert isinstance(event, Unreadable)
            assert (event.index, event.text) == (index, sent)
            assert event.reason
        else:
            assert isinstance(event, Event)
            assert event.text == sent


NAMES = st.sampled_from(["a", "b", "1:b", ""])


@given(st.lists(st.tuples(NAMES, NAMES, NAMES), max_size=8))
def test_events_of_a_pack_have_the_keys_of_their_own_identities(
    identities: list[tuple[str, str, str]],
) -> None:
    names = ("namespace", "source", "id")
    texts = [
        json.dumps(json.loads(text(0)) | dict(zip(names, it, strict=True))).encode()
        for it in identities
    ]
    found = decode_record(record(encode_pack(texts)))
    assert [it.key for it in found if isinstance(it, Event)] == [
        identity_key(*it) for it in identities
    ]


@pytest.mark.parametrize(
    "value",
    [b"", b"{}", b"null", b"[", b"[1,]", b"\xff", b"[" * 100_000, text(1), b"[" + text(1) + b"]x"],
)
def test_what_is_no_pack_is_one_unreadable(value: bytes) -> None:
    (found,) = decode_record(record(value))
    assert isinstance(found, Unreadable)
    assert (found.index, found.text) == (0, value)
    assert found.reason.startswith("not a pack")


@given(st.binary(max_size=200), st.sampled_from(RecordKind))
def test_no_record_brings_down_its_reader(value: bytes, kind: RecordKind) -> None:
    for found in decode_record(record(value, kind)):
        assert isinstance(found, Unreadable)


@given(st.binary(max_size=40))
def test_no_event_brings_down_its_reader(poison: bytes) -> None:
    nasty = text(1)[:-1] + b',"data":{"a":' + poison + b"}}"
    decode_record(record(encode_pack([text(0), nasty, text(2)])))


@pytest.mark.parametrize(
    "data",
    [b"1" * 5_000, b"[" * 60_000 + b"]" * 60_000, b'"\xff"', b"1e99999999999", b'"\\ud800"', b"-"],
)
def test_poison_in_one_event_leaves_the_others(data: bytes) -> None:
    nasty = text(1)[:-1] + b',"data":{"a":' + data + b"}}"
    found = decode_record(record(encode_pack([text(0), nasty])))
    assert isinstance(found[0], Event | Unreadable)
    if len(found) == 2:
        assert isinstance(found[0], Event)


def test_too_many_events_are_no_pack() -> None:
    (found,) = decode_record(record(encode_pack([text(1)] * (PACK_EVENTS_MAX + 1))))
    assert isinstance(found, Unreadable)
    assert len(decode_record(record(encode_pack([text(1)] * PACK_EVENTS_MAX)))) == PACK_EVENTS_MAX


@pytest.mark.parametrize(
    ("sent_ms", "kept_ms"), [(None, None), (5, 5), (-1, None), (1 << 62, None), (1 << 70, None)]
)
def test_a_refusal_whose_time_no_row_could_hold_has_none(
    sent_ms: int | None, kept_ms: int | None
) -> None:
    document = json.loads(encode_refusal(Refusal("n", "t", 1, 2, "id", "why", "{}")))
    value = json.dumps({**document, "append_ms": sent_ms}).encode()
    (found,) = decode_record(record(value, RecordKind.REFUSAL))
    assert isinstance(found, Unreadable)
    assert found.recorded_ms == kept_ms


def test_refusals_keep_their_reason() -> None:
    refusal = Refusal("n", "topic", 1, 2, "id", "must not be empty", "{}")
    value = encode_refusal(refusal)
    (found,) = decode_record(record(value, RecordKind.REFUSAL))
    assert found == Unreadable(0, "id", "must not be empty", b"{}", "n", "topic", "1/2")
    (broken,) = decode_record(record(b"{}", RecordKind.REFUSAL))
    assert isinstance(broken, Unreadable)
    assert broken.reason.startswith("not a refusal")


def test_a_digest_is_that_of_place_time_kind_and_value() -> None:
    one = record(b"[1]")
    assert record_digest(one).hex() == "6160951ed5473b270c553cba5baaaa92"
    others = [
        replace(one, partition=3),
        replace(one, offset=8),
        replace(one, append_ms=1_001),
        replace(one, kind=RecordKind.REFUSAL),
        replace(one, value=b"[1] "),
    ]
    assert len({record_digest(it) for it in [one, *others]}) == len(others) + 1
    assert record_digest(replace(one, log_id="")) == record_digest(one), "that is looked at itself"


@given(st.integers(0, 4_102_444_800_000))
def test_an_append_time_is_the_same_by_way_of_fausts_seconds(append_ms: int) -> None:
    assert round(append_ms / 1000.0 * 1000) == append_ms
