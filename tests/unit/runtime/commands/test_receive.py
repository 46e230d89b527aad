"""The receiver of the contract (4.5): verifies, answers 400 and 405, knows copies, prints and
keeps.
"""

import asyncio
import base64
import io
import json
import re
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestClient, TestServer
from click.testing import CliRunner
from rich.console import Console
from svix.webhooks import Webhook

from meterline.runtime.commands.receive import Printer, Received, Receiver, receive

SECRET = "whsec_" + base64.b64encode(b"a" * 24).decode()
OTHER = "whsec_" + base64.b64encode(b"b" * 24).decode()
BODY = (
    '{"type":"report.meter","report":{"slug":"daily"},"usage":[{"subject":"acme","value":1.5,'
    '"valueText":"1.500000000000000001","groupBy":{"model":"x"}}],"query":'
    '{"from":"2026-01-01T00:00:00.000Z","to":"2026-01-02T00:00:00.000Z","subject":"acme"}}'
)
Client = TestClient[web.Request, web.Application]


def headers_of(
    body: str, secret: str = SECRET, name: str = "dlv_1", family: str = "svix", age_s: int = 0
) -> dict[str, str]:
    moment = datetime.now(tz=UTC) - timedelta(seconds=age_s)
    signature = Webhook(secret).sign(name, moment, body)
    values = {"id": name, "timestamp": str(int(moment.timestamp())), "signature": signature}
    return {f"{family}-{key}": value for key, value in values.items()}


@dataclass(slots=True)
class Kept:
    """What a receiver took and refused."""

    taken: list[Received] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


@pytest.fixture
async def kept() -> Kept:
    return Kept()


@pytest.fixture
async def client(kept: Kept) -> AsyncIterator[Client]:
    receiver = Receiver((SECRET, OTHER), kept.taken.append, kept.refused.append)
    made: Client = TestClient(TestServer(receiver.application()))
    await made.start_server()
    yield made
    await made.close()


@pytest.mark.parametrize("secret", [SECRET, OTHER])
@pytest.mark.parametrize("family", ["svix", "webhook"])
async def test_a_good_delivery_is_taken_at_any_path(
    client: Client, kept: Kept, secret: str, family: str
) -> None:
    headers = headers_of(BODY, secret, family=family)
    async with client.post("/any/path", data=BODY, headers=headers) as response:
        assert response.status == 200
    assert [(one.id, one.body) for one in kept.taken] == [("dlv_1", BODY.encode())]


async def test_a_copy_is_answered_and_not_taken_again(client: Client, kept: Kept) -> None:
    for name in ("dlv_1", "dlv_2", "dlv_1"):
        async with client.post("/", data=BODY, headers=headers_of(BODY, name=name)) as response:
            assert response.status == 200
    assert [one.id for one in kept.taken] == ["dlv_1", "dlv_2"]


GOOD = headers_of(BODY)


@pytest.mark.parametrize(
    "changes",
    [
        {"svix-signature": ""},
        {"svix-signature": "v1"},
        {"svix-signature": "v1,a,b"},
        {"svix-signature": "v1,!!!"},
        {"svix-signature": "v1,abc"},
        {"svix-signature": GOOD["svix-signature"] + "  x"},
        {"svix-signature": "v1a,AAAA"},
        {"svix-signature": "v1,ü"},
        {"svix-timestamp": "yesterday"},
        {"svix-timestamp": "1e999"},
        {"svix-timestamp": "NaN"},
        {"svix-timestamp": "1"},
        {"svix-id": "dlv_other"},
        {"svix-id": ""},
    ],
)
async def test_headers_that_do_not_verify_are_a_400(
    client: Client, kept: Kept, changes: dict[str, str]
) -> None:
    headers = {**headers_of(BODY), **changes}
    async with client.post("/", data=BODY, headers=headers) as response:
        assert response.status == 400
    assert kept.taken == []
    assert len(kept.refused) == 1


async def test_bodies_that_are_not_what_was_signed_or_not_for_us_are_a_400(
    client: Client, kept: Kept
) -> None:
    unsigned = BODY + " "
    cases: list[tuple[bytes, dict[str, str]]] = [
        (unsigned.encode(), headers_of(BODY)),
        (b"\xff\xfe", headers_of(BODY)),
        (BODY.encode(), {}),
        (BODY.encode(), headers_of(BODY, "whsec_" + base64.b64encode(b"c" * 24).decode())),
        (BODY.encode(), headers_of(BODY, age_s=301)),
    ]
    for text in ('{"type":"report.other"}', "{}", "[]", "{", '{"type":["report.meter"]}'):
        cases.append((text.encode(), headers_of(text)))  # noqa: PERF401
    for body, headers in cases:
        async with client.post("/", data=body, headers=headers) as response:
            assert response.status == 400, body
    assert kept.taken == []


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_other_methods_are_a_405(client: Client, method: str) -> None:
    async with client.request(method, "/hook") as response:
        assert response.status == 405
        assert response.headers["Allow"] == "POST"


def test_a_row_shows_report_window_subject_and_values_as_text() -> None:
    screen, out = io.StringIO(), io.BytesIO()
    printer = Printer(Console(file=screen, width=160), out, 2)
    hostile = BODY.replace('"acme"', '"[red]\\u001b[2J"')
    for text in (BODY, hostile):
        received = Received("dlv", text.encode(), json.loads(text))
        assert not printer.done.is_set()
        printer.keep(received)
    assert printer.done.is_set()
    shown = screen.getvalue()
    assert re.search(r"report +from +to +subject +values", shown)
    row = r"daily +2026-01-01T00:00:00.000Z +2026-01-02T00:00:00.000Z +acme +"
    assert re.search(row + r"1\.500000000000000001 \(model=x\)", shown)
    assert "[red]" in shown
    assert "\x1b" not in shown
    assert out.getvalue() == f"{BODY}\n{hostile}\n".encode()


async def test_the_command_receives_and_ends_after_its_count(tmp_path: Path) -> None:
    out = tmp_path / "got.ndjson"
    command = "from meterline.runtime.commands.receive import receive; receive()"
    options = ["--secret", SECRET, "--port", "0", "--count", "2", "--out", str(out)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", command, *options, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    found = re.search(r"http://[0-9.:]+/", line)
    assert found is not None, line
    async with ClientSession() as session:
        for name in ("dlv_1", "dlv_1", "dlv_2"):
            headers = headers_of(BODY, name=name)
            async with session.post(found[0], data=BODY, headers=headers) as response:
                assert response.status == 200
    shown, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    assert shown.decode().count("acme") == 2
    assert out.read_text() == f"{BODY}\n" * 2


@pytest.mark.parametrize("secret", ["whsec_", "whsec_!", ""])
def test_a_secret_that_is_none_is_told(secret: str) -> None:
    result = CliRunner().invoke(receive, ["--secret", secret])
    assert result.exit_code == 2
    assert "--secret" in result.output
