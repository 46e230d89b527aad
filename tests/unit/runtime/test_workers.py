"""What workers say to their parent, and their metrics as one exposition."""

import asyncio
import math
import socket

import pytest
from prometheus_client.parser import text_string_to_metric_families

from meterline.backends.telemetry.prometheus import PrometheusRecorder
from meterline.ports import metrics
from meterline.runtime.drain import Drain
from meterline.runtime.settings.reading import Settings
from meterline.runtime.workers.channel import Channel, Kind
from meterline.runtime.workers.families import exposition, plain
from meterline.runtime.workers.supervisor import Child, Supervisor


async def test_messages_arrive_in_order_and_the_end_is_told() -> None:
    one, other = socket.socketpair()
    parent, worker = await Channel.open(one), await Channel.open(other)
    parent.send(Kind.MEASURE, 7)
    parent.send(Kind.MEASURED, 8, {1: [["name", math.nan]]})
    first, second = await worker.receive(), await worker.receive()
    assert first is not None
    assert second is not None
    assert (first.kind, first.number, first.body) == (Kind.MEASURE, 7, None)
    assert (second.kind, second.number) == (Kind.MEASURED, 8)
    assert math.isnan(second.body[1][0][1])
    await parent.close()
    assert await worker.receive() is None
    worker.send(Kind.READY)  # to nobody
    await worker.close()


@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text; version=1.0.0"])
def test_each_series_says_whose_it_is_and_a_family_is_told_once(accept: str) -> None:
    measured = {}
    for number in (1, 0):
        recorder = PrometheusRecorder("ingest")
        recorder.count(metrics.HTTP_REQUESTS, 5 + number, "ingest-metering-events", "202")
        recorder.observe(metrics.HTTP_SECONDS, 0.01, "ingest-metering-events")
        recorder.set(metrics.PENDING_BYTES, 70 + number)
        measured[number] = plain(recorder.registry)
    text, media = exposition(measured, accept)
    assert media.startswith(accept.split(";", maxsplit=1)[0])
    lines = text.decode().splitlines()
    assert len([line for line in lines if line.startswith("# TYPE")]) == len(
        {line for line in lines if line.startswith("# TYPE")}
    )
    if accept == "text/plain":
        families = {it.name: it for it in text_string_to_metric_families(text.decode())}
        requests = families["meterline_http_requests"].samples
        assert {(it.labels["worker"], it.value) for it in requests if it.value} == {
            ("0", 5.0),
            ("1", 6.0),
        }
        pending = families[metrics.PENDING_BYTES.name].samples
        assert [(it.labels, it.value) for it in pending] == [
            ({"worker": "0"}, 70.0),
            ({"worker": "1"}, 71.0),
        ]


class Port:
    """Two connections are open, until they are closed."""

    def __init__(self) -> None:
        self.connections = 2
        self.refuses = asyncio.Event()

    async def refuse_new(self) -> None:
        self.refuses.set()


async def test_one_that_is_replaced_stays_ready_and_ends_with_its_last_connection() -> None:
    stop, retire, port = asyncio.Event(), asyncio.Event(), Port()
    drain = Drain(stop, 60, retire)
    drain.serving = port
    running = asyncio.create_task(drain.run())
    retire.set()
    async with asyncio.timeout(60):
        await port.refuses.wait()
        await drain.check()
        assert not drain.ended.is_set()
        port.connections = 0
        await running
    assert drain.ended.is_set()


class Sent:
    """A channel to a worker that is not there."""

    def __init__(self) -> None:
        self.kinds: list[Kind] = []

    def send(self, kind: Kind, _number: int = 0, _body: object = None) -> None:
        self.kinds.append(kind)


class Lives:
    """A process that ends when it is told to."""

    def __init__(self) -> None:
        self.end = asyncio.Event()

    async def wait(self) -> int:
        await self.end.wait()
        return 1


class OnePlace(Supervisor):
    """A parent whose workers are such processes: ready once `opened` is set."""

    def __init__(self) -> None:
        super().__init__(Settings(workers=1), [], asyncio.Event())
        self.opened = asyncio.Event()
        self.lives: list[tuple[Lives, Sent]] = []

    async def _spawn(self, number: int) -> Child:
        life, sent = Lives(), Sent()
        self.lives.append((life, sent))
        child = Child(number, life, sent)  # type: ignore[arg-type]
        await self.opened.wait()
        child.ready.set()
        return child

    async def run_both(self) -> None:
        """A worker dies; while another one starts in its place, all are to be replaced."""
        self.opened.set()
        await self._start(0)
        self.opened.clear()
        self.lives[0][0].end.set()
        while len(self.lives) < 2:  # noqa: ASYNC110 - it is begun after a pause
            await asyncio.sleep(0.01)
        replacing = asyncio.create_task(self._replace_all())
        await asyncio.sleep(0)
        self.opened.set()
        await replacing


async def test_a_place_has_one_worker_though_one_died_while_all_are_replaced() -> None:
    parent = OnePlace()
    await parent.run_both()
    alive = [sent.kinds for life, sent in parent.lives if not life.end.is_set()]
    assert alive == [[Kind.RETIRE], []], "the older one was told to go"
