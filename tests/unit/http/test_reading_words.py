"""Bodies are refused in our words: none names a class, or a type of Python."""

from typing import Annotated, Literal

import pytest
from pydantic import Field

from meterline.http.reading import validated
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
