"""What a worker knows of its parent: the sockets it was given, and the channel."""

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from itertools import count
from typing import NamedTuple

from meterline.limits import METRIC_WAIT_S
from meterline.runtime.settings.reading import WORKER_VARIABLE
from meterline.runtime.workers.channel import Channel, Kind
from meterline.runtime.workers.families import Families


class Given(NamedTuple):
    """What the parent gives to a worker: its number, and numbers of open files."""

    number: int
    channel: int
    api: int
    metrics: int | None = None

    def variable(self) -> dict[str, str]:
        """For the worker's environment."""
        return {WORKER_VARIABLE: json.dumps(self)}


class Worker:
    """This process, as one of several."""

    def __init__(self, given: Given, channel: Channel) -> None:
        self.number = given.number
        self.retire = asyncio.Event()
        self.api = socket.socket(fileno=given.api)
        self.metrics = None if given.metrics is None else socket.socket(fileno=given.metrics)
        self._channel = channel
        self._numbers = count(1)
        self._asked: dict[int, asyncio.Future[Mapping[int, Families]]] = {}

    def ready(self) -> None:
        """Tell the parent that requests are taken."""
        self._channel.send(Kind.READY)

    async def all_measured(self, own: Families) -> Mapping[int, Families]:
        """What every worker measures. Where the parent does not answer, what this one does."""
        number = next(self._numbers)
        answer: asyncio.Future[Mapping[int, Families]] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            self._channel.send(Kind.SCRAPE, number)
            async with asyncio.timeout(3 * METRIC_WAIT_S):
                return await answer
        except TimeoutError:
            return {self.number: own}
        finally:
            del self._asked[number]

    async def listen(
        self, stop: asyncio.Event, measured: Callable[[], Awaitable[Families]]
    ) -> None:
        """Do what the parent says; a parent that is gone says stop."""
        answering: set[asyncio.Task[None]] = set()
        while (message := await self._channel.receive()) is not None:
            match message.kind:
                case Kind.STOP:
                    stop.set()
                case Kind.RETIRE:
                    self.retire.set()
                case Kind.MEASURE:
                    task = asyncio.create_task(self._measure(message.number, measured))
                    answering.add(task)
                    task.add_done_callback(answering.discard)
                case Kind.MEASURED:
                    waiting = self._asked.get(message.number)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(message.body)
                case _:
                    raise AssertionError(f"no message for a worker: {message.kind}")
        stop.set()

    async def _measure(self, number: int, measured: Callable[[], Awaitable[Families]]) -> None:
        self._channel.send(Kind.MEASURED, number, await measured())


async def from_environment(stack: AsyncExitStack) -> Worker | None:
    """This worker; None in a process that is the only one of its role."""
    text = os.environ.get(WORKER_VARIABLE)
    if text is None:
        return None
    given = Given(*json.loads(text))
    channel = await Channel.open(socket.socket(fileno=given.channel))
    stack.push_async_callback(channel.close)
    return Worker(given, channel)


def is_worker() -> bool:
    """Whether this process was started by a parent that holds its port."""
    return WORKER_VARIABLE in os.environ
