"""Erasures over HTTP."""

from typing import Any

from tests.unit.control.conftest import Api

PATH = "/api/v3/metering/erasures"


async def test_a_subject_is_asked_to_be_erased_once(api: Api) -> None:
    await api.client.post("/api/v3/metering/subjects", json={"key": "alice", "name": "Alice"})
    async with api.client.post(PATH, json={"subject": "alice"}) as response:
        assert response.status == 202
        asked: Any = await response.json()
    assert asked == {
        "id": asked["id"],
        "state": "asked",
        "subject": "alice",
        "pseudonym": f"erased-{asked['id']}",
        "asked_at": asked["asked_at"],
    }
    async with api.client.post(PATH, json={"subject": "alice"}) as response:
        assert await response.json() == asked
    async with api.client.get(PATH) as response:
        assert (await response.json())["data"] == [asked]
    async with api.client.get(f"{PATH}/{asked['id']}") as response:
        assert await response.json() == asked
    async with api.client.get("/api/v3/metering/subjects/alice") as response:
        assert response.status == 404, "what is said of it goes at once"


async def test_an_unknown_erasure_is_not_found(api: Api) -> None:
    async with api.client.get(f"{PATH}/01M7ZMF4YA7D2SQ292V0W9JPT8") as response:
        assert response.status == 404


async def test_a_subject_without_a_name_is_refused(api: Api) -> None:
    assert await api.faults("POST", PATH, json={"subject": ""})
