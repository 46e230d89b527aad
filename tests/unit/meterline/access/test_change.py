from hypothesis import given
from hypothesis import strategies as st

from meterline.access import members_of, members_text
from meterline.limits import CHANGE_VALUE_BYTES_MAX

VALUES = st.one_of(
    st.none(), st.text(max_size=5), st.integers(-9, 9), st.lists(st.text(max_size=3), max_size=3)
)
DOCUMENTS = st.dictionaries(st.sampled_from("abcd"), VALUES)


@given(DOCUMENTS, DOCUMENTS)
def test_what_differs_is_told_before_and_after_and_nothing_else(
    before: dict[str, object], after: dict[str, object]
) -> None:
    told = {one.member: (one.before, one.after) for one in members_of(members_text(before, after))}
    assert told == {
        name: (before.get(name), after.get(name))
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name)
    }
    assert (members_text(before, after) == "") == (told == {})


def test_a_large_value_is_told_by_its_hash() -> None:
    large = "x" * (CHANGE_VALUE_BYTES_MAX - 1)  # and two quotes
    text = members_text({"a": large[1:]}, {"a": large})
    (one,) = members_of(text)
    assert one.before == large[1:], "as large as it may be"
    assert isinstance(one.after, str)
    assert one.after.startswith(f"({CHANGE_VALUE_BYTES_MAX + 1} bytes, SHA-256 ")
    (other,) = members_of(members_text({"a": "y" * 9_999}, {"a": "z" * 9_999}))
    assert other.before != other.after, "two large values are told apart"
