import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meterline.event import MISSING, PathError, check_path, compile_path, simple_steps
from meterline.event.path import general_getter, simple_getter
from meterline.limits import PATH_CHARS_MAX

NAMES = st.sampled_from(["a", "b", "_c1", "with space", "\u00e9", "0", "", 'quo"te', "it's"])
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=12,
)


@st.composite
def simple_paths(draw: st.DrawFn) -> str:
    """Paths of simple segments, in each of their spellings."""
    path = "$"
    for _ in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            path += f"[{draw(st.integers(0, 4))}]"
            continue
        name = draw(NAMES)
        spellings = []
        if name.replace("_", "").isalnum() and name.isascii() and not name[0].isdigit():
            spellings.append(f".{name}")
        if "'" not in name:
            spellings.append(f"['{name}']")
        if '"' not in name:
            spellings.append(f'["{name}"]')
        path += draw(st.sampled_from(spellings))
    return path


@given(simple_paths(), VALUES)
@settings(max_examples=400)
def test_the_fast_way_finds_what_rfc_9535_finds(path: str, value: object) -> None:
    steps = simple_steps(path)
    assert steps is not None
    fast = simple_getter(steps)(value)
    exact = general_getter(path)(value)
    assert fast is exact or (fast == exact and type(fast) is type(exact))
    found = compile_path(path)(value)
    assert found is fast or found == fast


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$", {"a": {"b": [1, None]}, "n": None}),
        ("$.a.b[0]", 1),
        ("$.a.b[1]", None),
        ("$.a.b[-1]", None),
        ("$.a.b[-2]", 1),
        ("$.a.b[2]", MISSING),
        ("$.n", None),
        ("$.n.x", MISSING),
        ("$.missing", MISSING),
        ("$..b[0]", 1),
        ("$.a.b[?@ == 1]", 1),
        ("$['a'][\"b\"][0]", 1),
        ("$.a .b [0]", 1),
    ],
)
def test_examples(path: str, found: object) -> None:
    value = {"a": {"b": [1, None]}, "n": None}
    assert compile_path(path)(value) == found


@pytest.mark.parametrize("value", [None, 5, "text", True])
def test_data_that_is_no_object_has_nothing(value: object) -> None:
    assert compile_path("$.a")(value) is MISSING
    assert compile_path("$..a")(value) is MISSING
    assert compile_path("$")(value) is value


@pytest.mark.parametrize("path", ["", "a", "tokens", "$.", "$[", "$.a[", "$['a", "$ a", "$.a b"])
def test_what_is_no_path_says_so(path: str) -> None:
    with pytest.raises(PathError, match="JSON path"):
        compile_path(path)


def test_paths_have_a_bound() -> None:
    with pytest.raises(PathError, match=str(PATH_CHARS_MAX)):
        compile_path("$." + "a" * PATH_CHARS_MAX)
    assert repr(MISSING) == "MISSING"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("$..*..*", "more than one `..`"),
        ("$..[?@..a]", "more than one `..`"),
        ("$[0,0,0,0,0][0,0,0,0,0]", "more than 16 ways"),
        ("$[?@[0,0,0,0,0][0,0,0,0,0]]", "more than 16 ways"),
        ("$[?count($..*) > 0]", "`\\$` in a filter"),
        ("$[?search(@.a, '(a|aa)+b')]", "a pattern"),
        ("$[?@.b == 1 && !match(@.a, '(a|aa)+b')]", "a pattern"),
        ("$[?" + " || ".join(f"@.a{n}" for n in range(11)) + "]", "more than 10 `@`"),
        ("$[?" + "!" * 40 + "@.a]", "more than 32 deep"),
        ("$[?" + "(" * 33 + "@.a" + ")" * 33 + "]", "more than 32 parentheses"),
        ("$[?" + "(" * 500 + "@.a" + ")" * 500 + "]", "nested too deep|parentheses"),
        ("$[?" + "!" * 900 + "@.a]", "nested too deep"),
        ("$[?@.a == 1e999999]", "too large"),
    ],
)
def test_a_path_that_may_cost_too_much_is_not_defined(path: str, why: str) -> None:
    with pytest.raises(PathError, match=why):
        check_path(path)


@pytest.mark.parametrize(
    "path",
    ["$.a", "$..a", "$['a','b'].c", "$[0:2]", "$.a[?@.b == 'x' && @.c > 1].d", "$[?length(@.a)>1]"],
)
def test_a_path_whose_cost_grows_with_the_event_is_defined(path: str) -> None:
    check_path(path)


def test_what_was_defined_before_its_cost_was_judged_still_finds() -> None:
    assert compile_path("$..*..b")({"a": {"b": 1}}) == 1
    assert compile_path("$[?search(@.a, 'x')].v")([{"a": "axb", "v": 2}]) == 2


def test_the_first_find_ends_the_search() -> None:
    wide: object = {"a": 1}
    for _ in range(60):
        wide = {"a": wide, **{f"k{n}": n for n in range(300)}}
    assert compile_path("$..*..*..*..*")(wide) is not MISSING
