"""Exact decimals from the JSON text to the report, never float (docs/architecture.md, "Numbers").

A value has at most 20 digits before the point and 18 behind it; digits beyond are rounded
half-even. It is carried as a *scaled integer*: the value times 10**18. Python's decimal context
rounds at 28 digits in silence, so every operation here names a context that is wide enough.
"""

import decimal
import re
from decimal import Decimal
from typing import Final

from meterline.limits import INTEGER_DIGITS_MAX, NUMBER_CHARS_MAX, SCALE

UNIT: Final = 10**SCALE
SCALED_MAX: Final = 10 ** (INTEGER_DIGITS_MAX + SCALE) - 1
_MILLION: Final = 1_000_000
_INTEGER_MAX: Final = 10**INTEGER_DIGITS_MAX - 1
_EXACT: Final = decimal.Context(
    prec=decimal.MAX_PREC,
    rounding=decimal.ROUND_HALF_EVEN,
    Emax=decimal.MAX_EMAX,
    Emin=decimal.MIN_EMIN,
    traps=[],
)
# The grammar of RFC 8259 section 6, and what senders of numeric strings write besides: a leading
# "+", leading zeros, a point without digits before or behind it.
_NUMERIC: Final = re.compile(
    r"([+-]?)(?=\.?[0-9])([0-9]*)(?:\.([0-9]*))?([eE][+-]?[0-9]+)?", re.ASCII
)
_POWERS: Final = tuple(10**exponent for exponent in range(SCALE + 1))
OUT_OF_RANGE: Final = Decimal("Infinity")


def from_json_float(text: str) -> int | Decimal:
    """The value of a JSON number that has a point or an exponent, in one canonical form.

    `1.50` and `15e-1` give equal values, `1.0` gives the integer 1: so a re-serialised copy of an
    event is seen as the same. However a number is written, only its value matters: one of over
    `NUMBER_CHARS_MAX` digits before the point is `OUT_OF_RANGE`, one so near to 0 is 0.
    """
    whole, _, fraction = text.partition(".")
    if len(text) <= NUMBER_CHARS_MAX and fraction.isdecimal():  # as most are written
        if fraction[-1] != "0":
            return Decimal(text)  # it is in that form: no zeros behind, no whole number
        if not fraction.strip("0"):
            return int(whole)  # 227.0, as floats of whole numbers are written
    value = _decimal(text)
    if not value.is_finite():
        return OUT_OF_RANGE
    if not value:
        return 0
    exponent = value.adjusted()
    if abs(exponent) > NUMBER_CHARS_MAX:
        return OUT_OF_RANGE if exponent > 0 else 0
    value = value.normalize(_EXACT)
    return int(value) if value == value.to_integral_value(context=_EXACT) else value


def _decimal(text: str) -> Decimal:
    """The value of a number, `OUT_OF_RANGE` or 0 where its exponent is beyond all decimals."""
    try:
        return Decimal(text)
    except decimal.InvalidOperation:
        digits, _, exponent = text.lower().partition("e")
        return Decimal(0) if exponent.startswith("-") or not digits.strip("+-.0") else OUT_OF_RANGE


def scaled(value: object) -> int | None:
    """The scaled integer of a JSON value, or None where it is no number within range.

    Accepted are numbers and numeric strings (docs/api.md; as in OpenMeter): both by their
    value, however they are written. Booleans, NaN, infinities and everything else are not.
    """
    kind = type(value)
    if kind is int:
        if -_INTEGER_MAX <= value <= _INTEGER_MAX:  # type: ignore[operator]
            return value * UNIT  # type: ignore[operator]
        return None
    if kind is Decimal:
        return _scaled_decimal(value)  # type: ignore[arg-type]
    if kind is str:
        return _scaled_text(value)  # type: ignore[arg-type]
    return None


def _scaled_text(text: str) -> int | None:
    found = _NUMERIC.fullmatch(text)
    if found is None:
        return None
    sign, whole, fraction, exponent = found.groups("")
    if not exponent and len(fraction) <= SCALE and len(whole) <= INTEGER_DIGITS_MAX:
        # Nothing to round and nothing out of range: the digits are the scaled integer.
        result: int = int(whole + fraction) * _POWERS[SCALE - len(fraction)]
        return -result if sign == "-" else result
    return _scaled_decimal(_decimal(text))


def _scaled_decimal(value: Decimal) -> int | None:
    # The exponent is looked at before scaling: 1e999999 must not become a number of a million
    # digits.
    if not value.is_finite():
        return None
    exponent = value.adjusted()
    if exponent >= INTEGER_DIGITS_MAX:
        return 0 if not value else None
    if exponent < -SCALE - 1:
        return 0
    # rounded once, from all its digits: moving the point loses none
    result = int(value.scaleb(SCALE, _EXACT).to_integral_value(None, _EXACT))
    return result if -SCALED_MAX <= result <= SCALED_MAX else None


def why_rejected(value: object) -> str:
    """The reason, in a word, why `scaled` gave None for this value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | Decimal):
        return "out_of_range"
    if isinstance(value, str):
        return "out_of_range" if _NUMERIC.fullmatch(value) else "not_a_number"
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list) else "missing"


def text(scaled_value: int) -> str:
    """Decimal text of a scaled integer: no exponent, no trailing zeros, no `-0`."""
    whole, fraction = divmod(abs(scaled_value), UNIT)
    sign = "-" if scaled_value < 0 else ""
    if not fraction:
        return f"{sign}{whole}"
    digits = f"{fraction:0{SCALE}d}".rstrip("0")
    return f"{sign}{whole}.{digits}"


def fixed(scaled_value: int) -> str:
    """Decimal text with six decimals, rounded half-even, as the peer's tables have it."""
    millionths = divided(scaled_value, UNIT // _MILLION)
    whole, fraction = divmod(abs(millionths), _MILLION)
    return f"{'-' if millionths < 0 else ''}{whole}.{fraction:06d}"


def from_text(decimal_text: str) -> int:
    """The scaled integer that `text` made this text of, however long it is."""
    whole, _, fraction = decimal_text.removeprefix("-").partition(".")
    value = int(whole + fraction.ljust(SCALE, "0"))
    return -value if decimal_text.startswith("-") else value


def divided(total: int, count: int) -> int:
    """`total / count` as a scaled integer, rounded half-even to 18 digits. `count` is positive."""
    quotient, rest = divmod(total, count)
    twice = 2 * rest
    if twice > count or (twice == count and quotient % 2):
        quotient += 1
    return quotient


def canonical_scalar(value: object) -> str | None:
    """Canonical text of a JSON scalar, or None for null, objects, arrays and what is missing.

    Strings as they are, numbers without exponent and trailing zeros, booleans `true` and `false`.
    It names group values and the members of a unique count.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if abs(value) < 10**NUMBER_CHARS_MAX else "out_of_range"
    if isinstance(value, Decimal):
        return f"{value:f}" if value.is_finite() else "out_of_range"
    return None
