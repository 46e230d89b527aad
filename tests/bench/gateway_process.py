"""One gateway as a process of its own, for the benchmark: `python -m tests.bench.gateway_process`.

Arguments: what stands behind it (`sqlite:FOLDER`, `kafka:BOOTSTRAP/TOPIC`, or `decode` for a
handler that decodes and answers), the core that it may use, and `measured` if it has metrics, as a
process of the product has. Prints the port, then serves until
its standard input is closed.
"""

import asyncio
import contextlib
import os
import sys
from pathlib import Path

import msgspec
import uvloop
from aiohttp import web

from ingest.admission import AdmissionRules
from ingest.gateway import Gateway, routes
from ingest.publisher import Publisher
from meterline.backends.clock import SystemClock
from meterline.backends.kafka.log import open_kafka_log
from meterline.backends.sqlite_log import open_sqlite_log
from meterline.backends.telemetry.otlp import OtlpTracer, exporter_to
from meterline.backends.telemetry.prometheus import PrometheusRecorder
from meterline.event import Log
from meterline.http import SERVER_OPTIONS, problem_middleware
from meterline.http.connections import Runner
from meterline.http.gate import Gate
from meterline.http.scrape import Scrape, measuring
from meterline.http.tracing import tracing
from meterline.limits import PARTITIONS_EMBEDDED, PARTITIONS_KAFKA
from meterline.ports import SILENT

RETENTION_MS = 3_600_000


async def open_log(behind: str) -> Log:
    """The log that an argument names."""
    kind, _, where = behind.partition(":")
    if kind == "sqlite":
        return open_sqlite_log(Path(where), PARTITIONS_EMBEDDED, SystemClock())
    bootstrap, _, topic = where.partition("/")
    return await open_kafka_log(bootstrap, topic, PARTITIONS_KAFKA, RETENTION_MS)


async def decode_only(request: web.Request) -> web.Response:
    """What a handler costs that decodes the events and does nothing with them."""
    msgspec.json.decode(await request.read())
    return web.Response(status=202)


async def serve(behind: str, *, measured: bool = False, traces: str | None = None) -> None:
    """Serve until standard input ends; 1 % is traced where there is a collector."""
    async with contextlib.AsyncExitStack() as stack:
        app, clock, answered = web.Application(), SystemClock(), None
        if behind == "decode":
            app.add_routes([web.post("/api/v3/metering/events", decode_only)])
        else:
            log = await open_log(behind)
            stack.push_async_callback(log.close)
            recorder = PrometheusRecorder("ingest") if measured else SILENT
            answered, outermost = measuring(recorder) if measured else None, []
            if traces is not None:
                tracer = OtlpTracer(exporter_to(traces), 0.01, {"service.name": "bench"}, recorder)
                outermost.append(tracing(tracer))
            publisher = Publisher(log, clock, recorder=recorder)
            app = web.Application(middlewares=[*outermost, problem_middleware(clock)])
            gate = Gate(clock)
            rules = AdmissionRules(log.partitions)
            gateway = Gateway(publisher, rules, clock, gate, recorder=recorder)
            app.add_routes(routes(gateway, gate))
            if isinstance(recorder, PrometheusRecorder):
                app.add_routes(Scrape(recorder.exposition).routes())
        runner = Runner(app, clock, answered, **SERVER_OPTIONS)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        sys.stdout.write(f"{runner.addresses[0][1]}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


def main() -> None:
    """Run pinned to the core that is named, where the system can: one core is what is measured."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(sys.argv[2])})
    more = sys.argv[3:]
    traces = next((it for it in more if it.startswith("http")), None)
    uvloop.run(serve(sys.argv[1], measured="measured" in more, traces=traces))


if __name__ == "__main__":
    main()
