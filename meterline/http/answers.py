"""Answers of the HTTP edge, shared by ingest and control: problems, request ids, JSON.

Every answer carries `X-Request-Id`; every error is `application/problem+json` (contract section 7)
whose `instance` is `urn:request:<that id>`. An application uses `problem_middleware` and is served
with `SERVER_OPTIONS`.
"""

import random
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextvars import ContextVar
from functools import lru_cache
from http import HTTPStatus
from time import perf_counter
from typing import Any, Final

import msgspec
import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from meterline.http.bodies import HOLDING, BodyRoom, Holding
from meterline.limits import PROBLEM_ERRORS_MAX, REQUEST_LINE_BYTES_MAX
from meterline.ports import Clock, StoreLost, Unavailable
from meterline.problem import MEDIA_TYPE, Problem, ProblemType

REQUEST_ID_HEADER: Final = "X-Request-Id"
REQUEST_ID: Final = web.RequestKey("request_id", str)
LIMIT_HEADERS: Final = web.RequestKey("limit_headers", dict[str, str])  # what the gate has to say
LEGACY_PREFIXES: Final = ("/api/v1/", "/api/v2/")  # their problems have `extensions` too
UNAVAILABLE_RETRY_S: Final = 1
LOST_RETRY_S: Final = 60  # an operator has to act first
LOST_DETAIL: Final = (
    "The usage store has lost data that was counted before. Usage is not shown, because it would be"
    " too low. Events are still accepted and counted later. The operator finds the cause in the log"
    " and at /readyz."
)
_CLIENT_GONE: Final = 499  # never sent: raising on would write a traceback for each into the log
# Whose versions answer is nobody's business, and no browser may take an answer for another type.
_ALWAYS: Final = {"Server": "Meterline", "X-Content-Type-Options": "nosniff"}
CHALLENGE: Final = 'Bearer realm="meterline"'  # RFC 9110 11.6.1

# For AppRunner and TestServer. Bodies are inflated by `read_body`, with its bound; aiohttp's way
# answers some bad encodings outside of the application, and not with a problem. A refused body is
# read and ignored for a moment, so that its sender sees the answer. No log line for each request.
SERVER_OPTIONS: Final[Mapping[str, Any]] = {
    "auto_decompress": False,
    "lingering_time": 2.0,
    "keepalive_timeout": 75.0,
    "max_line_size": REQUEST_LINE_BYTES_MAX,
    "access_log": None,
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_TWO_DIGITS: Final = tuple(high + low for high in _CROCKFORD for low in _CROCKFORD)
_TIME_SHIFTS: Final = tuple(range(40, -1, -10))
_CHANCE_SHIFTS: Final = tuple(range(70, -1, -10))
_log: Final = structlog.get_logger("meterline.http")
_current: Final[ContextVar[str]] = ContextVar("request_id", default="")
_BY_STATUS: Final = {
    kind.status: kind for kind in ProblemType if kind.status != HTTPStatus.BAD_REQUEST
}


def new_request_id(clock: Clock) -> str:
    """A fresh ULID (the library's own way is five times as slow, and every request has one)."""
    number = random.getrandbits(80)
    chance = [_TWO_DIGITS[number >> bits & 1023] for bits in _CHANCE_SHIFTS]
    return _digits_of(clock.now_ms()) + "".join(chance)


@lru_cache(maxsize=1)
def _digits_of(now_ms: int) -> str:
    """Several requests come in a millisecond."""
    return "".join([_TWO_DIGITS[now_ms >> bits & 1023] for bits in _TIME_SHIFTS])


def with_request_id(
    _logger: object, _method: str, line: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """A processor of structlog: every line that is written for a request names it."""
    if request_id := _current.get():
        line.setdefault("request", request_id)
    return line


class CutOff(ConnectionResetError):
    """A request that failed in the middle of its answer, after so many seconds."""

    def __init__(self, took_s: float) -> None:
        super().__init__("failed in the middle of an answer")
        self.took_s = took_s


def answer_headers(request: web.Request) -> dict[str, str]:
    """What every answer carries. The middleware sets it; a stream must do so by itself, for its
    headers are gone before the middleware sees it again.
    """
    return {**_ALWAYS, REQUEST_ID_HEADER: request[REQUEST_ID], **request.get(LIMIT_HEADERS, {})}


def problem_middleware(clock: Clock) -> Middleware:
    """The outermost middleware: gives each request its id, turns what is raised into a problem.

    A handler finds the id as `request[REQUEST_ID]`. What it raises after it began to stream cannot
    be told any more: that is logged, and the connection closed.
    """
    room = BodyRoom()

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        began_s, request_id = perf_counter(), new_request_id(clock)
        request[REQUEST_ID] = request_id
        request[HOLDING] = holding = Holding(room)
        _current.set(request_id)
        extra: Mapping[str, str] = {}
        try:
            response = await handler(request)
            if not response.prepared:
                response.headers.update(answer_headers(request))
            return response
        except Problem as error:
            problem = error
            _log_unavailable(error)
        except web.HTTPException as error:
            if error.status < HTTPStatus.BAD_REQUEST:
                error.headers.update(answer_headers(request))
                raise
            problem = _from_http(error, request)
            extra = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
        except Unavailable as error:
            _log.warning("request", action="unavailable", reason=str(error))
            problem = _from_unavailable(error)
        except Exception as error:  # noqa: BLE001 - the caller gets a problem, the log the rest
            if isinstance(error, ConnectionError) and _is_gone(request):
                return web.Response(status=_CLIENT_GONE)
            _log.exception("request", action="failed", where=_where(request))
            problem = Problem(ProblemType.INTERNAL, "The request failed; the log has its instance.")
        finally:
            holding.end()
        # Its traceback holds this frame, and the frame it: a refused body would stay in memory
        # until the collector comes by.
        problem.__traceback__ = None
        if request.writer.output_size:
            raise CutOff(perf_counter() - began_s)
        headers = {**extra, **request.get(LIMIT_HEADERS, {}), **problem.headers}
        return problem_response(problem, request_id, request.path, headers)

    return answer


def _from_unavailable(error: Unavailable) -> Problem:
    if isinstance(error, StoreLost):
        return Problem(ProblemType.UNAVAILABLE, LOST_DETAIL, retry_after_s=LOST_RETRY_S)
    return Problem(
        ProblemType.UNAVAILABLE,
        "A store that this request needs did not respond in time. Retry after the seconds in"
        " Retry-After.",
        retry_after_s=UNAVAILABLE_RETRY_S,
    )


def _log_unavailable(problem: Problem) -> None:
    """A line of the log for an answer 503, with what raised it where the answer does not say so."""
    if problem.type is ProblemType.UNAVAILABLE:
        reason = str(problem.__cause__ or problem.detail)
        _log.warning("request", action="unavailable", reason=reason)


def _where(request: web.Request) -> str:
    """The operation, as the documents write it: the path itself may name a subject."""
    resource = request.match_info.route.resource
    return request.method if resource is None else f"{request.method} {resource.canonical}"


def _is_gone(request: web.Request) -> bool:
    """Whether there is nobody left to tell."""
    return request.transport is None or request.transport.is_closing()


def problem_response(
    problem: Problem, request_id: str, path: str, headers: Mapping[str, str] | None = None
) -> web.Response:
    """The answer that tells a problem, as the API version does that `path` belongs to."""
    document = problem.members(f"urn:request:{request_id}")
    if path.startswith(LEGACY_PREFIXES):
        document["extensions"] = {"validationErrors": _validation_errors(problem)}
    named = {**_ALWAYS, REQUEST_ID_HEADER: request_id, **(headers or {})}
    if problem.type is ProblemType.UNAUTHENTICATED:
        named["WWW-Authenticate"] = CHALLENGE
    if problem.retry_after_s is not None:
        named["Retry-After"] = str(problem.retry_after_s)
    return web.Response(
        body=msgspec.json.encode(document),
        status=problem.type.status,
        content_type=MEDIA_TYPE,
        headers=named,
    )


def json_response(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """An answer in JSON. Decimals come out as JSON numbers with all their digits."""
    return web.Response(
        body=_encoder.encode(value), status=status, content_type="application/json", headers=headers
    )


_encoder: Final = msgspec.json.Encoder(decimal_format="number")


def _validation_errors(problem: Problem) -> list[dict[str, str]]:
    return [
        {
            "field": fault.field if fault.index is None else f"[{fault.index}].{fault.field}",
            "code": fault.rule or problem.type.slug,
            "message": fault.reason,
        }
        for fault in problem.faults[:PROBLEM_ERRORS_MAX]
    ]


def _from_http(error: web.HTTPException, request: web.Request) -> Problem:
    kind = _BY_STATUS.get(error.status)
    if kind is ProblemType.NOT_FOUND:
        return Problem(kind, f"There is nothing at {request.path}.")
    if kind is ProblemType.METHOD_NOT_ALLOWED:
        allowed = error.headers.get("Allow", "")
        return Problem(kind, f"{request.method} is not allowed here; allowed: {allowed}.")
    if kind is ProblemType.BODY_TOO_LARGE:
        return Problem(kind, error.text or "The body is too large.")
    if kind is None:
        ours = error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        kind = ProblemType.INTERNAL if ours else ProblemType.BAD_REQUEST
    return Problem(kind, error.reason)
