"""Traces of requests and of events on their way into the log, over HTTP, with a tracer that keeps
its spans.
"""

import json
from collections.abc import AsyncIterator, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from ingest.admission import AdmissionRules
from ingest.gateway import Gateway, routes
from ingest.publisher import Publisher
from meterline.backends.clock import SystemClock
from meterline.backends.sqlite_log import SqliteLog, open_sqlite_log
from meterline.event import Event, decode_record, trace_of
from meterline.http import SERVER_OPTIONS, problem_middleware
from meterline.http.gate import Gate
from meterline.http.scrape import OPERATION
from meterline.http.tracing import current_trace, tracing, with_trace_id
from meterline.limits import TRACE_EVENTS_MAX
from meterline.ports import TraceContext, Work
from tests.traced.book import Book, Page

PATH = "/api/v3/metering/events"
BATCH = "application/cloudevents-batch+json"
EVENT = {"specversion": "1.0", "source": "s", "type": "t", "subject": "nobody-shall-see"}
CALLER = TraceContext(0xCA11E2, 0xCA11, sampled=True)
OTHER = TraceContext(0x07BE2, 0x07, sampled=True)


@dataclass(slots=True)
class Traced:
    """A gateway that is traced."""

    client: "TestClient[web.Request, web.Application]"
    log: SqliteLog
    book: Book
    lines: list[MutableMapping[str, Any]]

    async def post(self, *events: dict[str, Any], **headers: str) -> int:
        body = [{**EVENT, "id": str(number), **it} for number, it in enumerate(events)]
        answer = await self.client.post(
            PATH, data=json.dumps(body).encode(), headers={"Content-Type": BATCH, **headers}
        )
        return answer.status

    async def events(self) -> list[Event]:
        found = []
        for partition in range(self.log.partitions):
            for record in await self.log.read(partition, 0, 1_000):
                found += [it for it in decode_record(record) if isinstance(it, Event)]
        return sorted(found, key=lambda it: int(it.id))

    def one(self, work: Work) -> Page:
        (page,) = self.book.ended(work)
        return page


@pytest.fixture
async def traced(tmp_path: Path) -> AsyncIterator[Traced]:
    clock, book = SystemClock(), Book()
    log = open_sqlite_log(tmp_path / "log", 4, clock)
    app = web.Application(middlewares=[tracing(book), problem_middleware(clock)])
    gate, lines = Gate(clock), list[MutableMapping[str, Any]]()
    door = Gateway(Publisher(log, clock), AdmissionRules(log.partitions), clock, gate)
    app.add_routes(routes(door, gate))

    async def logs(request: web.Request) -> web.Response:
        if "operation" in request.query:
            request[OPERATION] = request.query["operation"]
            trace = current_trace()
            assert trace is not None
            trace.begin()
        lines.append(with_trace_id(None, "info", {}))
        return web.Response()

    app.router.add_get("/logs", logs)
    server = TestServer(app)
    await server.start_server(**SERVER_OPTIONS)
    client = TestClient(server)
    yield Traced(client, log, book, lines)
    await client.close()
    await log.close()


async def test_a_request_is_one_trace_as_far_as_the_log(traced: Traced) -> None:
    assert await traced.post({}, {}, traceparent=CALLER.traceparent, tracestate="a=b") == 202
    request, admit, append = map(traced.one, (Work.REQUEST, Work.ADMIT, Work.APPEND))
    assert request.parent == TraceContext(CALLER.trace_id, CALLER.span_id, True, "a=b")  # noqa: FBT003
    assert admit.parent == append.parent == request.context
    assert request.name == "POST ingest-metering-events"
    assert request.attributes["http.response.status_code"] == 202
    assert admit.since_ns is not None
    found = [trace_of(it.text) for it in await traced.events()]
    assert found == [append.context] * 2, "both go on in it"


async def test_an_event_that_brings_a_trace_keeps_it_and_the_request_joins_it(
    traced: Traced,
) -> None:
    assert await traced.post({"traceparent": CALLER.traceparent}, {}, {"traceparent": "?"}) == 202
    request, append = traced.one(Work.REQUEST), traced.one(Work.APPEND)
    assert request.parent == CALLER
    found = [trace_of(it.text) for it in await traced.events()]
    assert found == [CALLER, append.context, None]


async def test_the_header_goes_before_events_and_several_traces_are_linked(traced: Traced) -> None:
    both = ({"traceparent": OTHER.traceparent}, {"traceparent": CALLER.traceparent})
    assert await traced.post(*both, traceparent=CALLER.traceparent) == 202
    assert await traced.post(*both) == 202
    first, second = traced.book.ended(Work.REQUEST)
    assert (first.parent, first.links) == (CALLER, [])
    assert (second.parent, second.links) == (OTHER, [CALLER])


async def test_what_is_not_sampled_leaves_no_trace(traced: Traced) -> None:
    unsampled = TraceContext(1, 1, sampled=False)
    assert await traced.post({}) == 202
    assert await traced.post({}, traceparent=unsampled.traceparent) == 202
    assert await traced.post({"traceparent": unsampled.traceparent}) == 202
    assert traced.book.pages == []
    assert b"traceparent" not in (await traced.events())[0].text


async def test_of_a_large_request_the_first_events_are_traced(traced: Traced) -> None:
    many = TRACE_EVENTS_MAX + 5
    assert await traced.post(*[{}] * many, traceparent=CALLER.traceparent) == 202
    found = [trace_of(it.text) is not None for it in await traced.events()]
    assert found == [True] * TRACE_EVENTS_MAX + [False] * 5


async def test_neither_subjects_nor_payloads_are_in_spans(traced: Traced) -> None:
    secret = {"data": {"card": "nobody-shall-see"}}
    assert await traced.post(secret, traceparent=CALLER.traceparent) == 202
    assert await traced.post({"id": ""}, traceparent=CALLER.traceparent) == 400
    shown = repr(traced.book.pages)
    assert "nobody-shall-see" not in shown
    refused = traced.book.ended(Work.REQUEST)[-1]
    assert refused.attributes["http.response.status_code"] == 400
    assert refused.failure == ""


async def test_lines_of_the_log_name_the_trace_of_their_request_only(traced: Traced) -> None:
    for headers in ({"traceparent": CALLER.traceparent}, {}):
        await traced.client.get("/logs?operation=list-logs", headers=headers)
    assert traced.lines == [{"trace_id": CALLER.trace}, {}]
    assert traced.one(Work.REQUEST).name == "GET list-logs"


@pytest.mark.parametrize("path", ["/logs", "/made-up", f"{PATH}/made-up"])
async def test_no_span_is_begun_for_what_is_no_operation(traced: Traced, path: str) -> None:
    await traced.client.get(path, headers={"traceparent": CALLER.traceparent})
    assert traced.book.pages == []


async def test_of_two_headers_none_is_right(traced: Traced) -> None:
    twice = [("traceparent", CALLER.traceparent), ("traceparent", OTHER.traceparent)]
    await traced.client.get("/logs?operation=list-logs", headers=twice)
    assert traced.book.pages == []
