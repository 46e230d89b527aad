"""A preview shows what a run then sends, byte by byte but for the run."""

from typing import Any

from dispatcher.runs.planner import PlanTerms, Sources, make_runs
from meterline.backends.spool import FileSpool
from meterline.limits import DELIVERY_BODY_BYTES_MAX
from meterline.number import UNIT
from meterline.report import StartTerms
from meterline.usage import Filter, Operator, UsageRow
from meterline.window import DAY_MS
from tests.unit.control.conftest import NOW_MS
from tests.unit.control.reports.conftest import V3, WINDOW, ReportsApi

ONE = f"{V3}/reports/daily-tokens"
PREVIEW = f"{ONE}/preview"
FROM_MS = 1_698_796_800_000  # 2023-11-01T00:00:00Z


def row(subject: str, model: str, value: int) -> UsageRow:
    return UsageRow(FROM_MS, FROM_MS + DAY_MS, subject, (("model", model),), value, 1, 0)


ROWS = [
    row("acme", "large", 4 * UNIT),
    row("acme", 'a\x00"ü', 10**38 + 5),
    row("few", "large", UNIT),
    row("zeta", "", 7 * UNIT // 2),
]


def but_for_run(body: str) -> str:
    before, found, run = body.partition(',"run":{')
    assert found
    assert run.endswith("}}")
    return before


async def test_a_preview_equals_what_is_then_sent_but_for_the_run(served: ReportsApi) -> None:
    api = served.api
    await served.made_v3(filter={"usage": {"$gt": "1"}})
    api.usage.rows = ROWS
    shown = await api.json("POST", PREVIEW, json=WINDOW)
    assert (shown["deliveries"], shown["entries"], shown["filtered_out"]) == (2, 3, 1)
    assert shown["total_filtered_out"] == "1"
    assert shown["complete_until"] is None
    assert shown["too_large"] == []
    assert [(it["subject"], it["entries"]) for it in shown["data"]] == [("acme", 2), ("zeta", 1)]
    assert (await api.json("GET", f"{ONE}/runs"))["data"] == []  # nothing was stored

    await api.json("POST", f"{ONE}/runs", 201, json=WINDOW)
    stores = api.stores
    meter = await stores.meter("default", "tokens")
    for partition in range(2):
        await stores.progress.complete(stores.log.number, meter.revision, {partition: NOW_MS})
    nothing: Any = None
    ports = (
        stores.catalogue,
        stores.progress,
        stores.usage,
        served.corrections,
        nothing,
        FileSpool,
    )
    sources = Sources(served.reports, *ports)
    terms = PlanTerms(stores.log.number, 2, StartTerms(0))
    assert await make_runs(sources, terms, lambda: NOW_MS, "h") == 1
    sent = (await api.json("GET", f"{V3}/deliveries"))["data"]
    assert [it["subject"] for it in sent] == ["acme", "zeta"]
    for delivery, previewed in zip(sent, shown["data"], strict=True):
        path = f"{V3}/deliveries/{delivery['id']}/body"
        async with api.client.get(path) as response:
            body = (await response.read()).decode()
        assert but_for_run(body) == but_for_run(previewed["body"])
        assert previewed["bytes"] == len(previewed["body"].encode())


async def test_a_preview_comes_in_pages_or_for_one_subject(served: ReportsApi) -> None:
    api = served.api
    await served.made_v3()
    api.usage.rows = ROWS
    found: list[str] = []
    after = ""
    while True:
        page = await api.json("POST", f"{PREVIEW}?page[size]=2{after}", json=WINDOW)
        assert page["deliveries"] == 3
        found += [it["subject"] for it in page["data"]]
        if page["meta"]["page"]["next"] is None:
            break
        after = f"&page[after]={page['meta']['page']['next']}"
    assert found == ["acme", "few", "zeta"]
    await api.json("POST", PREVIEW, json={**WINDOW, "subject": "few"})
    assert api.usage.asked[-1].filters == (("subject", Filter(Operator.EQ, ("few",))),)


async def test_a_body_that_would_be_too_large_is_named(served: ReportsApi) -> None:
    api = served.api
    await served.made_v3()
    long = "x" * 1_000
    many = [row("huge", f"{long}{n}", UNIT) for n in range(DELIVERY_BODY_BYTES_MAX // 1_100)]
    api.usage.rows = [row("acme", "a", UNIT), *many]
    shown = await api.json("POST", f"{PREVIEW}?page[size]=1", json=WINDOW)
    (named,) = shown["too_large"]
    assert (named["subject"], named["entries"]) == ("huge", len(many))
    assert named["bytes"] > DELIVERY_BODY_BYTES_MAX
    assert f"{named['bytes']:,} bytes in {len(many):,} entries" in named["reason"]
    assert "body" in shown["data"][0]
    shown = await api.json("POST", f"{PREVIEW}?page[after]=acme", json=WINDOW)
    assert "body" not in shown["data"][0]


async def test_what_cannot_be_previewed_is_told(served: ReportsApi) -> None:
    api = served.api
    await api.json("POST", PREVIEW, 404, json=WINDOW)
    await served.made_v3()
    future = {"from": "2023-11-14T00:00:00Z", "to": "2023-11-15T00:00:00Z"}
    assert await api.faults("POST", PREVIEW, json=future) == {"to": "maximum"}
    null = {**WINDOW, "subject": None}
    assert await api.faults("POST", PREVIEW, json=null) == {"subject": "type"}


def _new(**members: object) -> dict[str, object]:
    return {"slug": "daily-tokens", "meter_id_or_key": "tokens", **members}


async def test_a_preview_of_a_new_report_is_that_of_the_made_one(served: ReportsApi) -> None:
    api = served.api
    api.usage.rows = ROWS
    members = {
        "query": {"group_by_dimensions": ["model"]},
        "filter": {"usage": {"$gt": "1"}},
    }
    body = {"report": _new(**members), **WINDOW}
    before = await api.json("POST", f"{V3}/report-preview", json=body)
    assert (await api.json("GET", f"{V3}/reports"))["data"] == []  # nothing was made
    await served.made_v3(**members)
    after = await api.json("POST", PREVIEW, json=WINDOW)
    bodies = [[but_for_run(it["body"]) for it in one["data"]] for one in (before, after)]
    assert bodies[0] == bodies[1] != []
    assert {**before, "data": []} == {**after, "data": []}


async def test_a_preview_of_a_new_report_names_every_fault(served: ReportsApi) -> None:
    async def faults(report: dict[str, object]) -> list[str]:
        body = {"report": report, "from": WINDOW["to"], "to": WINDOW["from"]}
        problem = await served.api.json("POST", f"{V3}/report-preview", 400, json=body)
        return [one["field"] for one in problem["invalid_parameters"]]

    assert await faults(_new(meter_id_or_key="none")) == ["from", "report.meter_id_or_key"]
    grouped = _new(query={"group_by_dimensions": ["model", "colour"]})
    assert await faults(grouped) == ["from", "report.query.group_by_dimensions.1"]
