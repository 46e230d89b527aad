import json
import re
from decimal import ROUND_HALF_EVEN, Context, Decimal

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from meterline.limits import NUMBER_CHARS_MAX
from meterline.number import (
    OUT_OF_RANGE,
    SCALED_MAX,
    UNIT,
    canonical_scalar,
    divided,
    from_json_float,
    scaled,
    text,
    why_rejected,
)

WIDE = Context(prec=3000, rounding=ROUND_HALF_EVEN)
DIGITS = st.text("0123456789", min_size=1, max_size=45)


@st.composite
def json_floats(draw: st.DrawFn) -> str:
    """JSON numbers with a point, an exponent, or both."""
    whole = draw(DIGITS).lstrip("0") or "0"
    fraction = f".{draw(DIGITS)}" if draw(st.booleans()) else ""
    exponent = f"e{draw(st.integers(-60, 60))}" if draw(st.booleans()) or not fraction else ""
    return draw(st.sampled_from(["", "-"])) + whole + fraction + exponent


@given(json_floats())
def test_numbers_keep_their_value_in_one_form(written: str) -> None:
    value = from_json_float(written)
    exact = Decimal(written)
    assert value == exact
    if exact == int(exact):
        assert type(value) is int
    shifted = f"{exact.scaleb(7, WIDE):f}e-7"
    assert repr(from_json_float(shifted)) == repr(value)


@pytest.mark.parametrize(
    "written", ["1e999999999", "1e99999999999999999999", "-1e5000", "1" * 2000]
)
def test_what_no_decimal_holds_is_out_of_range(written: str) -> None:
    assert from_json_float(written) == OUT_OF_RANGE
    assert scaled(from_json_float(written)) is None
    assert why_rejected(from_json_float(written)) == "out_of_range"


@pytest.mark.parametrize("written", ["0e999999999", "-0.0", "0.0e-99999", "1e-999999", "1e-5000"])
def test_what_is_nothing_is_zero(written: str) -> None:
    assert scaled(from_json_float(written)) == 0


@given(json_floats())
@example("99999999999999999999.9999999999999999995")
@example("0.0000000000000000005")
@example("0.0000000000000000015")
def test_scaling_rounds_half_even_at_18_digits(written: str) -> None:
    value = scaled(from_json_float(written))
    exact = Decimal(written)
    expected = int(exact.scaleb(18, WIDE).to_integral_value(ROUND_HALF_EVEN, WIDE))
    if abs(exact) < 10**20 and abs(expected) <= SCALED_MAX:
        assert value == expected
    else:
        assert value is None
    assert scaled(written) == value, "a numeric string counts as the number"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        *(("+1", 1), ("01", 1), ("1.", 1), (".5", "0.5"), ("-.5", "-0.5"), ("+0.50E+1", 5)),
        *(("00000000000000000000000.5", "0.5"), ("1.e2", 100), ("-0", 0), ("1e-999999999", 0)),
        *(("1" + "0" * 5_000 + "e-5000", 1), ("0." + "0" * 5_000 + "1e5001", 1)),
        *(("1." + "0" * 5_000, 1), ("0." + "0" * 5_000 + "1", 0), ("0" * 5_000 + "7", 7)),
        *(
            ("0e99999999999999999999", 0),
            ("7e-99999999999999999999", 0),
            ("0." + "3" * 5_000, None),
        ),
        *(("1e20", "out"), ("7e99999999999999999999", "out"), ("1" + "0" * 5_000, "out")),
        *(("", "no"), (".", "no"), ("+", "no"), ("e5", "no"), (".e5", "no"), ("1e", "no")),
        *((" 1", "no"), ("1 ", "no"), ("1_000", "no"), ("1,5", "no"), ("0x10", "no")),
        *(("++1", "no"), ("1.2.3", "no"), ("NaN", "no"), ("inf", "no"), ("\u0661", "no")),
    ],
)
def test_a_text_is_a_number_by_one_rule_and_counts_by_its_value(
    written: str, value: int | str | None
) -> None:
    if value == "no":
        assert (scaled(written), why_rejected(written)) == (None, "not_a_number")
    elif value == "out":
        assert (scaled(written), why_rejected(written)) == (None, "out_of_range")
    else:
        exact = Decimal(written if value is None else value)
        assert scaled(written) == int(exact.quantize(Decimal(1).scaleb(-18)).scaleb(18, WIDE))
        if re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", written):
            found = json.loads(written, parse_float=from_json_float, parse_int=from_json_float)
            assert scaled(found) == scaled(written), "a JSON number counts as its text"


@given(st.integers())
def test_integers(value: int) -> None:
    expected = value * UNIT if abs(value) < 10**20 else None
    assert scaled(value) == expected
    assert scaled(str(value)) == expected


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "null"),
        (True, "boolean"),
        ({}, "object"),
        ([], "array"),
        ("", "not_a_number"),
        ("1,5", "not_a_number"),
        ("0x10", "not_a_number"),
        ("NaN", "not_a_number"),
        ("Infinity", "not_a_number"),
        ("1_000", "not_a_number"),
        (" 1", "not_a_number"),
        ("1\n", "not_a_number"),
        ("\u0661", "not_a_number"),
        ("1" * (NUMBER_CHARS_MAX + 1), "out_of_range"),
        ("1e99999999999999999999", "out_of_range"),
        (10**20, "out_of_range"),
        (Decimal("1e20"), "out_of_range"),
        (OUT_OF_RANGE, "out_of_range"),
        (object(), "missing"),
    ],
)
def test_what_is_no_number_is_rejected_with_its_reason(value: object, reason: str) -> None:
    assert scaled(value) is None
    assert why_rejected(value) == reason


@given(st.integers(-SCALED_MAX * 10**38, SCALED_MAX * 10**38))
def test_text_is_plain_and_exact(value: int) -> None:
    written = text(value)
    assert Decimal(written).scaleb(18, WIDE) == value
    assert "e" not in written.lower()
    assert not written.startswith("-0") or written.startswith("-0.")
    if "." in written:
        assert not written.endswith("0")
    assert json.loads(written, parse_int=Decimal, parse_float=Decimal) == Decimal(written)


@given(st.integers(-(10**60), 10**60), st.integers(1, 10**12))
def test_division_rounds_half_even(total: int, count: int) -> None:
    exact = WIDE.divide(Decimal(total), Decimal(count))
    assert divided(total, count) == int(exact.to_integral_value(ROUND_HALF_EVEN, WIDE))


@given(st.integers(-(10**6), 10**6), st.integers(1, 50))
def test_halves_go_to_the_even_side(half: int, count: int) -> None:
    assert divided((2 * half + 1) * count, 2 * count) % 2 == 0


@given(json_floats())
def test_scalars_have_one_text(written: str) -> None:
    value = from_json_float(written)
    assume(value != OUT_OF_RANGE)
    canonical = canonical_scalar(value)
    assert canonical is not None
    assert Decimal(canonical) == Decimal(written)
    assert "e" not in canonical.lower()
    assert canonical == canonical_scalar(from_json_float(f"{Decimal(written):f}e0"))


def test_other_scalars() -> None:
    assert canonical_scalar("x") == "x"
    assert [canonical_scalar(value) for value in (True, False)] == ["true", "false"]
    assert canonical_scalar(10**2000) == "out_of_range"
    assert canonical_scalar(OUT_OF_RANGE) == "out_of_range"
    nothing: list[object] = [None, {}, []]
    assert [canonical_scalar(value) for value in nothing] == [None, None, None]
