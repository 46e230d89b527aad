"""What is published of an event is what the door enforces."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter

from ingest.admission import AdmissionRules, BodyForm, admit
from ingest.event_shape import EXAMPLE, EventBody
from meterline.problem import Problem

pytestmark = pytest.mark.standard  # thousands of events

NOW_MS = 1_700_000_000_000
RULES = AdmissionRules(4)
SCHEMA = TypeAdapter(EventBody).json_schema()
PUBLISHED = Draft202012Validator(SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER)
ANY = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-9, 9),
    st.sampled_from([0.5, "", "x", "1.0", "application/json", "text/plain", "x" * 1_025]),
    st.sampled_from(["2026-01-31T10:00:00Z", "2026-01-31T10:00:00.5+01:00", "2026-01-31", "now"]),
    st.lists(st.integers(), max_size=1),
    st.dictionaries(st.sampled_from(["a", "B"]), st.none(), max_size=2),
)
NAMES = st.sampled_from([*EXAMPLE, "ext1", "Ext", "an_ext", "x" * 21, "namespace", "recordedtime"])


def admitted(event: dict[str, Any]) -> bool:
    """Whether the door lets it in."""
    try:
        return len(admit(json.dumps(event).encode(), BodyForm.ONE, "ns", NOW_MS, RULES)) == 1
    except Problem:
        return False


@settings(max_examples=1_000, deadline=None)
@given(st.dictionaries(NAMES, ANY, max_size=3), st.sets(st.sampled_from([*EXAMPLE]), max_size=1))
def test_the_door_and_the_document_agree(changed: dict[str, Any], left_out: set[str]) -> None:
    event = {name: it for name, it in {**EXAMPLE, **changed}.items() if name not in left_out}
    assert admitted(event) == PUBLISHED.is_valid(event), [*PUBLISHED.iter_errors(event)]
