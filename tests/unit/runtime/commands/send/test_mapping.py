import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.runtime.commands.send.mapping import MappingError, RowReader, parse_mapping

HEADER = ["id", "carrier", "at", "miles", "a,b"]
FLIGHT = "id=id, source='airports', type='flight', subject=carrier"


def _event(mapping: str, row: list[str], nulls: tuple[str, ...] = ("",)) -> dict[str, object]:
    reader = RowReader(parse_mapping([mapping]), HEADER, nulls)
    event: dict[str, object] = json.loads(reader.event(row, 7), parse_float=Decimal)
    return event


def _value(entry: str, cell: str) -> object:
    event = _event(f"{FLIGHT}, data.value=miles:{entry}", ["1", "UA", "", cell, ""])
    data = event["data"]
    assert isinstance(data, dict)
    return data["value"]


def test_columns_and_texts_become_attributes() -> None:
    assert _event(FLIGHT, ["1", "UA", "", "", ""]) == {
        "specversion": "1.0",
        "id": "1",
        "source": "airports",
        "type": "flight",
        "subject": "UA",
    }


def test_entries_may_come_in_several_mappings() -> None:
    parts = ["id=id,source='a'", "type='b'", "subject=carrier"]
    assert len(parse_mapping(parts)) == 4
    assert parse_mapping([]) == ()


def test_a_text_holds_cells_quotes_braces_and_the_row_number() -> None:
    mapping = FLIGHT.replace("id=id", "id='{id}-{a,b}, it''s {{{#}}} {at}'")
    assert _event(mapping, ["1", "UA", "", "", "x"])["id"] == "1-x, it's {7} "


def test_a_column_with_odd_letters_is_named_in_a_text_and_may_be_null() -> None:
    mapping = f"{FLIGHT}, data.x='{{a,b}}', data.y.z=at"
    assert _event(mapping, ["1", "UA", "", "", ""])["data"] == {"x": None, "y": {"z": None}}


def test_an_empty_cell_is_null_in_data_and_left_out_of_attributes() -> None:
    event = _event(f"{FLIGHT}, time=at:time, data.miles=miles:number", ["1", "UA", "", "", ""])
    assert "time" not in event
    assert event["data"] == {"miles": None}


def test_other_texts_may_mean_null() -> None:
    mapping = f"{FLIGHT}, data.at=at, data.miles=miles:number"
    event = _event(mapping, ["1", "UA", "", "NA", ""], nulls=("NA", "null"))
    assert event["data"] == {"at": "", "miles": None}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("5", "5"),
        ("-0.10", "-0.10"),
        ("1e3", "1e3"),
        (" 12345678901234567890.123456789012345678 ", "12345678901234567890.123456789012345678"),
        ("+5", "5"),
        ("007", "7"),
        ("-00.5", "-0.5"),
        (".5", "0.5"),
        ("5.", "5"),
        ("000", "0"),
    ],
)
def test_numbers_keep_their_digits(text: str, written: str) -> None:
    reader = RowReader(parse_mapping([f"{FLIGHT}, data.value=miles:number"]), HEADER)
    assert f'"value":{written}}}'.encode() in reader.event(["1", "UA", "", text, ""], 1)


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_every_decimal_goes_through_unchanged(value: Decimal) -> None:
    found = _value("number", str(value))
    assert isinstance(found, int | Decimal)
    assert Decimal(found) == value


@pytest.mark.parametrize(
    "text", ["-", ".", "e5", "1,5", "NaN", "inf", "0x1", "1 2", "\u0663", "--1"]
)
def test_what_is_no_number_is_told_with_its_column(text: str) -> None:
    with pytest.raises(MappingError, match=r"column 'miles'.*is not a number"):
        _value("number", text)


@pytest.mark.parametrize(
    ("kind", "cell", "value"),
    [
        ("boolean", "TRUE", True),
        ("boolean", "0", False),
        ("json", '{"a": [1.50]}', {"a": [Decimal("1.50")]}),
        ("string", " 5 ", " 5 "),
        ("time", "2013-01-01 05:00", "2013-01-01T05:00:00+00:00"),
        ("time", "2013-01-01T05:00:00.5-05:00", "2013-01-01T05:00:00.500000-05:00"),
        ("unix", "1357020000", "2013-01-01T06:00:00Z"),
        ("unix", "1357020000.0015", "2013-01-01T06:00:00.001Z"),
        ("unix_ms", "1357020000500", "2013-01-01T06:00:00.500Z"),
    ],
)
def test_cells_are_read_by_their_type(kind: str, cell: str, value: object) -> None:
    assert _value(kind, cell) == value


@pytest.mark.parametrize(
    ("kind", "cell"),
    [
        ("boolean", "yes"),
        ("json", "{"),
        ("time", "yesterday"),
        ("unix", "soon"),
        ("unix", "NaN"),
        ("unix", "1e999999"),
        ("unix_ms", "1e14000"),
    ],
)
def test_what_a_type_cannot_read_is_told(kind: str, cell: str) -> None:
    with pytest.raises(MappingError, match="column 'miles'"):
        _value(kind, cell)


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ("id=id", "has no source, type, subject"),
        (f"{FLIGHT}, colour", "cannot read 'colour'"),
        (f"{FLIGHT}, data.x=miles:float", "float is not a type"),
        (f"{FLIGHT}, id=carrier", "id and id cannot both"),
        (f"{FLIGHT}, data.a=miles, data.a.b=miles", "data.a and data.a.b cannot both"),
        (f"{FLIGHT}, data.a=miles, data=miles:json", "data.a and data cannot both"),
        (f"{FLIGHT}, data=miles", "data must be a column with JSON"),
        (f"{FLIGHT}, time=at:number", "time: an attribute"),
        (f"{FLIGHT}, meta.x=at", "meta.x: an attribute"),
        (f"{FLIGHT}, data.x='open", "cannot read"),
    ],
)
def test_a_wrong_mapping_is_told(mapping: str, words: str) -> None:
    with pytest.raises(MappingError, match=words):
        parse_mapping([mapping])


def test_an_unknown_column_is_told_with_those_there_are() -> None:
    with pytest.raises(MappingError, match="no column 'tail'; columns are id, carrier, at"):
        RowReader(parse_mapping([f"{FLIGHT}, data.x=tail"]), HEADER)


def test_a_row_that_does_not_fit_is_told() -> None:
    reader = RowReader(parse_mapping([FLIGHT]), HEADER)
    with pytest.raises(MappingError, match="has 2 cells, the header has 5"):
        reader.event(["1", "UA"], 1)
    with pytest.raises(MappingError, match=r"subject .column 'carrier'. is empty"):
        reader.event(["1", "", "", "", ""], 1)
