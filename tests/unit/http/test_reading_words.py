"""Bodies are refused in our words: none names a class, or a type of Python."""

from typing import Annotated, Literal

import pytest
from pydantic import Field, TypeAdapter

from docs.operation_table import v1_operations, v3_operations
from meterline.http.reading import OWN_MESSAGES, validated
from meterline.http.shapes import Closed
from meterline.problem import Problem


class _Inner(Closed):
    size: Annotated[int, Field(ge=1, le=9)] = 1


class _Outer(Closed):
    inner: _Inner | None = None
    names: Annotated[list[str], Field(min_length=1, max_length=2)] = ["a"]
    text: Annotated[str, Field(min_length=2, max_length=3, pattern="^a")] = "aa"
    table: Annotated[dict[str, str], Field(max_length=1)] = {}
    flag: bool = False
    share: float = 0.5
    kind: Literal["a", "b"] = "a"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("[]", "must be an object"),
        ('{"inner": 1}', "must be an object"),
        ('{"inner": {"size": 0}}', "must be at least 1"),
        ('{"inner": {"size": 10}}', "must be at most 9"),
        ('{"inner": {"size": 1.5}}', "must be a whole number"),
        ('{"inner": {"size": "1"}}', "must be a whole number"),
        ('{"names": {}}', "must be a list"),
        ('{"names": []}', "must have at least 1 entries"),
        ('{"names": ["a", "b", "c"]}', "must have at most 2 entries"),
        ('{"names": [1]}', "must be a string"),
        ('{"text": "a"}', "must have at least 2 characters"),
        ('{"text": "aaaa"}', "must have at most 3 characters"),
        ('{"text": "bb"}', "must match ^a"),
        ('{"table": []}', "must be an object"),
        ('{"table": {"a": "", "b": ""}}', "must have at most 1 entries"),
        ('{"flag": 1}', "must be true or false"),
        ('{"share": "1"}', "must be a number"),
        ('{"kind": "c"}', "must be 'a' or 'b'"),
        ('{"more": 1}', "is not known here; leave it out"),
    ],
)
def test_a_fault_is_told_in_our_words(body: str, words: str) -> None:
    with pytest.raises(Problem) as caught:
        validated(_Outer, body.encode())
    assert [fault.reason for fault in caught.value.faults] == [words]


# What pydantic may say of a schema, by its type and its bounds.
_SAYS: dict[str, tuple[str, ...]] = {
    "str": ("string_type",),
    "int": ("int_type", "int_from_float", "int_parsing", "int_parsing_size"),
    "float": ("float_type", "float_parsing"),
    "bool": ("bool_type", "bool_parsing"),
    "list": ("list_type",),
    "dict": ("dict_type",),
    "literal": ("literal_error",),
    "enum": ("enum",),
    "none": ("none_required",),
    "model": ("model_type", "model_attributes_type"),
    "model-fields": ("model_type", "extra_forbidden", "missing"),
}
_BOUNDS = {
    ("str", "min_length"): "string_too_short",
    ("str", "max_length"): "string_too_long",
    ("str", "pattern"): "string_pattern_mismatch",
    ("list", "min_length"): "too_short",
    ("list", "max_length"): "too_long",
    ("dict", "min_length"): "too_short",
    ("dict", "max_length"): "too_long",
    ("int", "ge"): "greater_than_equal",
    ("int", "le"): "less_than_equal",
    ("float", "ge"): "greater_than_equal",
    ("float", "le"): "less_than_equal",
}
_SAYS_NOTHING = frozenset(
    {
        *("model-field", "default", "nullable", "definitions", "definition-ref", "any", "no-info"),
        *("function-before", "function-after", "function-wrap"),  # ours: with words of their own
        *("json-or-python", "tagged-union", "json", "field"),  # of JsonValue, which takes all JSON
    }
)
_HARMLESS = frozenset({"strict", "ref", "metadata", "serialization", "custom_init", "cls_name"})


def _said(node: object, found: set[str], unknown: set[str]) -> None:
    """The kinds of faults that a schema can find; and what of it this test does not know."""
    if isinstance(node, list | tuple):
        for one in node:
            _said(one, found, unknown)
    if not isinstance(node, dict):
        return
    kind = node.get("type")
    if isinstance(kind, str):
        found |= set(_SAYS.get(kind, ()))
        found |= {_BOUNDS[kind, name] for name in node if (kind, name) in _BOUNDS}
        if kind not in _SAYS and kind not in _SAYS_NOTHING:
            unknown.add(kind)
        bounds = {"gt", "lt", "multiple_of", "min_length", "max_length", "pattern", "ge", "le"}
        unknown |= {
            f"{kind}.{name}" for name in bounds & node.keys() if (kind, name) not in _BOUNDS
        }
    for name, inner in node.items():
        if name not in _HARMLESS:
            _said(inner, found, unknown)


def test_all_that_the_bodies_and_parameters_of_the_api_can_be_refused_for_has_our_words() -> None:
    found: set[str] = set()
    unknown: set[str] = set()
    operations = [*v1_operations(), *v3_operations()]
    for operation in operations:
        for model in (operation.parameters, operation.body.model):
            if model is not None:
                _said(TypeAdapter(model).core_schema, found, unknown)
    assert len(operations) >= 90, "all of them were looked at"
    assert unknown == set(), "teach this test what pydantic says of these"
    assert found - OWN_MESSAGES.keys() == set()
    assert len(found) > 15
