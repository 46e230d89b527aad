"""Files of what a receiver booked: CSV and NDJSON, and what is wrong with others."""

import io

import pytest

from meterline.number import UNIT
from meterline.runtime.commands.booked import Unreadable, bookings
from meterline.runtime.commands.reconciliation import Booking

BOTH = Booking("d1", 3 * UNIT // 2, "r", "é, x", 0, 60_000, 2, "ab")


def test_ndjson_is_read_with_what_it_has() -> None:
    text = (
        '{"delivery_id":"d1","value":"1.5","report":"r","subject":"é, x","revision":2,'
        '"from":"1970-01-01T00:00:00.000Z","to":"1970-01-01T00:01:00Z","sha256":"ab","more":[1]}\n'
        '\n{"id":"d2","value":0.1}\n{"delivery_id":"d3","value":null}'
    )
    assert bookings(io.StringIO(text)) == [BOTH, Booking("d2", UNIT // 10), Booking("d3")]


def test_csv_is_read_by_its_names() -> None:
    text = (
        "\ufeffdelivery_id, value,report,subject,from,to,revision,digest\r\n"
        'd1,1.50,r,"é, x",1970-01-01T00:00:00Z,1970-01-01T00:01:00Z,2,ab\r\n'
        "d2,,,,,,,\r\n"
    )
    assert bookings(io.StringIO(text)) == [BOTH, Booking("d2")]
    assert bookings(io.StringIO("id\nd1\n")) == [Booking("d1")]


@pytest.mark.parametrize("text", ["", "\n\n", "id,value\n"])
def test_nothing_booked_is_a_book_too(text: str) -> None:
    assert bookings(io.StringIO(text)) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"id":"a"}\n{', "line 2 is not JSON"),
        ('{"id":"a"}\n[]', "line 2 is not a JSON object"),
        ('{"value":1}', "line 1: delivery_id is missing"),
        ('{"id":"a","value":"x"}', "line 1: value is not a decimal"),
        ('{"id":"a","value":true}', "line 1: value is not a decimal"),
        ('{"id":"a","subject":1}', "line 1: subject is not text"),
        ('{"id":"a","from":"monday"}', "line 1: from is not a time"),
        ('{"id":"a","revision":"x"}', "line 1: revision is not an integer"),
        ("subject,value\na,1\n", "line 1 has no column delivery_id"),
        ("id,value\na\n", "line 2 has more or fewer fields"),
        ("id,value\na,1,2\n", "line 2 has more or fewer fields"),
        ('id,value\n"a,1\n', "is not CSV"),
        ("id,value\n,1\n", "line 2: delivery_id is missing"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, words: str) -> None:
    with pytest.raises(Unreadable, match=words):
        bookings(io.StringIO(text))
