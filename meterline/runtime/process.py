"""A process: its loop, its signals, its log lines, its HTTP server."""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

import structlog
import uvloop
from aiohttp import web
from aiohttp.typedefs import Middleware

from meterline.http import SERVER_OPTIONS, problem_middleware, with_request_id
from meterline.http.connections import Runner
from meterline.ports import Clock, Unsuitable

# Rows live for a second or for minutes: collecting often only walks over them.
GC_THRESHOLDS: Final = (50_000, 20, 50)
LOCK_SWITCH_S: Final = 0.001
_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def configure_logs(level: str) -> None:
    """One line per event on stderr, for people and for machines alike (logfmt)."""
    number = _LEVELS[level]
    logging.basicConfig(level=max(number, logging.WARNING), stream=sys.stderr)
    structlog.configure(
        processors=[
            with_request_id,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def run(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run `main` until SIGINT or SIGTERM sets its event. A second one ends the process at once."""

    async def guarded() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, _stop, stop, loop, number)
        await main(stop)

    gc.set_threshold(*GC_THRESHOLDS)
    # Answers are rendered in a thread: the loop waits for the interpreter's lock no longer.
    sys.setswitchinterval(LOCK_SWITCH_S)
    uvloop.run(guarded())


def _stop(stop: asyncio.Event, loop: asyncio.AbstractEventLoop, number: int) -> None:
    stop.set()
    loop.remove_signal_handler(number)


async def serve(
    stack: AsyncExitStack,
    routes: list[web.RouteDef],
    address: tuple[str, int],
    clock: Clock,
    guards: Sequence[Middleware] = (),
    outermost: Sequence[Middleware] = (),
) -> int:
    """Serve routes behind guards, all of it within what is outermost; the port that was taken.
    Closed with the stack: requests under way are finished.
    """
    host, port = address
    middlewares = [*outermost, problem_middleware(clock), *guards]
    app = web.Application(middlewares=middlewares, client_max_size=2**40)
    app.add_routes(routes)
    runner = Runner(app, clock, **SERVER_OPTIONS)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    site = web.TCPSite(runner, host, port, backlog=1024)
    try:
        await site.start()
    except OSError as error:
        why = os.strerror(error.errno or 0)
        message = f"cannot listen on {host}:{port} ({why}): set host and port to a free address"
        raise Unsuitable(message) from error
    taken: int = runner.addresses[0][1]
    return taken
