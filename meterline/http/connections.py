"""Connections whose every answer is one of ours: also that to what is no HTTP at all.

aiohttp answers a request that it cannot parse by itself, as plain text and with a traceback in the
log: so anybody who can reach the port could fill the log.
"""

from collections.abc import Callable, Mapping
from typing import Any

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from meterline.http.answers import CutOff, new_request_id, problem_response
from meterline.ports import Clock
from meterline.problem import Problem, ProblemType

_log = structlog.get_logger("meterline.http")


# Is told of each answer when it is sent, and how many seconds that took.
Answered = Callable[[web.BaseRequest, web.StreamResponse, float], None]


class _Connection(web.RequestHandler):
    """A connection; `clock` and `answered` are its server's."""

    __slots__ = ("_answered", "_clock")

    def __init__(
        self, manager: web.Server, clock: Clock, answered: Answered | None, **options: Any
    ) -> None:
        super().__init__(manager, **options)
        self._clock = clock
        self._answered = answered
        self._logging_enabled = answered is not None  # then aiohttp notes when a request began

    def log_access(
        self, request: web.BaseRequest, response: web.StreamResponse, time: float | None
    ) -> None:
        """Instead of a line in a log. aiohttp's own loggers cost an object a connection, and more
        calls a request.
        """
        if self._answered is not None and time is not None:
            self._answered(request, response, self._loop.time() - time)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The problem that tells what of a request is no HTTP; anything else is aiohttp's, which
        calls `log_access` for no answer that was cut off.
        """
        if isinstance(exc, CutOff) and self._answered is not None:
            self._answered(request, web.Response(status=status), exc.took_s)
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        detail, path = _detail(exc, message or ""), request.path
        if isinstance(exc, LineTooLong):
            path = _start_of(exc)
        _log.debug("request", action="unreadable", reason=detail)
        problem = Problem(ProblemType.BAD_REQUEST, detail)
        response = problem_response(problem, new_request_id(self._clock), path)
        response.force_close()
        return response


def _detail(error: HttpProcessingError, message: str) -> str:
    if isinstance(error, LineTooLong):
        return (
            f"Its URL, or one of its headers, is longer than {error.args[1]} bytes: ask with less"
            " in the query, or with POST where the operation has one."
        )
    reason = message.strip().partition("\n")[0].rstrip(":")  # then come its own bytes
    return f"The request is not HTTP/1.1: {reason}."


def _start_of(error: LineTooLong) -> str:
    """How what is too long begins: with the path that tells the version, where it is the URL."""
    line: str | bytes | bytearray = error.args[0]
    return line if isinstance(line, str) else bytes(line).decode("utf-8", "replace")


class _Server(web.Server):
    """Makes connections."""

    def __init__(
        self,
        clock: Clock,
        answered: Answered | None,
        made: web.Server,
        options: Mapping[str, Any],
    ) -> None:
        super().__init__(made.request_handler, request_factory=made.request_factory, **options)
        self._clock = clock
        self._answered = answered

    def __call__(self) -> web.RequestHandler:
        return _Connection(self, self._clock, self._answered, loop=self._loop, **self._kwargs)


class Runner(web.AppRunner):
    """Serves an application; its options are `SERVER_OPTIONS`."""

    __slots__ = ("_answered", "_clock")

    def __init__(
        self,
        app: web.Application,
        clock: Clock,
        answered: Answered | None = None,
        **options: Any,
    ) -> None:
        super().__init__(app, **options)
        self._clock = clock
        self._answered = answered

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return _Server(self._clock, self._answered, made, self._kwargs)
