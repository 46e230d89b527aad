"""What metrics cost one request of one event, in a process of its own: `python
tests/bench/request_process.py`, with the checkout in `PYTHONPATH`.

Gateways of one loop answer the same requests by turns: without metrics, with them, and without them
once more, which shows what chance does. Their connections end in memory, and so does their log: no
kernel, no disk and no other process is in what is compared. Prints a line of JSON: nanoseconds of
processor time a request, of each way.
"""

import asyncio
import gc
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from statistics import quantiles
from typing import Any, Final

import uvloop
from aiohttp import web

from ingest.admission import AdmissionRules
from ingest.gateway import Gateway, routes
from ingest.publisher import Publisher
from meterline.backends.clock import SystemClock
from meterline.backends.telemetry.prometheus import PrometheusRecorder
from meterline.http import SERVER_OPTIONS, problem_middleware
from meterline.http.connections import Runner
from meterline.http.gate import Gate
from meterline.http.scrape import measuring
from meterline.limits import PARTITIONS_EMBEDDED
from meterline.ports import SILENT
from tests.bench.bench_gateway import CONNECTIONS, requests_of

WAYS: Final = ("without", "with", "without again")
TURNS: Final = 60
ROUNDS_OF_A_TURN: Final = 8  # of each connection; Python adapts to a way within the first


@dataclass(slots=True)
class Nowhere:
    """A log that has whatever is appended after one turn of the loop; what the publisher asks."""

    partitions: int = PARTITIONS_EMBEDDED
    routes: int = PARTITIONS_EMBEDDED

    async def append(self, partition: int, value: bytes, kind: object = None) -> None:  # noqa: ARG002 - the port's
        """It is gone."""
        await asyncio.sleep(0)


@dataclass(slots=True, eq=False)
class Wire(asyncio.Transport):
    """The server's end of a connection: counts its answers."""

    told: Callable[[bytes], None]
    extra: dict[str, Any] = field(default_factory=lambda: {"peername": ("127.0.0.1", 1)})

    def write(self, data: Any) -> None:
        """One answer, for none of them has a body."""
        self.told(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        """One answer, in parts."""
        self.told(b"".join(list_of_data))

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """An address, and no socket."""
        return self.extra.get(name, default)

    def is_closing(self) -> bool:
        """It lasts as long as the process."""
        return False

    def close(self) -> None:
        """The process ends."""


class Door:
    """A gateway and its connections."""

    def __init__(self, *, measured: bool) -> None:
        clock, log = SystemClock(), Nowhere()
        recorder = PrometheusRecorder("ingest") if measured else SILENT
        publisher = Publisher(log, clock, recorder=recorder)  # type: ignore[arg-type] # asks no more of it
        told: Any = measuring(recorder) if measured else None
        outermost = [told] if iscoroutinefunction(told) else []  # as builds had it before
        app = web.Application(middlewares=[*outermost, problem_middleware(clock)])
        gate = Gate(clock)
        rules = AdmissionRules(log.partitions)
        app.add_routes(routes(Gateway(publisher, rules, clock, gate, recorder=recorder), gate))
        options = {} if told is None or outermost else {"answered": told}
        self._runner = Runner(app, clock, **options, **SERVER_OPTIONS)
        self._connections: list[web.RequestHandler] = []
        self._waits = 0
        self._answered = asyncio.Event()

    async def open(self) -> None:
        """Open its connections."""
        await self._runner.setup()
        assert self._runner.server is not None
        for _ in range(CONNECTIONS[1]):
            connection = self._runner.server()
            connection.connection_made(Wire(self._told))
            self._connections.append(connection)
        await asyncio.sleep(0)

    def _told(self, answer: bytes) -> None:
        assert answer.startswith(b"HTTP/1.1 202"), answer
        self._waits -= 1
        if not self._waits:
            self._answered.set()

    async def answer(self, requests: Sequence[bytes]) -> None:
        """One request on each connection, all at once; return when the last is answered."""
        self._waits = len(self._connections)
        self._answered.clear()
        for connection, request in zip(self._connections, requests, strict=False):
            connection.data_received(request)
        await self._answered.wait()
        await asyncio.sleep(0)

    async def close(self) -> None:
        """End."""
        await self._runner.cleanup()


async def costs() -> dict[str, float]:
    """The lowest tenth of all turns, of each way: what else the machine does only adds."""
    requests = requests_of(1)
    doors = {way: Door(measured=way == "with") for way in WAYS}
    for door in doors.values():
        await door.open()
        await door.answer(requests)
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    number = CONNECTIONS[1]
    chance = random.Random(70)
    gc.collect()
    gc.disable()
    for turn in range(TURNS):
        for way in chance.sample(WAYS, len(WAYS)):
            began_ns = time.process_time_ns()
            for at in range(ROUNDS_OF_A_TURN):
                first = (turn * ROUNDS_OF_A_TURN + at) * number % (len(requests) - number)
                await doors[way].answer(requests[first : first + number])
            took_ns = time.process_time_ns() - began_ns
            found[way].append(took_ns / (ROUNDS_OF_A_TURN * number))
        gc.collect(0)
    return {way: quantiles(them, n=10)[0] for way, them in found.items()}


if __name__ == "__main__":
    sys.stdout.write(f"{json.dumps(uvloop.run(costs()))}\n")
