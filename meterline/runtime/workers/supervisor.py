"""The parent of several gateways on one port: it holds the port, and takes no request itself.

Each place of a worker has a socket of its own on that port, which the parent keeps open. So the
kernel spreads connections over the workers, and those that wait in a queue are not lost with the
worker: the next one at its place takes them. SIGHUP replaces workers one by one: a new one is ready
before an old one is told to go.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

import structlog

from meterline.limits import (
    METRIC_WAIT_S,
    WORKER_BACKOFF_MAX_S,
    WORKER_BACKOFF_MIN_S,
    WORKER_STOP_S,
)
from meterline.ports import Unsuitable
from meterline.runtime.settings.reading import Settings
from meterline.runtime.workers.channel import Channel, Kind
from meterline.runtime.workers.families import Families
from meterline.runtime.workers.worker import Given
from meterline.window import Backoff

logger = structlog.get_logger()
BACKLOG: Final = 1_024


class Child:
    """One worker, as its parent sees it."""

    def __init__(self, number: int, process: asyncio.subprocess.Process, channel: Channel) -> None:
        self.number = number
        self.process = process
        self.channel = channel
        self.ready = asyncio.Event()
        self.ended = asyncio.create_task(process.wait())
        self._measured: asyncio.Future[Families] | None = None

    async def becomes_ready(self, stop: asyncio.Event) -> bool:
        """Whether it takes requests; else it has ended, or nobody waits for it any more."""
        events = [asyncio.ensure_future(it.wait()) for it in (self.ready, stop)]
        waiting: list[asyncio.Future[Any]] = [*events, self.ended]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for event in events:
            event.cancel()
        return self.ready.is_set()

    async def measured(self) -> Families | None:
        """What it measures; None where it does not say so in time."""
        if self._measured is None or self._measured.done():
            self._measured = asyncio.get_running_loop().create_future()
            self.channel.send(Kind.MEASURE)
        try:
            async with asyncio.timeout(2 * METRIC_WAIT_S):
                return await asyncio.shield(self._measured)
        except TimeoutError:
            return None

    def answered(self, families: Families) -> None:
        """It said what it measures."""
        if self._measured is not None and not self._measured.done():
            self._measured.set_result(families)


class Supervisor:
    """Runs workers of `command` until it is stopped."""

    def __init__(self, settings: Settings, command: Sequence[str], stop: asyncio.Event) -> None:
        self._settings = settings
        self._command = command
        self._stop = stop
        self._restart = asyncio.Event()
        self._places: list[socket.socket] = []
        self._of_metrics: list[socket.socket] = []
        self._children: list[Child] = []  # that have not ended
        self._serving: dict[int, Child] = {}  # the newest of each number that is ready
        self._changing = [asyncio.Lock() for _ in range(settings.workers)]  # one place each
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failed: asyncio.Future[int] | None = None

    async def run(self) -> int:
        """The exit code: that of a worker that could not start, else 0. Raises `Unsuitable`."""
        loop = asyncio.get_running_loop()
        self._failed = loop.create_future()
        host, workers = self._settings.host, self._settings.workers
        self._places = _listening(host, self._settings.port, workers)
        if self._settings.metrics_port is not None:
            self._of_metrics = _listening(host, self._settings.metrics_port, 1)
        loop.add_signal_handler(signal.SIGHUP, self._restart.set)
        try:
            started = await asyncio.gather(*map(self._start, range(workers)))
            if all(child is not None for child in started):
                url = f"http://{host}:{self._places[0].getsockname()[1]}"
                logger.info("ready", role="ingest", url=url, workers=len(started))
                await self._watch()
            return self._failed.result() if self._failed.done() else 0
        finally:
            loop.remove_signal_handler(signal.SIGHUP)
            await self._end()

    async def _watch(self) -> None:
        """Until told to stop: replace workers where somebody asks for it."""
        stopping = asyncio.ensure_future(self._stop.wait())
        try:
            while not self._stop.is_set():
                asked = asyncio.ensure_future(self._restart.wait())
                both: list[asyncio.Future[Any]] = [asked, stopping]
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                asked.cancel()
                if self._restart.is_set() and not self._stop.is_set():
                    self._restart.clear()
                    await self._replace_all()
        finally:
            stopping.cancel()

    async def _replace_all(self) -> None:
        logger.info("workers_replaced", action="begins", workers=self._settings.workers)
        for number in range(self._settings.workers):
            if self._stop.is_set():
                return
            if not await self._replace(number):
                logger.error(
                    "workers_replaced",
                    action="failed",
                    worker=number,
                    hint="the others go on as before; see the line before this one, and send SIGHUP"
                    " again",
                )
                return
        logger.info("workers_replaced", action="done", workers=self._settings.workers)

    async def _replace(self, number: int) -> bool:
        """Whether there is a new worker; the one before is told to go."""
        async with self._changing[number]:
            old = self._serving.get(number)
            if await self._start(number) is None:
                return False
            if old is not None:
                old.channel.send(Kind.RETIRE)
            return True

    async def _start(self, number: int) -> Child | None:
        """A worker that takes requests; None where it ended before it did."""
        child = await self._spawn(number)
        if await child.becomes_ready(self._stop):
            self._serving[number] = child
            self._later(self._keep(child))
            return child
        assert self._failed is not None, "it runs"
        if number not in self._serving and child.ended.done() and not self._failed.done():
            code = child.ended.result()
            self._failed.set_result(code if code > 0 else 1)
        return None

    async def _keep(self, child: Child) -> None:
        """When it ends though nobody told it to, another one takes its place."""
        code = await child.ended
        if self._serving.get(child.number) is not child or self._stop.is_set():
            return  # it was replaced
        logger.error("worker_ended", worker=child.number, code=code)
        backoff = Backoff(WORKER_BACKOFF_MIN_S, WORKER_BACKOFF_MAX_S)
        while not self._stop.is_set():
            await asyncio.sleep(backoff.next_s())
            async with self._changing[child.number]:
                if self._serving.get(child.number) is not child:
                    return  # it was replaced meanwhile
                if await self._start(child.number) is not None:
                    return

    async def _spawn(self, number: int) -> Child:
        ours, theirs = socket.socketpair()
        files = [it.fileno() for it in (self._places[number], *self._of_metrics)]
        given = Given(number, theirs.fileno(), *files)
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                env={**os.environ, **given.variable()},
                pass_fds=[theirs.fileno(), *files],
            )
        child = Child(number, process, await Channel.open(ours))
        self._children.append(child)
        child.ended.add_done_callback(lambda _: self._children.remove(child))
        self._later(self._listen(child))
        return child

    async def _listen(self, child: Child) -> None:
        while (message := await child.channel.receive()) is not None:
            match message.kind:
                case Kind.READY:
                    child.ready.set()
                case Kind.MEASURED:
                    child.answered(message.body)
                case Kind.SCRAPE:
                    self._later(self._scrape(child, message.number))
                case _:
                    raise AssertionError(f"no message for a parent: {message.kind}")
        await child.channel.close()

    async def _scrape(self, asking: Child, number: int) -> None:
        """Tell a worker what all of them measure, itself among them."""
        serving = list(self._serving.values())
        answers = await asyncio.gather(*(it.measured() for it in serving))
        pairs = zip(serving, answers, strict=True)
        found: Mapping[int, Families] = {it.number: what for it, what in pairs if what is not None}
        asking.channel.send(Kind.MEASURED, number, found)

    def _later(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _end(self) -> None:
        """Every worker, also one that still retires, is told to stop; then it is waited for."""
        children = list(self._children)
        for child in children:
            child.channel.send(Kind.STOP)
        waiting = [child.ended for child in children]
        if waiting:
            await asyncio.wait(waiting, timeout=self._settings.drain_s + WORKER_STOP_S)
        for child in children:
            if not child.ended.done():
                child.process.kill()
                await child.ended
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for one in (*self._places, *self._of_metrics):
            one.close()


def _listening(host: str, port: int, sockets: int) -> list[socket.socket]:
    """So many sockets on one port, each with its own queue. The kernel spreads connections over
    them. Raises `Unsuitable`.
    """
    made: list[socket.socket] = []
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # Sockets that share a port would share it with those of another program, too.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
        for _ in range(sockets):
            one = socket.socket(family, socket.SOCK_STREAM)
            made.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            one.bind(address)
            address = one.getsockname()  # the port that was picked, if any would do
    except OSError as error:
        for one in made:
            one.close()
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        message = f"cannot listen on {host}:{port} ({why}): set host and port to a free address"
        raise Unsuitable(message) from error
    for one in made:
        one.listen(BACKLOG)
        one.settimeout(0)
    return made


def same_command() -> list[str]:
    """This program with its options, as a worker runs it."""
    # -P: not what lies in the working folder, which may be a checkout of another release.
    return [sys.executable, "-P", "-m", "meterline.runtime", *sys.argv[1:]]


def of_gateways(settings: Settings) -> Callable[[asyncio.Event], Coroutine[Any, Any, int]]:
    """What a process that is told of workers runs; it gives the exit code."""

    async def main(stop: asyncio.Event) -> int:
        return await Supervisor(settings, same_command(), stop).run()

    return main
