"""A process: its loop, its signals, its log lines, its HTTP server."""

import asyncio
import faulthandler
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import Any, Final, TypeVar

import structlog
import uvloop
from aiohttp import web
from aiohttp.typedefs import Middleware

from meterline.backends.clock import SystemClock
from meterline.backends.telemetry.log_lines import Repeats, Sparing, sparing
from meterline.http import SERVER_OPTIONS, problem_middleware, with_request_id
from meterline.http.connections import Answered, Runner
from meterline.http.tracing import with_trace_id
from meterline.ports import Clock, Unsuitable
from meterline.runtime.workers.worker import is_worker

T = TypeVar("T")
logger = structlog.get_logger()
# Rows live for a second or for minutes: collecting often only walks over them.
GC_THRESHOLDS: Final = (50_000, 20, 50)
LOCK_SWITCH_S: Final = 0.001
BACKLOG: Final = 1_024  # connections that wait to be taken
STDERR: Final = 2  # as a number: whoever holds the lock of the file may be what crashed
_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


@contextmanager
def lasting() -> Iterator[None]:
    """What is made within lives as long as the process, as modules do: the collector never walks
    over it.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def configure_logs(level: str) -> None:
    """One line per event on stderr, for people and for machines alike (logfmt). A fault that
    repeats writes some lines a minute.
    """
    number, clock = _LEVELS[level], SystemClock()
    repeats = Repeats(lambda: clock.now_ms() / 1_000)
    logging.basicConfig(level=max(number, logging.WARNING), stream=sys.stderr)
    for handler in logging.getLogger().handlers:
        handler.addFilter(Sparing(repeats))
    structlog.configure(
        processors=[
            with_request_id,
            with_trace_id,
            structlog.processors.add_log_level,
            sparing(repeats),
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def tell_crashes() -> None:
    """A crash in native code writes the stacks of all threads to stderr before it ends the process.
    Call it again after a library was loaded that takes the signals of a crash.
    """
    faulthandler.disable()
    faulthandler.enable(STDERR)


def run(main: Callable[[asyncio.Event], Coroutine[Any, Any, T]], *, logged: bool = False) -> T:
    """Run `main` until SIGINT, SIGTERM or SIGHUP sets its event; its result. A second one ends the
    process at once. A worker leaves SIGHUP to its parent, which replaces it. `logged`: lines of the
    log say that it stops, and that it has; where it ends by itself, none.
    """

    async def guarded() -> tuple[T, bool]:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        numbers = [signal.SIGINT, signal.SIGTERM]
        if is_worker():
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        elif signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as `nohup` sets it
            numbers.append(signal.SIGHUP)  # a terminal that is closed: drain, as for the others
        for number in numbers:
            loop.add_signal_handler(number, _stop, stop, loop, number, logged)
        return await main(stop), stop.is_set()

    gc.set_threshold(*GC_THRESHOLDS)
    # Answers are rendered in a thread: the loop waits for the interpreter's lock no longer.
    sys.setswitchinterval(LOCK_SWITCH_S)
    result, was_stopped = uvloop.run(guarded())
    if logged and was_stopped:
        logger.info("stopped")
    return result


def _stop(stop: asyncio.Event, loop: asyncio.AbstractEventLoop, number: int, logged: bool) -> None:  # noqa: FBT001 - of a handler
    if logged:
        logger.info("stopping", signal=signal.Signals(number).name)
    stop.set()
    loop.remove_signal_handler(number)


class Served:
    """A port that is served."""

    def __init__(self, runner: Runner, site: web.BaseSite) -> None:
        self._runner = runner
        self._site = site

    @property
    def port(self) -> int:
        """The one that was taken."""
        taken: int = self._runner.addresses[0][1]
        return taken

    async def refuse_new(self) -> None:
        """See `drain.Serving`."""
        await self._site.stop()

    @property
    def connections(self) -> int:
        """See `drain.Serving`."""
        server = self._runner.server
        return 0 if server is None else len(server.connections)


async def serve(
    stack: AsyncExitStack,
    routes: list[web.RouteDef],
    address: tuple[str, int] | socket.socket,
    clock: Clock,
    guards: Sequence[Middleware] = (),
    outermost: Sequence[Middleware] = (),
    answered: Answered | None = None,
) -> Served:
    """Serve routes behind guards, all of it within what is outermost, at an address or on a socket
    that listens already. Closed with the stack: requests under way are finished.
    """
    middlewares = [*outermost, problem_middleware(clock), *guards]
    app = web.Application(middlewares=middlewares, client_max_size=2**40)
    app.add_routes(routes)
    runner = Runner(app, clock, answered, **SERVER_OPTIONS)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    site: web.BaseSite
    if isinstance(address, socket.socket):
        host, port = address.getsockname()[:2]
        site = web.SockSite(runner, address, backlog=BACKLOG)
    else:
        host, port = address
        site = web.TCPSite(runner, host, port, backlog=BACKLOG)
    try:
        await site.start()
    except OSError as error:
        why = os.strerror(error.errno or 0)
        message = f"cannot listen on {host}:{port} ({why}): set host and port to a free address"
        raise Unsuitable(message) from error
    return Served(runner, site)
