"""Definitions of meters: their rules, and what an update makes of them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.meter import (
    Aggregation,
    Meter,
    MeterChange,
    MeterDraft,
    changed,
    differences,
    faults_of,
    measures_alike,
)

METER = Meter(
    id="01M7ZMF4YA7D2SQ292V0W9JPT8",
    revision=7,
    namespace="default",
    key="distance",
    name="Distance",
    description="Miles",
    aggregation=Aggregation.SUM,
    event_type="flight",
    value_property="$.distance",
    dimensions=(("dest", "$.dest"), ("origin", "$.origin")),
    created_at_ms=1,
    updated_at_ms=2,
    events_from_ms=3,
    labels=(("team", "air"),),
)
SAME = changed(METER, MeterChange())

texts = st.text(max_size=3)
pairs = st.dictionaries(texts, texts, max_size=3).map(lambda found: tuple(found.items()))
changes = st.builds(
    MeterChange,
    name=st.none() | texts,
    description=st.none() | texts,
    labels=st.none() | pairs,
    event_type=st.none() | texts,
    value_property=st.none() | texts,
    dimensions=st.none() | pairs,
)


def _taken_over(draft: MeterDraft) -> Meter:
    return replace(
        METER,
        name=draft.name,
        description=draft.description,
        labels=draft.labels,
        event_type=draft.event_type,
        value_property=draft.value_property,
        dimensions=draft.dimensions,
    )


def test_an_empty_change_asks_for_the_meter_as_it_is() -> None:
    assert differences(METER, SAME) == ()
    assert faults_of(SAME) == []


@given(changes)
def test_a_change_made_twice_is_a_change_made_once(change: MeterChange) -> None:
    once = changed(METER, change)
    assert changed(_taken_over(once), change) == once
    assert differences(_taken_over(once), once) == ()


@given(changes)
def test_what_is_not_given_stays(change: MeterChange) -> None:
    members = ("name", "description", "labels", "event_type", "value_property", "dimensions")
    given_ones = {name for name in members if getattr(change, name) is not None}
    draft = changed(METER, change)
    assert set(differences(METER, draft)) <= given_ones
    assert (draft.key, draft.aggregation, draft.events_from_ms) == ("distance", "sum", 3)


@pytest.mark.parametrize(
    ("draft", "differing", "alike"),
    [
        (replace(SAME, name="N", labels=(), description=""), "name description labels", True),
        (replace(SAME, dimensions=SAME.dimensions[::-1]), "", True),
        (replace(SAME, aggregation=Aggregation.MAX), "aggregation", False),
        (replace(SAME, event_type="trip", name="N"), "name event_type", False),
        (replace(SAME, value_property=None), "value_property", False),
        (replace(SAME, dimensions=()), "dimensions", False),
        (replace(SAME, events_from_ms=None), "events_from", False),
    ],
)
def test_only_what_is_measured_asks_for_a_new_revision(
    draft: MeterDraft, differing: str, *, alike: bool
) -> None:
    found = differences(METER, draft)
    assert found == tuple(differing.split())
    assert measures_alike(found) is alike


@pytest.mark.parametrize(
    ("wrong", "fields"),
    [
        ({"key": "Distance"}, {"key": "matches_regex"}),
        ({"key": "a__b"}, {"key": "matches_regex"}),
        ({"key": "k" * 65}, {"key": "matches_regex"}),
        ({"name": ""}, {"name": "max_length"}),
        ({"name": "n" * 257}, {"name": "max_length"}),
        ({"description": "d" * 1_025}, {"description": "max_length"}),
        ({"event_type": ""}, {"event_type": "min_length"}),
        ({"value_property": None}, {"value_property": "required"}),
        ({"value_property": "distance"}, {"value_property": "json_path"}),
        ({"aggregation": Aggregation.COUNT}, {"value_property": "disagreement"}),
        ({"dimensions": (("a", "$.distance"),)}, {"dimensions.a": "disagreement"}),
        ({"dimensions": (("subject", "$.s"),)}, {"dimensions.subject": "reserved_dimension"}),
        ({"dimensions": (("1", "$.s"),)}, {"dimensions.1": "matches_regex"}),
        ({"dimensions": (("a", "$["),)}, {"dimensions.a": "json_path"}),
        (
            {"dimensions": tuple((f"d{n}", "$.d") for n in range(51))},
            {"dimensions": "max_items"},
        ),
        (
            {"key": "", "event_type": "", "value_property": None, "dimensions": (("-", "x"),)},
            {
                "key": "matches_regex",
                "event_type": "min_length",
                "value_property": "required",
                "dimensions.-": "matches_regex",
            },
        ),
    ],
)
def test_a_bad_definition_is_told_with_all_its_faults(
    wrong: dict[str, object], fields: dict[str, str]
) -> None:
    faults = faults_of(replace(SAME, **wrong))  # type: ignore[arg-type]
    assert {fault.field: fault.rule for fault in faults} == fields
    assert all(fault.reason for fault in faults)
