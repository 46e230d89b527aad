import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.event import decode_event, identity_key, partition_of, payload_check
from meterline.event.event import instant_ms

PARTS = st.text(max_size=6)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


def stored(**members: object) -> bytes:
    """The text of an event as it stands in a pack."""
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": "1",
        "source": "s",
        "type": "t",
        "subject": "u",
        "namespace": "n",
        "recordedtime": "2026-01-31T00:00:00.123Z",
        **members,
    }
    return json.dumps(event).encode()


@given(st.tuples(PARTS, PARTS, PARTS), st.tuples(PARTS, PARTS, PARTS))
def test_keys_are_equal_only_for_equal_identities(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    assert (identity_key(*one) == identity_key(*other)) == (one == other)
    assert len(identity_key(*one)) == 16


def test_parts_of_an_identity_cannot_run_into_each_other() -> None:
    keys = {
        identity_key("a", "b", "c"),
        identity_key("ab", "", "c"),
        identity_key("", "ab", "c"),
        identity_key("a", "", "bc"),
        identity_key("1:a", "b", "c"),
    }
    assert len(keys) == 5


def test_the_key_never_changes() -> None:
    """Golden: another key would be another identity for all that is stored."""
    key = identity_key("default", "service-a", "event-1")
    assert key.hex() == GOLDEN_KEY
    assert partition_of(key, 16) == int(GOLDEN_KEY[:8], 16) % 16


GOLDEN_KEY = "fc148232569ae29fe1316adf5fc0fada"


@given(st.binary(min_size=16, max_size=16), st.integers(1, 1024))
def test_partitions_are_within_their_number(key: bytes, partitions: int) -> None:
    assert 0 <= partition_of(key, partitions) < partitions


@given(VALUES, VALUES)
def test_checks_are_equal_only_for_equal_payloads(one: object, other: object) -> None:
    equal = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (payload_check("t", "s", 1, one) == payload_check("t", "s", 1, other)) == equal


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a":1,"b":2}', b' { "b" : 2 , "a" : 1 } '),
        (b'{"a":1.50}', b'{"a":15e-1}'),
        (b'{"a":1.0}', b'{"a":1}'),
        (b'{"a":1e3}', b'{"a":1000}'),
        (b'{"a":-0.0}', b'{"a":0}'),
        (b'{"a":"\\u0041"}', b'{"a":"A"}'),
        (b'{"a":[0.10,{"c":1,"b":2}]}', b'{"a":[0.1,{"b":2,"c":1.00}]}'),
    ],
)
def test_a_copy_written_anew_has_the_same_check(one: bytes, other: bytes) -> None:
    first, second = (
        decode_event(stored(data=0).replace(b'"data": 0', b'"data":' + data))
        for data in (one, other)
    )
    assert first.check == second.check
    assert first.data == second.data


@pytest.mark.parametrize(
    "members",
    [
        {"type": "other"},
        {"subject": "other"},
        {"time": "2026-01-31T00:00:00Z"},
        {"data": {}},
        {"data": {"a": "1"}},
        {"data": {"a": 1.0000000000000000000000000001}},
    ],
)
def test_another_payload_has_another_check(members: dict[str, object]) -> None:
    assert decode_event(stored(**members)).check != decode_event(stored()).check


def test_recordedtime_and_extensions_are_no_part_of_the_check() -> None:
    other = decode_event(stored(recordedtime="2026-02-01T00:00:00Z", traceparent="x"))
    assert other.check == decode_event(stored()).check
    assert other.key == decode_event(stored()).key


def test_an_event_without_time_counts_when_it_was_recorded() -> None:
    event = decode_event(stored(time=None))
    assert event.time_ms == event.recorded_ms == instant_ms(RECORDED)
    assert decode_event(stored(time="2026-01-31T02:00:00.9999+02:00")).time_ms == (
        event.recorded_ms - 123 + 999
    )


RECORDED = datetime(2026, 1, 31, 0, 0, 0, 123_000, tzinfo=UTC)


def test_numbers_are_exact() -> None:
    text = stored(data=0).replace(b'"data": 0', b'"data":{"a":0.1,"b":12345678901234567890.5}')
    assert decode_event(text).data == {"a": Decimal("0.1"), "b": Decimal("12345678901234567890.5")}
    assert decode_event(memoryview(text)).text == text


@given(
    st.datetimes(datetime(1970, 1, 1), datetime(2099, 12, 31)),  # noqa: DTZ001 - made aware below
    st.integers(-23 * 60, 23 * 60),
)
def test_instants_are_cut_to_milliseconds_never_rounded_up(at: datetime, offset: int) -> None:
    aware = at.replace(tzinfo=timezone(timedelta(minutes=offset)))
    exact = (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert instant_ms(aware) == exact


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[]", b"null", b'{"id":1}', stored(namespace=None), stored(time="x")]
)
def test_what_is_no_event_is_an_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        decode_event(text)
