"""A collector of OTLP over HTTP on a loopback port. It may be ill."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True, slots=True)
class Collected:
    """A span as it came."""

    service: str
    name: str
    trace: str
    span: str
    parent: str
    links: tuple[str, ...]  # traces
    attributes: dict[str, str]
    took_ns: int


@dataclass(slots=True)
class Collector:
    """What came; `status` is what is answered, after `healthy` is set."""

    url: str
    spans: list[Collected] = field(default_factory=list)
    status: int = 200
    healthy: threading.Event = field(default_factory=threading.Event)
    asked: int = 0

    def of(self, trace: str) -> list[Collected]:
        """The spans of one trace."""
        return [it for it in list(self.spans) if it.trace == trace]


def _read(body: bytes) -> Iterator[Collected]:
    for by_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        about = {it.key: it.value.string_value for it in by_resource.resource.attributes}
        for by_scope in by_resource.scope_spans:
            for it in by_scope.spans:
                attributes = {
                    one.key: one.value.string_value or str(one.value.int_value)
                    for one in it.attributes
                }
                links = tuple(one.trace_id.hex() for one in it.links)
                took_ns = it.end_time_unix_nano - it.start_time_unix_nano
                yield Collected(
                    about["service.name"], it.name, it.trace_id.hex(), it.span_id.hex(),
                    it.parent_span_id.hex(), links, attributes, took_ns,
                )  # fmt: skip


@contextmanager
def collecting() -> Iterator[Collector]:
    """Collect until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.asked += 1
            collector.healthy.wait(60)
            if collector.status == 200:
                packed = self.headers.get("Content-Encoding") == "gzip"
                collector.spans += _read(gzip.decompress(body) if packed else body)
            self.send_response(collector.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector = Collector(f"http://127.0.0.1:{server.server_port}/v1/traces")
    collector.healthy.set()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield collector
    finally:
        collector.healthy.set()
        server.shutdown()
        thread.join()
        server.server_close()
