from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.refusals.difference import ABSENT, Absent, Difference, differences
from meterline.event import payload_check
from meterline.number import from_json_float

NAMES = st.sampled_from(["a", "b", "c", "data", "a b", 'q"', "é", ""])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.decimals(-2, 2, places=1, allow_nan=False)
    | st.sampled_from(["", "1", "x", "é", "\x00"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
_read = msgspec.json.Decoder(float_hook=from_json_float).decode
EVERY = 1_000


def text(value: Any, *, upside_down: bool = False) -> bytes:
    """JSON of a value; upside down: another text of the same value."""

    def turned(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: turned(part[name]) for name in reversed(part)}
        if isinstance(part, list):
            return [turned(one) for one in part]
        if isinstance(part, int) and not isinstance(part, bool):
            return Decimal(part).quantize(Decimal("0.000"))
        return part.quantize(Decimal("0.0000")) if isinstance(part, Decimal) else part

    encoder = msgspec.json.Encoder(decimal_format="number")
    return encoder.encode(turned(value) if upside_down else value)


def applied(document: Any, found: list[Difference]) -> Any:
    """The document with each value as the other one has it. What ends a list goes last first."""
    root = [document]
    removed = [one for one in found if isinstance(one.other, Absent)]
    put = [one for one in found if not isinstance(one.other, Absent)]
    for one in [*put, *reversed(removed)]:
        at: Any = root
        for part in (0, *one.path)[:-1]:
            at = at[part]
        last = (0, *one.path)[-1]
        if isinstance(one.other, Absent):
            del at[last]
        elif isinstance(at, list) and last == len(at):
            at.append(_read(one.other))
        else:
            at[last] = _read(one.other)
    return root[0]


@given(VALUES, VALUES)
def test_applied_to_one_they_give_the_other(one: Any, other: Any) -> None:
    found, more = differences(text(one), text(other), EVERY)
    assert not more
    after = applied(_read(text(one)), found)
    assert payload_check("", "", None, after) == payload_check("", "", None, _read(text(other)))


@given(VALUES)
def test_a_document_that_is_only_written_otherwise_differs_in_nothing(value: Any) -> None:
    assert differences(text(value), text(value, upside_down=True), EVERY) == ([], False)


@given(VALUES, VALUES)
def test_they_are_the_same_from_both_sides(one: Any, other: Any) -> None:
    there, _ = differences(text(one), text(other), EVERY)
    back, _ = differences(text(other), text(one), EVERY)
    turned = [Difference(it.path, it.other, it.one) for it in back]
    assert sorted(there, key=repr) == sorted(turned, key=repr)
    assert len({it.path for it in there}) == len(there)


@given(VALUES, VALUES, st.integers(0, 5))
def test_they_are_bounded(one: Any, other: Any, limit: int) -> None:
    every, _ = differences(text(one), text(other), EVERY)
    found, more = differences(text(one), text(other), limit)
    assert found == every[:limit]
    assert more == (len(every) > limit)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ((), "$"),
        (("data", "tokens"), "$.data.tokens"),
        (("data", "a b", 0, 'q"'), '$.data["a b"][0]["q\\""]'),
        (("1a",), '$["1a"]'),
    ],
)
def test_paths_are_those_of_rfc_9535(path: tuple[str | int, ...], words: str) -> None:
    assert Difference(path, ABSENT, b"1").path_text == words


def test_values_are_shown_as_they_were_sent() -> None:
    one, other = b'{"a": 1.50, "b": true}', b'{"a": 15e-1, "b": 1, "c": [1.0]}'
    found, _ = differences(one, other, EVERY)
    assert found == [
        Difference(("b",), b"true", b"1"),
        Difference(("c",), ABSENT, b"[1.0]"),
    ]


@pytest.mark.parametrize("wrong", [b"", b"{", b'{"a":}', b"nul"])
def test_what_is_no_json_raises(wrong: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        differences(wrong, b'{"a":1}', EVERY)
