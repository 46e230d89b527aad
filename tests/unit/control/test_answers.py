"""Large answers about usage: made a part at a time, beside the loop, whole or visibly cut."""

import asyncio
import csv
import io
import threading
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import aiohttp
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.usage.answers import Answers, Form
from control.usage.form import csv_lines
from control.usage.form import table_lines as v3_lines
from control.v1.query import _entries as v1_entries
from control.v3.usage.query import _entries as v3_entries
from meterline.limits import ANSWER_ROWS_AT_ONCE, LARGE_ANSWERS_MAX
from meterline.number import UNIT, text
from meterline.usage import UsageRow
from tests.unit.control.conftest import Api

METERS = "/api/v3/metering/meters"
PATH = f"{METERS}/distance/query"
V1_PATH = "/api/v1/meters/distance/query"
HOUR_MS = 3_600_000
BODY = {"group_by_dimensions": ["subject", "origin"]}


@pytest.fixture(autouse=True)
async def meter(api: Api) -> Any:
    """A meter to ask about."""
    body = {
        "name": "Distance",
        "key": "distance",
        "aggregation": "sum",
        "event_type": "flight",
        "value_property": "$.distance",
        "dimensions": {"origin": "$.origin"},
    }
    return await api.json("POST", METERS, 201, json=body)


def _rows(count: int) -> list[UsageRow]:
    return [
        UsageRow(0, HOUR_MS, f"s{n}", (("origin", "EWR"),), n * UNIT, 1, 0) for n in range(count)
    ]


async def _blocks(rows: Sequence[UsageRow], size: int) -> AsyncGenerator[list[UsageRow], None]:
    for first in range(0, len(rows), size):
        yield list(rows[first : first + size])


rows_of_any = st.lists(
    st.builds(
        UsageRow,
        st.integers(0, 10**12),
        st.integers(0, 10**12),
        st.text(max_size=5),
        st.tuples(st.tuples(st.just("origin"), st.text(max_size=5))),
        st.integers(-(10**60), 10**60),
        st.integers(0, 10**9),
        st.integers(0, 10**9),
    ),
    max_size=30,
)


async def _joined(form: Form, rows: Sequence[UsageRow], size: int) -> bytes:
    answers = Answers()
    return b"".join([piece async for piece in answers.pieces(form, _blocks(rows, size))])


@given(rows_of_any, st.integers(1, 31))
def test_an_answer_in_parts_is_the_answer_in_one(rows: list[UsageRow], size: int) -> None:
    for render in (v1_entries, v3_entries):
        form = Form("application/json", b'{"data":[', render, b",", b"]}")
        one_by_one = b",".join(render([row]) for row in rows)  # as it was rendered once
        found = asyncio.run(_joined(form, rows, size))
        assert found == b'{"data":[' + one_by_one + b"]}"
        assert len(msgspec.json.decode(found, type=dict[str, list[msgspec.Raw]])["data"]) == len(
            rows
        )
    form = Form("text/csv", b"from,to,subject,origin,value\r\n", v3_lines)
    found = asyncio.run(_joined(form, rows, size))
    assert found == form.head + b"".join(v3_lines([row]) for row in rows)
    lines = list(csv.reader(io.StringIO(found.decode(), newline="")))
    assert [line[-1] for line in lines[1:]] == [text(row.value) for row in rows]


async def test_many_rows_are_rendered_beside_the_loop_and_it_gets_turns_between() -> None:
    rendered_by: list[str] = []
    turns = 0

    def render(rows: Sequence[UsageRow]) -> bytes:
        rendered_by.append(threading.current_thread().name)
        return csv_lines([[str(row.value)] for row in rows])

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    answers, other = Answers(), asyncio.ensure_future(others())
    rows = _rows(10 * (ANSWER_ROWS_AT_ONCE + 1))
    form = Form("text/csv", b"", render)
    pieces = answers.pieces(form, _blocks(rows, ANSWER_ROWS_AT_ONCE + 1))
    seen = [turns async for _ in pieces]
    other.cancel()
    assert len(rendered_by) == 10
    assert all(name.startswith("answers") for name in rendered_by)
    waited = seen[:-1]  # the last was rendered with the one before
    assert waited == sorted(set(waited)), "turns between any two pieces"


async def test_few_rows_are_rendered_where_they_are() -> None:
    rendered_by: list[threading.Thread] = []

    def render(rows: Sequence[UsageRow]) -> bytes:
        rendered_by.append(threading.current_thread())
        return b"x" * len(rows)

    blocks = _blocks(_rows(ANSWER_ROWS_AT_ONCE), ANSWER_ROWS_AT_ONCE)
    async for _ in Answers().pieces(Form("text/csv", b"", render), blocks):
        pass
    assert rendered_by == [threading.current_thread()]


async def test_parts_are_read_only_as_they_are_taken() -> None:
    read = 0

    async def blocks() -> AsyncGenerator[list[UsageRow], None]:
        nonlocal read
        for _ in range(100):
            read += 1
            yield _rows(1)

    pieces = Answers().pieces(Form("text/csv", b"", v3_lines), blocks())
    for taken in range(1, 5):
        await anext(pieces)
        assert read == taken + 1, "one more tells whether it was the last"
    await pieces.aclose()
    assert read == 5


@pytest.mark.parametrize("block_rows", [1, 7, 100])
async def test_a_stream_is_whole_in_each_form(api: Api, block_rows: int) -> None:
    api.usage.rows, api.usage.block_rows = _rows(100), block_rows
    values = [str(n) for n in range(100)]
    found = await api.json("POST", PATH, json=BODY)
    assert [row["value"] for row in found["data"]] == values
    async with api.client.post(PATH, json=BODY, headers={"Accept": "text/csv"}) as response:
        lines = (await response.text()).split("\r\n")
        assert [line.rpartition(",")[2] for line in lines[1:-1]] == values
    params = {"groupBy": "subject"}
    async with api.client.get(V1_PATH, params=params) as response:
        assert [row["value"] for row in (await response.json())["data"]] == list(range(100))
    headers = {"Accept": "text/csv"}
    async with api.client.get(V1_PATH, params=params, headers=headers) as response:
        lines = (await response.text()).split("\n")
        assert [line.rpartition(",")[2] for line in lines[1:-1]] == [f"{n}.000000" for n in values]


@pytest.mark.parametrize("accept", ["application/json", "text/csv"])
async def test_an_answer_that_breaks_off_is_seen_to_be_cut(
    api: Api, accept: str, capsys: pytest.CaptureFixture[str]
) -> None:
    api.usage.rows, api.usage.block_rows, api.usage.breaks_after = _rows(100), 10, 5
    with pytest.raises(aiohttp.ClientError):
        async with api.client.post(PATH, json=BODY, headers={"Accept": accept}) as response:
            await response.read()
    assert "connection reset" in "".join(capsys.readouterr())


async def test_what_fails_before_the_first_byte_is_a_problem(api: Api) -> None:
    api.usage.rows, api.usage.breaks_after = _rows(10), 1  # nothing was sent
    problem = await api.json("POST", PATH, 503, json=BODY)
    assert problem["type"] == "urn:meterline:problem:unavailable"


@pytest.mark.parametrize("block_rows", [10, 100])
async def test_head_has_no_body_and_the_connection_goes_on(api: Api, block_rows: int) -> None:
    api.usage.rows, api.usage.block_rows = _rows(100), block_rows
    for _ in range(3):
        async with api.client.head(V1_PATH) as response:
            assert response.status == 200
            assert response.content_type == "application/json"
            assert len(response.headers["X-Request-Id"]) == 26
            assert await response.read() == b""
    assert len((await api.json("GET", V1_PATH))["data"]) == 100


async def test_places_are_given_back_whatever_comes_of_an_answer(api: Api) -> None:
    api.usage.rows, api.usage.block_rows = _rows(100), 10
    for breaks_after in (0, 5) * LARGE_ANSWERS_MAX:
        api.usage.breaks_after = breaks_after
        async with api.client.post(PATH, json=BODY) as response:
            try:
                await response.read()
            except aiohttp.ClientError:
                assert breaks_after
