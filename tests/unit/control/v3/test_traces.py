from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest

from control.stores import Ledger
from meterline.access import EVERY_SCOPE, Principal, Scope
from meterline.audit import Position, ReportedDelivery, UsageEntry, checksum
from meterline.delivery import Delivery, DeliveryState
from meterline.event import ListedEvent, Verdict, decode_event, identity_key
from meterline.http.gate import Gate
from meterline.limits import USAGE_SLICES_SHOWN
from meterline.usage import NO_POSITION, EventRow
from meterline.window import MINUTE_MS, rfc3339
from tests.unit.control.conftest import NOW_MS, Api, Client, ServeApi

METERS = "/api/v3/metering/meters"
EVENTS = f"{METERS}/calls/events"
TRACE = "/api/v3/metering/event-trace"
START_MS = 1_767_225_600_000
WINDOW = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:01:00Z"}
NOTHING: Any = None


def _row(number: int, value: object = 1, region: str = "north", subject: str = "acme") -> EventRow:
    document = {
        "specversion": "1.0", "id": f"e{number}", "source": "s", "type": "call",
        "subject": subject, "time": "2026-01-01T00:00:30Z", "data": {"v": value, "r": region},
        "namespace": "default", "recordedtime": "2026-01-01T00:00:31Z",
    }  # fmt: skip
    event = decode_event(msgspec.json.encode(document))
    return EventRow(
        1, 0, number, 0, 0, NOW_MS, event.key, "default", "call", subject, "s", event.id,
        event.time_ms, event.recorded_ms, event.text,
    )  # fmt: skip


@dataclass(slots=True)
class Shelf:
    """Events and deliveries that lie on a shelf, and what was asked for them."""

    rows: list[EventRow] = field(default_factory=list)
    over: list[ReportedDelivery] = field(default_factory=list)
    entries: list[UsageEntry] = field(default_factory=list)
    asked: list[tuple[str, Sequence[str], str, int]] = field(default_factory=list)

    async def events_of(
        self, entry: UsageEntry, after: Position | None, limit: int
    ) -> list[EventRow]:
        self.entries.append(entry)
        return [row for row in self.rows if after is None or row[:4] > after][:limit]

    async def deliveries_over(
        self, namespace: str, meter_ids: Sequence[str], subject: str, at_ms: int, limit: int
    ) -> list[ReportedDelivery]:
        self.asked.append((namespace, meter_ids, subject, at_ms))
        return self.over[:limit]


@dataclass(slots=True)
class Traced:
    """An API with a meter of calls, over a shelf."""

    api: Api
    shelf: Shelf
    meter: Any
    client: Client


@pytest.fixture
async def traced(api: Api, serve: ServeApi) -> Traced:
    body = {
        "key": "calls", "name": "Calls", "aggregation": "sum", "event_type": "call",
        "value_property": "$.v", "dimensions": {"region": "$.r"},
    }  # fmt: skip
    meter = await api.json("POST", METERS, 201, json=body)
    shelf = Shelf()
    ledger = Ledger(NOTHING, NOTHING, shelf, shelf)
    return Traced(
        Api(await serve(api.stores, ledger=ledger), api.stores, api.usage, api.clock), shelf,
        meter, api.client,
    )  # fmt: skip


async def test_slices_add_up_to_the_events_behind_an_entry(traced: Traced) -> None:
    many = USAGE_SLICES_SHOWN + 2
    traced.shelf.rows = [
        _row(number)._replace(slice=number // 2, append_ms=NOW_MS - number)
        for number in range(2 * many)
    ]
    total = (await traced.api.json("GET", EVENTS, params=WINDOW))["total"]
    assert (total["events"], total["slices_total"]) == (2 * many, many)
    assert len(total["slices"]) == USAGE_SLICES_SHOWN
    keys = [identity_key("default", "s", f"e{number}") for number in (2, 3)]
    assert total["slices"][1] == {
        "slice": "1.0.1",
        "events": 2,
        "checksum": checksum(keys),
        "stored_at": rfc3339(NOW_MS - 3),
    }


async def test_the_events_behind_an_entry_page_by_page(traced: Traced) -> None:
    traced.shelf.rows = [
        _row(0), _row(1, "many"), _row(2, region="south"), _row(3), _row(4, subject="other"),
        _row(5),
    ]  # fmt: skip
    asked = {**WINDOW, "subject": "acme", "dimensions[region]": "north", "page[size]": "2"}
    page = await traced.api.json("GET", EVENTS, params=asked)
    keys = [identity_key("default", "s", f"e{number}") for number in (0, 3, 5)]
    total = {"events": 3, "checksum": checksum(keys)}
    one = {"slice": "1.0.0", "stored_at": rfc3339(NOW_MS), **total}
    assert page["total"] == {**total, "slices_total": 1, "slices": [one]}
    assert page["data"][0] == {
        "id": "e0", "source": "s", "subject": "acme", "time": "2026-01-01T00:00:30Z",
        "ingested_at": "2026-01-01T00:00:31Z", "position": "1.0.0.0",
    }  # fmt: skip
    assert page["meta"]["page"]["next"] == "1.0.3.0"
    following = {**asked, "page[after]": page["meta"]["page"]["next"]}
    rest = await traced.api.json("GET", EVENTS, params=following)
    assert [one["id"] for one in page["data"] + rest["data"]] == ["e0", "e3", "e5"]
    assert rest["meta"]["page"]["next"] is None
    assert "total" not in rest
    entry = traced.shelf.entries[0]
    assert (entry.meter.id, entry.subject) == (traced.meter["id"], "acme")
    assert (entry.from_ms, entry.to_ms) == (START_MS, START_MS + MINUTE_MS)


async def test_without_subject_and_dimensions_all_are_meant(traced: Traced) -> None:
    traced.shelf.rows = [_row(0), _row(1, region="south"), _row(2, subject="other")]
    page = await traced.api.json("GET", EVENTS, params=WINDOW)
    assert page["total"]["events"] == 3


async def test_what_cannot_be_asked_is_refused(traced: Traced) -> None:
    faults = traced.api.faults
    assert await faults("GET", EVENTS) == {"from": "required", "to": "required"}
    wrong = {"from": WINDOW["to"], "to": WINDOW["from"], "dimensions[model]": "x"}
    assert await faults("GET", EVENTS, params=wrong) == {
        "from": "maximum", "dimensions[model]": "enum",
    }  # fmt: skip
    cursor = {**WINDOW, "page[after]": "1.0"}
    assert await faults("GET", EVENTS, params=cursor) == {"page[after]": "matches_regex"}
    await traced.api.json("GET", f"{METERS}/none/events", 404, params=WINDOW)


def _listed(row: EventRow, verdict: Verdict, first: int = NO_POSITION) -> ListedEvent:
    parts = (*row[:4], row.append_ms, *row[7:], verdict, first, "", "")
    return ListedEvent._make(parts)


def _over(meter_id: str) -> ReportedDelivery:
    delivery = Delivery(
        "dlv_" + "a" * 32, "run_" + "a" * 32, "01M7ZMF4YA7D2SQ292V0W9JPT8", "daily", START_MS,
        START_MS + MINUTE_MS, "acme", 1, 1, 1, DeliveryState.DELIVERED, 1, bytes(32), NOW_MS + 1,
    )  # fmt: skip
    usage = (({"region": "north"}, "1"),)
    return ReportedDelivery(delivery, meter_id, 1, NOW_MS + 1, NOW_MS, ("region",), usage)


async def test_an_event_leads_to_its_cells_and_deliveries(traced: Traced) -> None:
    row = _row(0)
    copy = row._replace(offset=7, append_ms=NOW_MS + 5)
    traced.api.usage.events = [
        _listed(copy, Verdict.DUPLICATE, first=0),
        _listed(row, Verdict.NEW),
    ]
    mine = _over(traced.meter["id"])
    other = replace(mine, usage=(({"region": "south"}, "9"),))
    traced.shelf.over = [mine, other]
    trace = await traced.api.json("GET", TRACE, params={"source": "s", "id": "e0"})
    first, second = trace["events"]
    assert [one["verdict"]["kind"] for one in (first, second)] == ["new", "duplicate"]
    (cell,) = first["verdict"]["meters"]
    assert (cell["key"], cell["outcome"], cell["from"]) == ("calls", "counted", WINDOW["from"])
    assert second["verdict"]["of"]["position"] == first["position"]
    (entry,) = trace["deliveries"]
    assert entry["delivery"]["id"] == mine.delivery.id
    assert {name: entry[name] for name in ("dimensions", "value", "certain")} == {
        "dimensions": {"region": "north"}, "value": "1", "certain": False,
    }  # fmt: skip
    assert traced.shelf.asked == [("default", [traced.meter["id"]], "acme", row.time_ms)]
    (query,) = traced.api.usage.event_queries
    assert query.namespace == "default"
    assert Verdict.INVALID not in query.verdicts


async def test_an_event_that_is_not_there_is_not_found(traced: Traced) -> None:
    await traced.api.json("GET", TRACE, 404, params={"source": "s", "id": "e0"})
    assert await traced.api.faults("GET", TRACE) == {"source": "required", "id": "required"}


async def test_deliveries_are_shown_to_who_may_read_reports(
    traced: Traced, serve: ServeApi
) -> None:
    traced.api.usage.events = [_listed(_row(0), Verdict.NEW)]
    caller = Principal("default", "key:1", EVERY_SCOPE - {Scope.REPORTS_READ}, "1")
    ledger = Ledger(NOTHING, NOTHING, traced.shelf, traced.shelf)
    gate = Gate(traced.api.clock, lambda _header, _now_ms: caller)
    client = await serve(traced.api.stores, gate, ledger)
    async with client.get(TRACE, params={"source": "s", "id": "e0"}) as response:
        assert response.status == 200
        assert "deliveries" not in await response.json()
    assert traced.shelf.asked == []
