"""Headers that a report gives to its deliveries: taken, sealed, shown by name only."""

import json
from typing import Any

import pytest

from meterline.backends.secrets import FernetSecretBox
from meterline.delivery import headers_of
from tests.unit.control.reports.conftest import V1, V3, ReportsApi

URL = "https://example.com/hook"
ONE = f"{V3}/reports/daily-tokens"
KEY, TENANT = "X-Api-Key", "X-Tenant"
HEADERS = {TENANT: "hidden tenant", KEY: "hidden key"}


async def kept(served: ReportsApi) -> dict[str, str]:
    report = await served.reports.report("default", "daily-tokens")
    assert report is not None
    sealed = report.headers.sealed
    found = {} if sealed is None else headers_of(FernetSecretBox("key").open(sealed))
    assert list(report.headers.names) == sorted(found)
    return found


@pytest.mark.parametrize("version", [1, 3])
async def test_headers_are_kept_sealed_and_shown_by_name_only(
    served: ReportsApi, version: int
) -> None:
    make = served.made if version == 1 else served.made_v3
    made = await make(endpoint={"url": URL, "headers": HEADERS})
    assert await kept(served) == HEADERS
    for text in (
        json.dumps(made),
        json.dumps(await served.api.json("GET", ONE)),
        json.dumps(await served.api.json("GET", f"{V3}/reports")),
        json.dumps(await served.api.json("GET", f"{V1}/daily-tokens")),
        json.dumps(await served.api.json("GET", f"{V3}/changes")),
    ):
        assert "hidden" not in text
    assert (await served.api.json("GET", ONE))["endpoint"] == {
        "url": URL,
        "header_names": [KEY, TENANT],
    }
    shown = await served.api.json("GET", f"{V1}/daily-tokens")
    assert shown["endpoint"] == {"url": URL, "headerNames": [KEY, TENANT]}


async def put(served: ReportsApi, status: int = 200, **endpoint: Any) -> Any:
    return await served.api.json("PUT", ONE, status, json={"endpoint": endpoint})


async def test_they_stay_with_the_url_and_go_with_it(served: ReportsApi) -> None:
    await served.made_v3(endpoint={"url": URL, "headers": HEADERS})
    await put(served, url=URL)
    assert await kept(served) == HEADERS
    await put(served, url=URL, headers={KEY: "another"})
    assert await kept(served) == {KEY: "another"}
    page = await served.api.json("GET", f"{V3}/changes")
    assert page["data"][0]["detail"] == "headers"
    # what was meant for one receiver is not shown to another
    shown = await put(served, url="https://other.example/hook")
    assert shown["endpoint"] == {"url": "https://other.example/hook"}
    assert await kept(served) == {}
    await put(served, url=URL, headers=HEADERS)
    await put(served, url=URL, headers={})
    assert await kept(served) == {}


@pytest.mark.parametrize(
    ("headers", "field", "words"),
    [
        ({"Host": "x"}, "endpoint.headers.Host", "Host cannot be set"),
        ({"Content-Type": "x"}, "endpoint.headers.Content-Type", "Content-Type cannot be set"),
        ({"svix-id": "x"}, "endpoint.headers.svix-id", "svix-id cannot be set"),
        ({"X-Amz-Date": "x"}, "endpoint.headers.X-Amz-Date", "X-Amz-Date cannot be set"),
        ({"X-A": "a\r\nHost: b"}, "endpoint.headers.X-A", "printable ASCII"),
        ({"X-A": ""}, "endpoint.headers.X-A", "printable ASCII"),
        ({"a b": "x"}, "endpoint.headers.a b", "is no name of a header"),
        ({"X-A": "1", "x-a": "2"}, "endpoint.headers", "x-a is there twice"),
        ({f"X-{n}": "1" for n in range(21)}, "endpoint.headers", "20"),
        ({"X-A": 1}, "endpoint.headers.X-A", ""),
        ([], "endpoint.headers", ""),
    ],
)
async def test_what_may_not_be_is_refused_by_name(
    served: ReportsApi, headers: Any, field: str, words: str
) -> None:
    for make in ("POST", "PUT"):
        if make == "PUT":
            await served.made_v3()
        path = f"{V3}/reports" if make == "POST" else ONE
        body: dict[str, Any] = {"endpoint": {"url": URL, "headers": headers}}
        if make == "POST":
            body = {
                "slug": "x",
                "meter_id_or_key": "tokens",
                "type": "webhook",
                "schedule": {"interval": "1d"},
                **body,
            }
        problem = await served.api.json(make, path, 400, json=body)
        (fault,) = problem["invalid_parameters"]
        assert fault["field"] == field
        assert words in fault["reason"]


async def test_authorization_comes_from_the_url_or_from_a_header(served: ReportsApi) -> None:
    authorization = {"authorization": "Bearer x"}
    both = {"url": "https://me:word@example.com/hook", "headers": authorization}
    expected = {"endpoint.headers.Authorization": "is_header"}
    assert await served.faults(endpoint=both) == expected
    await served.made_v3(endpoint={"url": URL, "headers": authorization})
    # kept on one side, new on the other
    faults = await served.api.faults(
        "PUT", ONE, json={"endpoint": {"url": "https://me:word@example.com/hook"}}
    )
    assert faults == expected
    await put(served, url="https://me:word@example.com/hook", headers={})
    faults = await served.api.faults(
        "PUT", ONE, json={"endpoint": {"url": URL, "headers": authorization}}
    )
    assert faults == expected
    await put(served, url="https://@example.com/hook", headers=authorization)
    assert await kept(served) == authorization
