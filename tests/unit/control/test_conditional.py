"""Conditional requests for usage (RFC 9110 13): who has a sealed answer is told that it holds."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from control.usage.answers import Answers, Form
from control.usage.entity_tag import entity_tag, tags_of
from control.v1.query import _entries
from meterline.number import UNIT
from meterline.usage import UsageRow
from tests.unit.control.conftest import Api
from tests.unit.control.test_answers import _blocks, _rows, rows_of_any

V1 = "/api/v1/meters"
V3 = "/api/v3/metering/meters"
PATH = f"{V1}/distance/query"
HOUR_MS = 3_600_000
TO = {"to": "1970-01-01T01:00:00Z"}
UNTIL = "Meterline-Complete-Until"
CSV = {"Accept": "text/csv"}


@pytest.fixture(autouse=True)
async def usage(api: Api) -> None:
    """A meter with usage, complete until a little after the first hour."""
    body = {
        "slug": "distance",
        "aggregation": "SUM",
        "eventType": "flight",
        "valueProperty": "$.distance",
        "groupBy": {"origin": "$.origin"},
    }
    await api.json("POST", V1, 201, json=body)
    api.usage.rows = [UsageRow(0, HOUR_MS, None, (("origin", "EWR"),), UNIT, 1, 0)]
    await _complete(api, HOUR_MS)


async def _complete(api: Api, until_ms: int) -> None:
    for partition in (0, 1):
        log, revision = api.stores.log.number, 1
        await api.stores.progress.complete(log, revision, {partition: until_ms})


Told = tuple[int, CIMultiDict[str], bytes]


async def _get(
    api: Api,
    headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    params: Mapping[str, str] = TO,
    method: str = "GET",
) -> Told:
    sent = CIMultiDict(headers)
    async with api.client.request(method, PATH, params=params, headers=sent) as response:
        return response.status, CIMultiDict(response.headers), await response.read()


async def _tag(api: Api, headers: Mapping[str, str] = {}, params: Mapping[str, str] = {}) -> str:
    status, given, _ = await _get(api, headers, {**TO, **params})
    assert status == 200
    return given["ETag"]


@pytest.mark.parametrize("accept", ["application/json", "text/csv"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_who_has_a_sealed_answer_gets_it_without_its_body(
    api: Api, accept: str, method: str
) -> None:
    status, given, body = await _get(api, {"Accept": accept}, method=method)
    assert (status, given["Content-Type"].partition(";")[0]) == (200, accept)
    assert (given["Cache-Control"], given["Vary"]) == ("private, no-cache", "Accept")
    assert bool(body) == (method == "GET")
    await _complete(api, 2 * HOUR_MS)
    headers = {"Accept": accept, "If-None-Match": given["ETag"]}
    status, again, body = await _get(api, headers, method=method)
    assert (status, body) == (304, b"")
    for name in ("ETag", "Cache-Control", "Vary"):
        assert again[name] == given[name]
    assert (given[UNTIL], again[UNTIL]) == ("1970-01-01T01:00:00Z", "1970-01-01T02:00:00Z")
    assert "Content-Disposition" not in again
    assert "Content-Type" not in again
    assert len(again["X-Request-Id"]) == 26


async def test_the_connection_goes_on_behind_304(api: Api) -> None:
    tag = await _tag(api)
    for _ in range(3):
        assert (await _get(api, {"If-None-Match": tag}))[0] == 304
        assert (await _get(api))[0] == 200


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([""], 200),
        (["TAG"], 304),
        (["W/TAG"], 304),
        (['"other", TAG'], 304),
        (['"other"', "W/TAG"], 304),
        ([' , "a,b" ,,\tTAG , '], 304),
        (["*"], 304),
        (['"other"'], 200),
        (['W/"other"'], 200),
        (["w/TAG"], 200),
        (["TAG garbage"], 200),
        (['TAG "other"'], 200),
        (["*, TAG"], 200),
        (["TAG\\"], 200),
        (["'TAG'"], 200),
    ],
)
async def test_the_header_is_read_as_the_standard_has_it(
    api: Api, lines: list[str], status: int
) -> None:
    tag = await _tag(api)
    headers = [("If-None-Match", line.replace("TAG", tag)) for line in lines]
    assert (await _get(api, headers))[0] == status


async def test_a_late_event_changes_the_tag(api: Api) -> None:
    tag = await _tag(api)
    before = api.usage.rows
    api.usage.rows = [UsageRow(0, HOUR_MS, None, (("origin", "EWR"),), UNIT + 1, 2, 0)]
    status, given, body = await _get(api, {"If-None-Match": tag})
    assert (status, b"1.000000000000000001" in body) == (200, True)
    assert given["ETag"] != tag
    api.usage.rows = before
    assert await _tag(api) == tag


@pytest.mark.parametrize(("until_ms", "params"), [(HOUR_MS - 1, TO), (HOUR_MS, {}), (None, TO)])
async def test_what_still_moves_has_no_tag_and_is_kept_by_nobody(
    api: Api, until_ms: int | None, params: dict[str, str]
) -> None:
    if until_ms is None:  # not known
        body = {"slug": "new", "aggregation": "COUNT", "eventType": "flight"}
        await api.json("POST", V1, 201, json=body)
        path = f"{V1}/new/query"
    elif until_ms < HOUR_MS:
        path, params = PATH, {"to": "1970-01-01T01:00:00.001Z"}
    else:
        path = PATH
    async with api.client.get(path, params=params) as response:
        assert response.status == 200
        assert "ETag" not in response.headers
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["Vary"] == "Accept"


async def test_tags_are_of_one_form_and_one_question(api: Api) -> None:
    found = [
        await _tag(api),
        await _tag(api, CSV),
        await _tag(api, params={"from": "1970-01-01T00:00:00Z"}),
        await _tag(api, params={"windowSize": "HOUR"}),
    ]
    assert len(set(found)) == len(found)
    assert (await _get(api, {**CSV, "If-None-Match": found[0]}))[0] == 200


async def test_a_wrong_question_is_a_problem_whatever_its_reader_has(api: Api) -> None:
    status, _, body = await _get(api, {"If-None-Match": "*"}, {"to": "never"})
    assert (status, b"bad-request" in body) == (400, True)
    api.usage.rows, api.usage.breaks_after = _rows(10), 1
    assert (await _get(api, {"If-None-Match": "*"}))[0] == 503


async def test_a_large_answer_is_a_stream_without_a_tag(api: Api) -> None:
    api.usage.rows, api.usage.block_rows = _rows(100), 10
    status, given, body = await _get(api)
    assert (status, body.count(b"windowStart")) == (200, 100)
    assert "ETag" not in given
    assert (given["Cache-Control"], given["Vary"]) == ("no-store", "Accept")
    assert (await _get(api, {"If-None-Match": '"a"'}))[0] == 200
    assert (await _get(api, {"If-None-Match": "*"}))[0] == 304
    assert (await _get(api, method="HEAD"))[1]["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", [PATH, f"{V3}/distance/query"])
@pytest.mark.parametrize("accept", ["application/json", "text/csv"])
async def test_a_question_in_a_body_is_answered_whatever_its_reader_has(
    api: Api, path: str, accept: str
) -> None:
    for known in ("*", await _tag(api, {"Accept": accept})):
        headers = {"Accept": accept, "If-None-Match": known}
        async with api.client.post(path, json=TO, headers=headers) as response:
            assert response.status == 200
            assert "ETag" not in response.headers
            assert await response.read()


async def _bytes(form: Form, rows: Sequence[UsageRow]) -> bytes:
    return b"".join([piece async for piece in Answers().pieces(form, _blocks(rows, 40))])


@given(rows_of_any, rows_of_any)
def test_tags_are_equal_where_answers_are(one: list[UsageRow], other: list[UsageRow]) -> None:
    form = Form("application/json", b'{"data":[', _entries, b",", b"]}")

    tags = [entity_tag({}, asyncio.run(_bytes(form, rows))) for rows in (one, other, one)]
    assert tags[0] == tags[2]
    assert (tags[0] == tags[1]) == ([*map(_shown, one)] == [*map(_shown, other)])


def _shown(row: UsageRow) -> tuple[Any, ...]:
    return row.from_ms, row.to_ms, row.subject, row.groups, row.value


@given(st.dictionaries(st.text(), st.text()), st.dictionaries(st.text(), st.text()), st.binary())
def test_tags_cover_headers_and_body(
    one: dict[str, str], other: dict[str, str], body: bytes
) -> None:
    assert (entity_tag(one, body) == entity_tag(other, body)) == (one == other)
    assert entity_tag(one, body) != entity_tag(one, body + b"\n")
    assert tags_of(f"W/{entity_tag(one, body)}") == [entity_tag(one, body)]


@given(st.text())
def test_any_header_is_read(text: str) -> None:
    assert isinstance(tags_of(text), list)


opaque = st.text(st.characters(min_codepoint=0x21, max_codepoint=0xFF, exclude_characters='"\x7f'))


some_tags = st.tuples(st.sampled_from(["", "W/"]), opaque)


@given(st.lists(some_tags), st.sampled_from([",", " ,\t", ",,"]))
def test_lists_of_tags_are_read(listed: list[tuple[str, str]], between: str) -> None:
    text = between.join(f'{weak}"{tag}"' for weak, tag in listed)
    assert tags_of(text) == [f'"{tag}"' for _, tag in listed]
