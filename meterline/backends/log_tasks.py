"""Work for the one thread that writes to a log, and how its results come back to the loops."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Task:
    """Work for the writer: `run` is called in a transaction, its result told once durable."""

    run: Callable[[sqlite3.Connection], object]
    size: int
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[object]


def tell(tasks: Sequence[Task], results: Sequence[object]) -> None:
    """Give every task its result, with one call into each loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[object], object]]] = {}
    for task, result in zip(tasks, results, strict=True):
        by_loop.setdefault(task.loop, []).append((task.done, result))
    for loop, pairs in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, pairs)


def _resolve(pairs: Sequence[tuple[asyncio.Future[object], object]]) -> None:
    for done, result in pairs:
        if done.cancelled():
            continue
        if isinstance(result, Exception):
            done.set_exception(result)
        else:
            done.set_result(result)
