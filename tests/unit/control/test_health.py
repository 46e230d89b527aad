from tests.unit.control.conftest import Api


async def test_probes_answer(api: Api) -> None:
    assert await api.json("GET", "/healthz") == {"status": "alive"}
    ready = await api.json("GET", "/readyz")
    assert ready == {"status": "ready", "parts": ["control", "usage", "log"]}


async def test_alive_needs_no_store_and_ready_names_the_one_that_is_away(api: Api) -> None:
    api.usage.away = True
    assert await api.json("GET", "/healthz") == {"status": "alive"}
    problem = await api.json("GET", "/readyz", 503)
    assert problem["detail"] == "usage: usage store: connection refused"


async def test_nothing_elsewhere(api: Api) -> None:
    problem = await api.json("GET", "/api/v9", 404)
    assert problem["type"] == "urn:meterline:problem:not-found"
