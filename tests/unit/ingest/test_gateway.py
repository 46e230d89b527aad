"""The gateway over HTTP, on the SQLite log: what is answered, and what is in the log after it."""

import gzip
import io
import json
import time
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer

from ingest.admission import AdmissionRules
from ingest.gateway import Gateway as Door
from ingest.gateway import routes
from ingest.publisher import Publisher
from meterline.backends.clock import SystemClock
from meterline.backends.sqlite_log import SqliteLog, open_sqlite_log
from meterline.event import Event, decode_record
from meterline.http import SERVER_OPTIONS, problem_middleware
from meterline.http.gate import Gate
from meterline.limits import BATCH_EVENTS_MAX, BODY_BYTES_MAX, EVENT_BYTES_MAX
from tests.openapi import documented

V3 = "/api/v3/metering/events"
ALIAS = "/api/v3/openmeter/events"
V1 = "/api/v1/events"
ONE = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
EVENT = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "subject": "u"}
PROBLEM = "application/problem+json"


@dataclass(slots=True)
class Gateway:
    """A gateway that serves, and its log."""

    client: "TestClient[web.Request, web.Application]"
    log: SqliteLog

    async def post(
        self, body: bytes, content_type: str | None = ONE, path: str = V3, **headers: str
    ) -> ClientResponse:
        """POST a body as it is."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if content_type is not None:
            named["Content-Type"] = content_type
        skip = {"Content-Type"} if content_type is None else None
        return await self.client.post(
            path, data=io.BytesIO(body), headers=named, skip_auto_headers=skip
        )

    async def events(self) -> list[Event]:
        """Everything in the log."""
        found: list[Event] = []
        for partition in range(self.log.partitions):
            for record in await self.log.read(partition, 0, 1000):
                for event in decode_record(record):
                    assert isinstance(event, Event)
                    found.append(event)
        return found


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    """A gateway over an empty log of four partitions."""
    clock = SystemClock()
    log = open_sqlite_log(tmp_path / "log", 4, clock)
    app = web.Application(middlewares=[documented, problem_middleware(clock)])
    gate = Gate(clock)
    door = Door(Publisher(log, clock), AdmissionRules(log.partitions), clock, gate)
    app.add_routes(routes(door, gate))

    async def broken(_: web.Request) -> web.Response:
        raise RuntimeError("the secret of the house")

    app.router.add_get("/broken", broken)
    server = TestServer(app)
    await server.start_server(**SERVER_OPTIONS)
    client = TestClient(server)
    yield Gateway(client, log)
    await client.close()
    await log.close()


def event(**members: object) -> bytes:
    """An event's JSON."""
    return json.dumps({**EVENT, **members}).encode()


def batch(*events: bytes) -> bytes:
    return b"[" + b",".join(events) + b"]"


async def problem_of(response: ClientResponse, status: int, name: str) -> dict[str, Any]:
    """The problem document of an answer, its standard members checked (contract section 7)."""
    assert response.status == status
    assert response.headers["Content-Type"] == PROBLEM
    document: dict[str, Any] = json.loads(await response.read())
    assert document["type"] == f"urn:meterline:problem:{name}"
    assert document["status"] == status
    assert document["title"]
    assert document["detail"]
    assert document["instance"] == f"urn:request:{response.headers['X-Request-Id']}"
    return document


@pytest.mark.parametrize(("path", "status"), [(V3, 202), (ALIAS, 202), (V1, 204)])
@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (ONE, event()),
        (f"{ONE}; charset=utf-8", event()),
        (BATCH, batch(event())),
        ("application/json", event()),
        ("application/json;charset=UTF-8", batch(event())),
    ],
)
async def test_events_are_accepted_on_every_path_and_type(
    gateway: Gateway, path: str, status: int, content_type: str, body: bytes
) -> None:
    response = await gateway.post(body, content_type, path)
    assert response.status == status
    assert await response.read() == b""
    assert len(response.headers["X-Request-Id"]) == 26
    (found,) = await gateway.events()
    assert (found.namespace, found.source, found.id) == ("default", "s", "1")


async def test_the_answer_comes_when_all_events_are_in_the_log(gateway: Gateway) -> None:
    bodies = [event(id=str(number), data={"n": number}) for number in range(250)]
    assert (await gateway.post(batch(*bodies), BATCH)).status == 202
    found = await gateway.events()
    assert sorted(int(e.id) for e in found) == list(range(250))
    assert len({e.recorded_ms for e in found}) == 1


@pytest.mark.parametrize(
    ("encoding", "encode"),
    [
        ("gzip", gzip.compress),
        ("GZIP", lambda raw: gzip.compress(raw[:9]) + gzip.compress(raw[9:])),
        ("deflate", zlib.compress),
        ("deflate", lambda raw: zlib.compress(raw, wbits=-15)),
        ("identity", bytes),
    ],
)
async def test_encoded_bodies(gateway: Gateway, encoding: str, encode: Any) -> None:
    response = await gateway.post(encode(event()), Content_Encoding=encoding)
    assert response.status == 202
    assert len(await gateway.events()) == 1


BAD: dict[str, tuple[bytes, str, int | None, str, str]] = {
    # name: body, content type, index of the event, field, rule
    "not JSON": (b"not json", ONE, None, "", "json"),
    "empty body": (b"", ONE, None, "", "json"),
    "XML": (b"<event/>", ONE, None, "", "json"),
    "an array as one event": (batch(event()), ONE, None, "", "type"),
    "one event as a batch": (event(), BATCH, None, "", "type"),
    "wrong type of a member": (event(id=5), ONE, None, "id", "type"),
    "string data": (event(data="text"), ONE, None, "data", "type"),
    "XML data": (event(data="<a/>"), ONE, None, "data", "type"),
    "array data": (event(data=[1]), ONE, None, "data", "type"),
    "empty id": (event(id=""), ONE, None, "id", "min_length"),
    "missing subject": (event().replace(b"subject", b"object"), ONE, None, "subject", "required"),
    "NaN": (event(data={"v": float("nan")}), ONE, None, "data.v", "json"),
    "NaN in a batch": (
        batch(event(), event(id="2", data={"v": float("nan")})),
        BATCH,
        1,
        "data.v",
        "json",
    ),
    "a batch with one bad event": (
        batch(event(), event(id="2", subject=""), event(id="3")),
        BATCH,
        1,
        "subject",
        "min_length",
    ),
    "a repeated member": (event()[:-1] + b',"id":"1"}', ONE, None, "id", "repeated_member"),
    "an own namespace": (event(namespace="x"), ONE, None, "namespace", "reserved_attribute"),
    "an escaped namespace": (
        event()[:-1] + b',"\\u006eamespace":"x"}',
        ONE,
        None,
        "namespace",
        "reserved_attribute",
    ),
    "an own recordedtime": (
        event(recordedtime="2026-01-01T00:00:00Z"),
        ONE,
        None,
        "recordedtime",
        "reserved_attribute",
    ),
    "an event over the limit": (
        batch(event(), event(id="2", data={"a": "x" * EVENT_BYTES_MAX})),
        BATCH,
        1,
        "",
        "max_length",
    ),
}


@pytest.mark.parametrize("path", [V3, V1])
@pytest.mark.parametrize("name", BAD)
async def test_bad_input_is_told_by_event_and_field_and_nothing_is_in(
    gateway: Gateway, name: str, path: str
) -> None:
    body, content_type, index, field, rule = BAD[name]
    document = await problem_of(await gateway.post(body, content_type, path), 400, "invalid-event")
    found = next(f for f in document["invalid_parameters"] if f["field"] == field)
    assert found["rule"] == rule
    assert found["reason"]
    assert found["source"] == "body"
    assert found.get("index") == index
    if path == V1:
        where = field if index is None else f"[{index}].{field}"
        errors = document["extensions"]["validationErrors"]
        assert (where, rule) in [(e["field"], e["code"]) for e in errors]
        assert all(e["message"] for e in errors)
    else:
        assert "extensions" not in document
    assert await gateway.events() == []


@pytest.mark.parametrize("content_type", [None, "text/xml", "application/octet-stream", "json"])
async def test_unknown_content_types(gateway: Gateway, content_type: str | None) -> None:
    response = await gateway.post(event(), content_type)
    await problem_of(response, 400, "unsupported-content-type")
    assert await gateway.events() == []


async def test_a_body_over_the_limit(gateway: Gateway) -> None:
    large = event(data={"a": "x" * (11 * 1024 * 1024)})
    await problem_of(await gateway.post(large), 413, "body-too-large")

    async def unmeasured() -> AsyncIterator[bytes]:
        for start in range(0, len(large), 65_536):
            yield large[start : start + 65_536]

    response = await gateway.client.post(V3, data=unmeasured(), headers={"Content-Type": ONE})
    await problem_of(response, 413, "body-too-large")
    assert await gateway.events() == []


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_body_that_inflates_over_the_limit(gateway: Gateway, encoding: str) -> None:
    compress = gzip.compress if encoding == "gzip" else zlib.compress
    for size in (BODY_BYTES_MAX + 1, 100 * 1024 * 1024):
        bomb = compress(bytes(size))
        assert len(bomb) < BODY_BYTES_MAX
        response = await gateway.post(bomb, Content_Encoding=encoding)
        document = await problem_of(response, 413, "body-too-large")
        assert "inflated" in document["detail"]
    assert await gateway.events() == []


@pytest.mark.parametrize(
    ("members", "status"),
    [
        ([event(), b""], 202),
        ([b"[", *[b" " * 70_000] * 50, event()[:-1], event()[-1:] + b"]"], 202),
        ([b""] * 999 + [event()], 202),
        ([b""] * 1_000 + [event()], 400),
        ([b""] * 400_000, 400),  # copied whole for each, it held the loop for minutes
    ],
)
async def test_a_body_of_many_gzip_members(
    gateway: Gateway, members: list[bytes], status: int
) -> None:
    packed = {member: gzip.compress(member, 0) for member in set(members)}
    body = b"".join(packed[member] for member in members)
    begun_s = time.process_time()
    response = await gateway.post(body, "application/json", Content_Encoding="gzip")
    assert time.process_time() - begun_s < 20
    assert response.status == status, await response.text()


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (event(), "gzip"),
        (gzip.compress(event(), mtime=0)[:-4], "gzip"),
        (gzip.compress(event(), mtime=0) + b"tail", "gzip"),
        (b"\x78\x9cbad", "deflate"),
        (zlib.compress(event()) + b"tail", "deflate"),
        (event(), "br"),
        (event(), "gzip, gzip"),
    ],
)
async def test_broken_or_unknown_encodings(gateway: Gateway, body: bytes, encoding: str) -> None:
    response = await gateway.post(body, Content_Encoding=encoding)
    await problem_of(response, 400, "bad-request")
    assert await gateway.events() == []


async def test_too_many_events_in_a_request(gateway: Gateway) -> None:
    small = batch(*([event()] * (BATCH_EVENTS_MAX + 1)))
    await problem_of(await gateway.post(small, BATCH), 413, "body-too-large")
    assert await gateway.events() == []


async def test_an_empty_batch_is_accepted(gateway: Gateway) -> None:
    assert (await gateway.post(b"[]", BATCH)).status == 202
    assert await gateway.events() == []


async def test_other_methods_and_paths_are_problems(gateway: Gateway) -> None:
    for method in ("PUT", "DELETE", "GET"):
        response = await gateway.client.request(method, V3)
        await problem_of(response, 405, "method-not-allowed")
        assert response.headers["Allow"] == "POST"
    assert (await gateway.client.head(V3)).status == 405
    await problem_of(await gateway.client.get("/api/v3/nothing"), 404, "not-found")
    document = await problem_of(await gateway.client.get("/api/v2/x"), 404, "not-found")
    assert document["extensions"] == {"validationErrors": []}


async def test_an_unexpected_error_tells_nothing_of_itself(gateway: Gateway) -> None:
    response = await gateway.client.get("/broken")
    document = await problem_of(response, 500, "internal")
    assert "secret" not in json.dumps(document)


async def test_a_log_that_is_closed_is_unavailable(gateway: Gateway) -> None:
    await gateway.log.close()
    response = await gateway.post(event())
    document = await problem_of(response, 503, "unavailable")
    assert "Send them again" in document["detail"]
    assert int(response.headers["Retry-After"]) >= 1
