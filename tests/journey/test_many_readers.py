"""More readers at once than are worked at: they are told to come back, and how to ask for less."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from meterline.limits import PREVIEWS_AT_ONCE, PREVIEWS_WAITING
from tests.journey.client import Answer
from tests.journey.journey import Journey

AT_ONCE: Final = PREVIEWS_AT_ONCE[1] + PREVIEWS_WAITING[1]
READERS: Final = 3 * AT_ONCE
PREVIEW: Final[Any] = {
    "meter": {
        "aggregation": "sum",
        "event_type": "flight",
        "value_property": "$.distance",
        "dimensions": {"origin": "$.origin"},
    },
    "from": "2013-01-01T00:00:00Z",
    "to": "2013-01-15T00:00:00Z",  # on a slow machine all that may wait are still made in time
    "group_by_dimensions": ["origin"],
}


def test_previews_beyond_their_number_are_told_to_come_back(journey: Journey) -> None:
    control = journey.setup.control

    def preview(_number: int) -> Answer:
        return control.ask("POST", "/api/v3/metering/meter-preview", PREVIEW)

    with ThreadPoolExecutor(READERS) as threads:
        answers = list(threads.map(preview, range(READERS)))
    refused = [one for one in answers if one.status == 429]
    made = [one for one in answers if one.status == 200]
    assert refused, "they come together, long before the first is made"
    assert len(made) >= AT_ONCE
    assert len(made) + len(refused) == READERS
    assert all(one.json["data"] == made[0].json["data"] for one in made)
    for one in refused:
        assert int(one.headers["retry-after"]) > 0
        assert one.json["type"] == "urn:meterline:problem:rate-limited"
        assert "previews and comparisons" in one.json["detail"]
        assert "ask for less in each: fewer days" in one.json["detail"]
    assert preview(0).status == 200, "places are given back"
