from typing import Any

import pytest

from meterline.usage import Operator, UsageRow
from meterline.window import HOUR_MS
from tests.unit.control.conftest import Api

METER = "/api/v3/metering/meters/distance"
VALUES = f"{METER}/dimensions/dest/values"


@pytest.fixture(autouse=True)
async def meter(api: Api) -> Any:
    body = {
        "key": "distance",
        "name": "Distance",
        "aggregation": "sum",
        "event_type": "flight",
        "value_property": "$.distance",
        "dimensions": {"dest": "$.dest"},
    }
    return await api.json("POST", "/api/v3/metering/meters", 201, json=body)


def _row(subject: str | None, **groups: str) -> UsageRow:
    return UsageRow(0, HOUR_MS, subject, tuple(groups.items()), 1, 1, 0)


async def test_subjects_come_in_pages(api: Api) -> None:
    api.usage.rows = [_row("UA"), _row("AA"), _row("UA"), _row("BA")]
    span = {"from": "2023-11-01T00:00:00Z", "to": "2023-11-02T00:00:00Z", "contains": "A"}
    page = await api.json(
        "GET", f"{METER}/subjects", params={**span, "page[size]": "2", "page[number]": "2"}
    )
    assert page == {"data": ["UA"], "meta": {"page": {"number": 2, "size": 2, "total": 3}}}
    (asked,) = api.usage.asked
    assert (asked.from_ms, asked.to_ms) == (1_698_796_800_000, 1_698_883_200_000)
    ((name, condition),) = asked.filters
    assert (name, condition.operator, condition.values) == ("subject", Operator.CONTAINS, ("A",))
    assert asked.group_by == ("subject",)


async def test_values_of_a_dimension(api: Api) -> None:
    api.usage.rows = [_row(None, dest="LAX"), _row(None, dest="")]
    assert (await api.json("GET", VALUES))["data"] == ["", "LAX"]
    (asked,) = api.usage.asked
    assert (asked.group_by, asked.filters, asked.from_ms) == (("dest",), (), None)


@pytest.mark.parametrize(
    ("path", "params", "status"),
    [
        (f"{METER}/dimensions/colour/values", {}, 404),
        ("/api/v3/metering/meters/none/subjects", {}, 404),
        (VALUES, {"contains": ""}, 400),
        (VALUES, {"from": "2023-11-02T00:00:00Z", "to": "2023-11-01T00:00:00Z"}, 400),
        (VALUES, {"colour": "red"}, 400),
    ],
)
async def test_what_is_not_there_or_wrong_is_told(
    api: Api, path: str, params: dict[str, str], status: int
) -> None:
    await api.json("GET", path, status, params=params)
