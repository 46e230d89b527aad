"""Splitting: the same elements whichever way, and a bounded price for what is no batch."""

import json
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.admission import AdmissionRules, BodyForm, admit
from ingest.splitting import _one_by_one, split
from meterline.limits import (
    BATCH_EVENTS_MAX,
    BODY_BYTES_MAX,
    EVENT_BYTES_MAX,
    PROBLEM_ERRORS_MAX,
    SPLIT_COMMAS_MAX,
)
from meterline.problem import Fault, Problem, ProblemType

pytestmark = pytest.mark.standard  # bodies of many megabytes

EVENT = b'{"specversion":"1.0","id":"1","source":"s","type":"t","subject":"u"}'
MIB = 1024 * 1024
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


def problem_of(body: bytes, event_bytes_max: int = EVENT_BYTES_MAX) -> Problem:
    with pytest.raises(Problem) as caught:
        split(body, BATCH_EVENTS_MAX, event_bytes_max)
    return caught.value


def fault_of(body: bytes, event_bytes_max: int = EVENT_BYTES_MAX) -> Fault:
    problem = problem_of(body, event_bytes_max)
    assert problem.type is ProblemType.INVALID_EVENT
    return problem.faults[0]


@given(st.lists(values, max_size=8), st.integers(64, 200), st.booleans())
@settings(max_examples=200, deadline=None)
def test_one_by_one_finds_the_same_elements(
    elements: list[object], event_bytes_max: int, ascii_only: bool
) -> None:
    gaps = [" ", "\n\t", ""]
    parts = [json.dumps(element, ensure_ascii=ascii_only) for element in elements]
    spread = [gaps[n % 3] + part + gaps[(n + 1) % 3] for n, part in enumerate(parts)]
    text = "[" + ",".join(spread) + "]"
    quick = [bytes(raw) for raw in split(text.encode(), 100, event_bytes_max)]
    assert quick == [part.encode() for part in parts]
    if all(len(raw) <= event_bytes_max for raw in quick):
        assert _one_by_one(text, 100, event_bytes_max) == quick
    else:
        with pytest.raises(Problem) as caught:
            _one_by_one(text, 100, event_bytes_max)
        assert caught.value.faults[0].rule == "max_length"


@given(st.lists(st.sampled_from(list('[]{},:"\\u01ex \n')), max_size=12), st.integers(0, 3))
@settings(max_examples=300, deadline=None)
def test_whatever_is_no_batch_is_refused_with_words(letters: list[str], before: int) -> None:
    text = "[" + "{}," * before + "".join(letters)
    try:
        json.loads(text)
    except ValueError:
        assert fault_of(text.encode()).reason
        assert fault_of(text.encode(), 16).reason


@pytest.mark.parametrize(
    "element", [b"0", b"{}", b"[]", b'""', b"null", b'{"specversion":"0.3"}', b'"' + b"a" * 50]
)
@pytest.mark.parametrize("tail", [b"]", b"x", b""])
def test_a_body_of_many_elements_costs_neither_memory_nor_time(element: bytes, tail: bytes) -> None:
    count = BODY_BYTES_MAX // (len(element) + 1)
    body = b"[" + (element + b",") * (count - 1) + element + tail
    began_s = time.process_time()
    with pytest.raises(Problem):
        admit(body, BodyForm.EITHER, "n", 0, AdmissionRules(4))
    assert time.process_time() - began_s < 3
    tracemalloc.start()
    with pytest.raises(Problem):
        admit(body, BodyForm.EITHER, "n", 0, AdmissionRules(4))
    assert tracemalloc.get_traced_memory()[1] < 4 * BODY_BYTES_MAX
    tracemalloc.stop()


@pytest.mark.parametrize(
    "body",
    [
        b"[[" + b"[]," * (3 * MIB) + b"x",
        b'[{"a":[' + b"{}," * (3 * MIB) + b"{}]}]",
        b'{"a":[' + b"{}," * (3 * MIB) + b"{}]}",
        b"[" + b"[[0]," * (2 * MIB),
    ],
)
def test_an_element_that_is_too_large_is_not_looked_into(body: bytes) -> None:
    tracemalloc.start()
    with pytest.raises(Problem):
        admit(body, BodyForm.EITHER, "n", 0, AdmissionRules(4))
    assert tracemalloc.get_traced_memory()[1] < 6 * BODY_BYTES_MAX
    tracemalloc.stop()


def test_a_batch_with_many_commas_is_good_all_the_same() -> None:
    data = b',"data":{"a":[' + b"0," * 300 + b"0]}}"
    body = b"[" + b",".join([EVENT[:-1] + data] * 1_000) + b"]"
    assert body.count(b",") > SPLIT_COMMAS_MAX
    assert len(admit(body, BodyForm.BATCH, "n", 0, AdmissionRules(4))) == 1_000
    spelled = body.replace(b"specversion", b"\\u0073pecversion")
    assert len(admit(spelled, BodyForm.BATCH, "n", 0, AdmissionRules(4))) == 1_000
    # One that is no event does not hide the others.
    faulty = body[:-1] + b"," + EVENT.replace(b'"1.0"', b"1") + b"," + EVENT[:-1] + b',"A":1}]'
    with pytest.raises(Problem) as caught:
        admit(faulty, BodyForm.BATCH, "n", 0, AdmissionRules(4))
    assert [(f.index, f.field) for f in caught.value.faults] == [
        (1_000, "specversion"),
        (1_001, "A"),
    ]


def test_too_many_elements_are_too_many_however_they_are_found() -> None:
    many = b",".join([EVENT] * (BATCH_EVENTS_MAX + 1))
    for tail in (b"]", b",x]"):
        problem = problem_of(b"[" + many + tail)
        assert problem.type is ProblemType.BODY_TOO_LARGE
        assert str(BATCH_EVENTS_MAX) in problem.detail
    assert len(split(b"[" + many[len(EVENT) + 1 :] + b"]", BATCH_EVENTS_MAX, 1_000)) == 10_000


def test_the_element_that_breaks_or_is_too_large_is_named() -> None:
    good = EVENT + b"," + EVENT
    assert (fault_of(b"[" + good + b",nul]").index) == 2
    cut = fault_of(b"[" + good + b',"' + b"a" * 1_000 + b'",x]', 500)
    assert (cut.index, cut.rule) == (2, "max_length")
    assert "more than 500" in cut.reason
    wide = fault_of(b'[{},"' + "\u20ac".encode() * 300 + b'",x]', 500)
    assert (wide.index, wide.rule) == (1, "max_length")
    inside = fault_of(b"[" + good + b',{"a" 1}' + b"," * 5_000, 500)
    assert (inside.index, inside.rule) == (2, "json")
    assert f"character {len(good) + 7}" in inside.reason


def test_a_value_with_many_faults_is_not_listed_in_full() -> None:
    problem = problem_of(b'[{"a":[' + b'"\\ud800",' * 1_000 + b"0]}]")
    assert len(problem.faults) == PROBLEM_ERRORS_MAX


def test_after_a_fault_only_so_much_is_looked_at() -> None:
    large = EVENT[:-1] + b',"data":{"a":[' + b"[0]," * 60_000 + b'{"a":1,"a":2}]}}'
    with pytest.raises(Problem) as caught:
        admit(b"[" + b",".join([large] * 40) + b"]", BodyForm.BATCH, "n", 0, AdmissionRules(4))
    assert [f.index for f in caught.value.faults] == [0, 1, 2, 3, 4]
