"""Work for the one thread that writes to a log, and how its results come back to the loops."""

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from meterline.limits import APPEND_QUEUE_BYTES_MAX, COMMIT_BYTES_MAX
from meterline.ports import Unavailable


@dataclass(slots=True, eq=False)
class Task:
    """Work for the writer: `run` is called in a transaction, its result told once durable."""

    run: Callable[[sqlite3.Connection], object]
    size: int
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[object]


class TaskQueue:
    """What waits for the writer, of bounded size. Every thread may put something in."""

    def __init__(self) -> None:
        self._waiting: deque[Task] = deque()
        self._bytes = 0
        self._closed = ""  # why nothing is taken in any more
        self._changed = threading.Condition()

    def put(self, task: Task) -> None:
        """Raises `Unavailable`."""
        with self._changed:
            if self._closed:
                raise Unavailable(self._closed)
            if task.size and self._bytes + task.size > APPEND_QUEUE_BYTES_MAX:
                raise Unavailable("the log is too slow: too many events are waiting to be written")
            self._waiting.append(task)
            self._bytes += task.size
            self._changed.notify()

    def take(self) -> list[Task]:
        """Wait for tasks; none only once it is closed and all are done."""
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            tasks: list[Task] = []
            size = 0
            while self._waiting and size < COMMIT_BYTES_MAX:
                task = self._waiting.popleft()
                size += task.size
                tasks.append(task)
            self._bytes -= size
            return tasks

    def close(self, why: str) -> None:
        """Take nothing in any more; what is in it is done yet."""
        with self._changed:
            self._closed = self._closed or why
            self._changed.notify()

    def end(self, why: str) -> None:
        """Nobody does any more what is put in: whoever waits is told, and whoever comes."""
        self.close(why)
        while tasks := self.take():
            tell(tasks, [Unavailable(why)] * len(tasks))


def tell(tasks: Sequence[Task], results: Sequence[object]) -> None:
    """Give every task its result, with one call into each loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[object], object]]] = {}
    for task, result in zip(tasks, results, strict=True):
        by_loop.setdefault(task.loop, []).append((task.done, result))
    for loop, pairs in by_loop.items():
        with suppress(RuntimeError):  # it is closed: nobody waits any more
            loop.call_soon_threadsafe(_resolve, pairs)


def _resolve(pairs: Sequence[tuple[asyncio.Future[object], object]]) -> None:
    for done, result in pairs:
        if done.cancelled():
            continue
        if isinstance(result, Exception):
            done.set_exception(result)
        else:
            done.set_result(result)
