"""Cursors of the list of events, and the parts of patterns."""

import base64
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.event import (
    INSTANTS,
    ListedEvent,
    Order,
    Place,
    Verdict,
    decode_cursor,
    encode_cursor,
    like_parts,
)
from meterline.limits import EVENT_CURSOR_CHARS_MAX, EVENT_TIME_MAX_MS
from meterline.usage import NO_POSITION

small = st.integers(0, 65_535)
places = st.builds(
    Place, st.integers(0, EVENT_TIME_MAX_MS), small, small, st.integers(0, 2**53), small
)
orders = st.builds(Order, st.sampled_from(INSTANTS), st.booleans())


@given(orders, places)
def test_a_cursor_leads_back_to_its_place(order: Order, place: Place) -> None:
    cursor = encode_cursor(order, place)
    assert decode_cursor(cursor, order) == place
    assert len(cursor) <= EVENT_CURSOR_CHARS_MAX
    assert cursor.isascii()
    assert set(cursor) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"), (
        "it stands in a URL as it is"
    )


@given(orders, orders, places)
def test_a_cursor_of_another_order_is_refused(one: Order, other: Order, place: Place) -> None:
    if one == other:
        return
    with pytest.raises(ValueError, match="keep the order of that list"):
        decode_cursor(encode_cursor(one, place), other)


@given(st.text(max_size=200))
def test_whatever_is_no_cursor_is_refused_with_words(text: str) -> None:
    with pytest.raises(ValueError, match="is not a cursor of this list"):
        decode_cursor(text, Order())


@given(orders, places, st.data())
def test_a_damaged_cursor_is_refused_or_leads_to_a_place(
    order: Order, place: Place, data: st.DataObject
) -> None:
    cursor = encode_cursor(order, place)
    at = data.draw(st.integers(0, len(cursor) - 1))
    damaged = cursor[:at] + data.draw(st.sampled_from("aZ09-_=%\x00é")) + cursor[at + 1 :]
    found = None
    with contextlib.suppress(ValueError):
        found = decode_cursor(damaged, order)
    assert found is None or max(found.log, found.partition, found.place) < 65_536


@pytest.mark.parametrize(
    "plain",
    [
        "time desc 1 65536.0.0.0",
        "time desc 1 0.0.0.65536",
        "time desc -1 0.0.0.0",
        "id desc 1 0.0.0.0",
        "time desc 1 0.0.0",
        "time desc \u0661 0.0.0.0",
        "time desc 1 0.0.0.0\n",
    ],
)
def test_a_place_that_no_event_has_is_refused(plain: str) -> None:
    cursor = base64.urlsafe_b64encode(plain.encode()).decode()
    with pytest.raises(ValueError, match="is not a cursor"):
        decode_cursor(cursor, Order())


def test_an_event_stands_where_its_instant_says() -> None:
    event = ListedEvent(
        1, 2, 3, 4, 500, "n", "t", "x", "s", "a", 300, 400, b"{}", Verdict.NEW, NO_POSITION, "", ""
    )
    by = {column: event.place_by(Order(column)).at_ms for column in INSTANTS}
    assert list(by.values()) == [300, 400, 500]
    assert event.place_by(Order())[1:] == (1, 2, 3, 4)
    assert event.position == "1.2.3.4"


@given(st.text(alphabet="ab%_\\\n", max_size=20))
def test_the_parts_of_a_pattern_are_all_of_it(pattern: str) -> None:
    parts = like_parts(pattern)
    assert "".join(parts) == pattern
    assert all(len(part) == 1 or part in ("\\%", "\\_", "\\\\") for part in parts)
