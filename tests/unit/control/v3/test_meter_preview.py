from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from control.stores import Ledger
from meterline.audit import Position, UsageEntry
from meterline.event import decode_event
from meterline.limits import PREVIEW_EVENTS_MAX
from meterline.usage import EventRow
from tests.unit.control.conftest import NOW_MS, Api, ServeApi

PATH = "/api/v3/metering/meter-preview"
WINDOW = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
SUM = {
    "aggregation": "sum",
    "event_type": "call",
    "value_property": "$.v",
    "dimensions": {"region": "$.r"},
}
NOTHING: Any = None


def stored(number: int, value: object = 1, region: str = "north", at: str = "00:00:30") -> EventRow:
    document = {
        "specversion": "1.0", "id": f"e{number}", "source": "s", "type": "call",
        "subject": f"s{number % 2}", "time": f"2026-01-01T{at}Z",
        "data": {"v": value, "r": region},
        "namespace": "default", "recordedtime": "2026-01-01T00:00:31Z",
    }  # fmt: skip
    event = decode_event(msgspec.json.encode(document))
    return EventRow(
        1, 0, number, 0, 0, NOW_MS, event.key, "default", "call", event.subject, "s", event.id,
        event.time_ms, event.recorded_ms, event.text,
    )  # fmt: skip


def rejected(number: int, reason: str, value: str) -> dict[str, str]:
    return {
        "position": f"1.0.{number}.0",
        "id": f"e{number}",
        "source": "s",
        "subject": f"s{number % 2}",
        "time": "2026-01-01T00:00:30Z",
        "reason": reason,
        "value": value,
    }


@dataclass(slots=True)
class Kept:
    """Events that are kept."""

    rows: Sequence[EventRow] = ()
    entries: list[UsageEntry] = field(default_factory=list)
    repeats: int = 0  # times that a page is given, as if more lay behind it

    async def events_of(
        self, entry: UsageEntry, after: Position | None, limit: int
    ) -> list[EventRow]:
        self.entries.append(entry)
        if self.repeats:
            self.repeats -= 1
            return [*self.rows] * (limit // len(self.rows))
        return [row for row in self.rows if after is None or row[:4] > after][:limit]


@pytest.fixture
async def kept(api: Api, serve: ServeApi) -> tuple[Api, Kept]:
    shelf = Kept()
    client = await serve(api.stores, ledger=Ledger(NOTHING, NOTHING, shelf, NOTHING))
    return Api(client, api.stores, api.usage, api.clock), shelf


async def test_history_is_folded_as_the_meter_would(kept: tuple[Api, Kept]) -> None:
    api, shelf = kept
    shelf.rows = [
        stored(0, "1.5"), stored(1, 2, "south"), stored(2, 3, at="01:00:00"), stored(3, "many"),
        stored(4, None, "south"), stored(5, 7, "west"),
    ]  # fmt: skip
    untils = dict.fromkeys(range(api.stores.log.partitions), NOW_MS)
    await api.stores.progress.complete(api.stores.log.number, 0, untils)
    answer = await api.json(
        "POST",
        PATH,
        json={
            **WINDOW,
            "meter": SUM,
            "granularity": "PT1H",
            "group_by_dimensions": ["region"],
            "filters": {"dimensions": {"region": {"neq": "west"}}},
        },
    )
    assert answer == {
        **WINDOW,
        "complete_until": "2023-11-14T22:13:20Z",
        "matched": 5,
        "counted": 3,
        "rejected": 2,
        "rejected_examples": [
            rejected(3, "not_a_number", '"many"'),
            rejected(4, "null", "null"),
        ],
        "data": [
            {
                "value": value,
                "from": f"2026-01-01T0{hour}:00:00Z",
                "to": f"2026-01-01T0{hour + 1}:00:00Z",
                "dimensions": {"region": region},
                "counted": 1,
                "rejected": rejected,
            }
            for hour, region, value, rejected in (
                (0, "north", "1.5", 1),
                (0, "south", "2", 1),
                (1, "north", "3", 0),
            )
        ],
    }
    (entry,) = shelf.entries
    assert (entry.meter.event_type, entry.subject) == ("call", None)
    assert await api.json("GET", "/api/v3/metering/meters") == {
        "data": [],
        "meta": {"page": {"number": 1, "size": 20, "total": 0}},
    }


@pytest.mark.parametrize(
    ("aggregation", "value"),
    [("count", "4"), ("unique_count", "2"), ("avg", "2"), ("min", "1"), ("max", "3")],
)
async def test_every_aggregation_in_one_total(
    kept: tuple[Api, Kept], aggregation: str, value: str
) -> None:
    api, shelf = kept
    shelf.rows = [stored(number, number % 2 * 2 + 1) for number in range(4)]
    meter = {"aggregation": aggregation, "event_type": "call"}
    if aggregation != "count":
        meter["value_property"] = "$.v"
    answer = await api.json("POST", PATH, json={**WINDOW, "meter": meter})
    assert [one["value"] for one in answer["data"]] == [value]
    assert answer["complete_until"] is None


@pytest.mark.standard
async def test_too_much_history_is_refused_with_the_bound(kept: tuple[Api, Kept]) -> None:
    api, shelf = kept
    body = {"from": "2026-01-01T00:00:00Z", "to": "2026-06-01T00:00:00Z", "meter": SUM}
    assert await api.faults("POST", PATH, json=body) == {"from": "minimum"}
    assert shelf.entries == []
    shelf.rows, shelf.repeats = [stored(0)], 1_000
    problem = await api.json("POST", PATH, 400, json={**WINDOW, "meter": SUM})
    assert f"over {PREVIEW_EVENTS_MAX:,} events" in problem["detail"]


async def test_all_faults_of_a_preview_are_told(kept: tuple[Api, Kept]) -> None:
    api, _ = kept
    body = {
        "to": "2026-06-01",
        "meter": {"aggregation": "sum", "event_type": "", "dimensions": {"a": "$"}, "key": "k"},
    }
    assert await api.faults("POST", PATH, json=body) == {
        "from": "required",
        "to": "is_date_time",
        "meter.event_type": "min_length",
        "meter.key": "unknown_property",
        "meter.value_property": "required",
    }
    asked = {**WINDOW, "meter": SUM, "group_by_dimensions": ["colour"]}
    assert set(await api.faults("POST", PATH, json=asked)) == {"group_by_dimensions"}
