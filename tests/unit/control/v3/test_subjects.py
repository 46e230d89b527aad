import pytest

from tests.unit.control.conftest import Api

SUBJECTS = "/api/v3/metering/subjects"


async def test_a_subject_is_said_something_of_shown_and_erased(api: Api) -> None:
    sent = {"name": "Customer One", "metadata": {"crm": 7}}
    made = await api.json("POST", SUBJECTS, 201, json={"key": "customer/1", **sent})
    assert (made["key"], made["name"], made["metadata"]) == ("customer/1", *sent.values())
    assert await api.json("GET", f"{SUBJECTS}/customer%2F1") == made
    (old,) = await api.json("GET", "/api/v1/subjects")
    assert (old["id"], old["displayName"]) == (made["id"], "Customer One"), "v1 shows the same one"

    changed = await api.json("PUT", f"{SUBJECTS}/{made['id']}", json={"name": ""})
    assert (changed["id"], changed["key"]) == (made["id"], "customer/1")
    assert "name" not in changed
    assert changed["metadata"] == {"crm": 7}, "what is left out stays"
    emptied = await api.json("PUT", f"{SUBJECTS}/customer%2F1", json={"metadata": {}})
    assert "metadata" not in emptied

    problem = await api.json("POST", SUBJECTS, 409, json={"key": "customer/1"})
    assert "there already" in problem["detail"]

    await api.json("DELETE", f"{SUBJECTS}/customer%2F1", 204)
    await api.json("GET", f"{SUBJECTS}/customer%2F1", 404)
    await api.json("DELETE", f"{SUBJECTS}/customer%2F1", 404)


async def test_lists_are_filtered_and_come_in_pages(api: Api) -> None:
    for key, name in (("b", "Beta"), ("a", "Alpha"), ("c", "")):
        await api.json("POST", SUBJECTS, 201, json={"key": key, "name": name})
    page = await api.json("GET", SUBJECTS, params={"page[size]": "2"})
    assert [one["key"] for one in page["data"]] == ["a", "b"]
    assert page["meta"]["page"] == {"number": 1, "size": 2, "total": 3}
    for params, keys in (
        ({"filter[name][contains]": "ALPH"}, ["a"]),
        ({"filter[key][oeq]": "a,c"}, ["a", "c"]),
        ({"filter[name]": ""}, ["c"]),
    ):
        page = await api.json("GET", SUBJECTS, params=params)
        assert [one["key"] for one in page["data"]] == keys


@pytest.mark.parametrize(
    "said", [{"name": None}, {"metadata": []}, {"other": "x"}, {"name": "x" * 1_025}]
)
async def test_what_cannot_be_said_is_refused(api: Api, said: dict[str, object]) -> None:
    await api.json("POST", SUBJECTS, 400, json={"key": "x", **said})
    await api.json("GET", f"{SUBJECTS}/x", 404)
    made = await api.json("POST", SUBJECTS, 201, json={"key": "x"})
    await api.json("PUT", f"{SUBJECTS}/x", 400, json=said)
    assert await api.json("GET", f"{SUBJECTS}/x") == made


async def test_another_key_or_one_that_no_event_could_have_is_refused(api: Api) -> None:
    await api.json("POST", SUBJECTS, 201, json={"key": "x"})
    await api.json("PUT", f"{SUBJECTS}/x", 400, json={"key": "y"})
    for key in ("", "k" * 1_025, None):
        await api.json("POST", SUBJECTS, 400, json={"key": key})
    await api.json("PUT", f"{SUBJECTS}/nobody", 404, json={"name": "x"})
