from typing import Any

import pytest

from meterline.usage import UsageRow
from meterline.window import DAY_MS, HOUR_MS, rfc3339
from tests.unit.control.conftest import NOW_MS, Api

METER = "/api/v1/meters/distance"
VALUES = f"{METER}/group-by/dest/values"


@pytest.fixture(autouse=True)
async def meter(api: Api) -> Any:
    body = {
        "slug": "distance",
        "aggregation": "SUM",
        "eventType": "flight",
        "valueProperty": "$.distance",
        "groupBy": {"origin": "$.origin", "dest": "$.dest"},
    }
    return await api.json("POST", "/api/v1/meters", 201, json=body)


def _row(subject: str | None, **groups: str) -> UsageRow:
    return UsageRow(0, HOUR_MS, subject, tuple(groups.items()), 1, 1, 0)


async def test_subjects_are_listed_once_and_sorted(api: Api, meter: Any) -> None:
    api.usage.rows = [_row("UA"), _row("AA"), _row("UA")]
    assert await api.json("GET", f"{METER}/subjects") == ["AA", "UA"]
    span = {"from": "2023-11-01T00:00:00Z", "to": "2023-11-02T00:00:00Z", "colour": "red"}
    await api.json("GET", f"/api/v1/meters/{meter['id']}/subjects", params=span)
    always, asked = api.usage.asked
    assert (always.from_ms, always.to_ms, always.group_by) == (None, None, ("subject",))
    assert (asked.from_ms, asked.to_ms) == (1_698_796_800_000, 1_698_883_200_000)
    assert asked.meter.id == meter["id"]


async def test_values_of_the_last_day_are_listed_once_and_sorted(api: Api) -> None:
    api.usage.rows = [_row(None, dest="LAX"), _row(None, dest=""), _row(None, dest="LAX")]
    assert await api.json("GET", VALUES) == ["", "LAX"]
    (asked,) = api.usage.asked
    assert (asked.from_ms, asked.to_ms) == (NOW_MS - 24 * HOUR_MS, None)
    assert asked.group_by == ("dest",)


@pytest.mark.parametrize(
    ("from_days", "to_days", "faults"),
    [
        (91, 70, {"from": "minimum"}),
        (89, 58, {"to": "maximum"}),
        (31, None, {"to": "maximum"}),
        (100, None, {"from": "minimum", "to": "maximum"}),
        (30, 31, {"from": "maximum"}),
    ],
)
async def test_a_span_beyond_bounds_is_told(
    api: Api, from_days: int, to_days: int | None, faults: dict[str, str]
) -> None:
    params = {"from": rfc3339(NOW_MS - from_days * DAY_MS)}
    if to_days is not None:
        params["to"] = rfc3339(NOW_MS - to_days * DAY_MS)
    assert await api.faults("GET", VALUES, params=params) == faults
    assert api.usage.asked == []


async def test_the_longest_span_is_answered(api: Api) -> None:
    span = {"from": rfc3339(NOW_MS - 90 * DAY_MS), "to": rfc3339(NOW_MS - 60 * DAY_MS)}
    assert await api.json("GET", VALUES, params=span) == []


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/meters/other/subjects",
        "/api/v1/meters/other/group-by/dest/values",
        f"{METER}/group-by/carrier/values",
        f"{METER}/group-by/subject/values",
        f"{METER}/group-by/no-name/values",
    ],
)
async def test_what_is_not_there_is_not_found(api: Api, path: str) -> None:
    problem = await api.json("GET", path, 404)
    assert problem["type"] == "urn:meterline:problem:not-found"
