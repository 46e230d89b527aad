"""Why an event does not count: the peer's words, as its own tests look for them, and ours."""

from typing import Any

import msgspec
import pytest

from control.event_judgement import Judged
from control.v1.events import shown
from meterline.event import decode_event
from meterline.meter import Aggregation, Judges, Meter
from tests.contract.usage.slices import meter
from tests.unit.control.v3.test_events import listed

HUGE = "1" + "0" * 30


def _told(of: Meter, members: dict[str, Any]) -> str | None:
    document = msgspec.json.decode(listed(1).text)
    document |= {"type": of.event_type, "namespace": of.namespace}
    document.pop("data", None)
    text = msgspec.json.encode(document | members)
    outcomes = tuple(Judges([of]).outcomes(decode_event(text)))
    return shown(Judged(listed(1)._replace(text=text), outcomes)).get("validationError")


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({}, "null and missing value property"),
        ({"data": None}, "null and missing value property"),
        ({"data": {}}, 'missing value property: "$.v"'),
        ({"data": {"v": None}}, "value cannot be null"),
        ({"data": {"v": "NaN"}}, "value cannot be NaN"),
        ({"data": {"v": "Infinity"}}, "value cannot be infinity"),
        ({"data": {"v": "-inf"}}, "value cannot be infinity"),
        ({"data": {"v": "not a number"}}, "value cannot be parsed as float64: not a number"),
        ({"data": {"v": HUGE}}, f"value cannot be parsed as float64: {HUGE}"),
        ({"data": {"v": True}}, "unsupported value property type: bool"),
        ({"data": {"v": {"a": 1}}}, "unsupported value property type: map[string]interface {}"),
        ({"data": {"v": [1]}}, "unsupported value property type: []interface {}"),
    ],
)
@pytest.mark.parametrize("aggregation", [Aggregation.SUM, Aggregation.LATEST])
def test_the_peers_words_come_first(
    aggregation: Aggregation, members: dict[str, Any], said: str
) -> None:
    told = _told(meter(1, aggregation), members)
    assert told is not None
    peers, ours = told.split(" (", 1)
    assert peers == f"invalid event: {said}"
    assert ours.startswith("meter meter_1 does not count it: $.v is ")


@pytest.mark.parametrize("aggregation", [Aggregation.SUM, Aggregation.COUNT])
def test_what_counts_has_no_words(aggregation: Aggregation) -> None:
    assert _told(meter(1, aggregation), {"data": {"v": "1.5"}}) is None


def test_a_type_without_meter_is_told_in_the_peers_words() -> None:
    assert shown(Judged(listed(1)))["validationError"] == "no meter found for event type: flight"
