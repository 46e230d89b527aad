"""The words of the HTTP edge, shared by ingest and control: problems, request ids, bounded bodies.

Every answer carries `X-Request-Id`; every error is `application/problem+json` (contract section 7)
whose `instance` is `urn:request:<that id>`. An application uses `problem_middleware` and is served
with `SERVER_OPTIONS`.
"""

import asyncio
import random
import zlib
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
import structlog
from aiohttp import ClientConnectionResetError, web
from aiohttp.typedefs import Middleware

from meterline.limits import BODY_READ_TIMEOUT_S, PROBLEM_ERRORS_MAX
from meterline.ports import Clock, Unavailable
from meterline.problem import MEDIA_TYPE, Problem, ProblemType

REQUEST_ID_HEADER: Final = "X-Request-Id"
REQUEST_ID: Final = web.RequestKey("request_id", str)
LEGACY_PREFIXES: Final = ("/api/v1/", "/api/v2/")  # their problems have `extensions` too
UNAVAILABLE_RETRY_S: Final = 1

# For AppRunner and TestServer. Bodies are inflated by `read_body`, with its bound; aiohttp's way
# answers some bad encodings outside of the application, and not with a problem. A refused body is
# read and ignored for a moment, so that its sender sees the answer. No log line for each request.
SERVER_OPTIONS: Final[Mapping[str, Any]] = {
    "auto_decompress": False,
    "lingering_time": 2.0,
    "keepalive_timeout": 75.0,
    "access_log": None,
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_TWO_DIGITS: Final = tuple(high + low for high in _CROCKFORD for low in _CROCKFORD)
_SHIFTS: Final = tuple(range(120, -1, -10))
_log: Final = structlog.get_logger("meterline.http")
_BY_STATUS: Final = {
    kind.status: kind for kind in ProblemType if kind.status != HTTPStatus.BAD_REQUEST
}
_WINDOW_BITS: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_RAW_DEFLATE_BITS: Final = -15


def new_request_id(clock: Clock) -> str:
    """A fresh ULID (the library's own way is five times as slow, and every request has one)."""
    number = clock.now_ms() << 80 | random.getrandbits(80)
    return "".join([_TWO_DIGITS[number >> bits & 1023] for bits in _SHIFTS])


def problem_middleware(clock: Clock) -> Middleware:
    """The outermost middleware: gives each request its id, turns what is raised into a problem.

    A handler finds the id as `request[REQUEST_ID]`. What it raises after it began to stream cannot
    be told any more: that is logged, and the connection closed.
    """

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        request_id = new_request_id(clock)
        request[REQUEST_ID] = request_id
        extra: Mapping[str, str] = {}
        try:
            response = await handler(request)
            if not response.prepared:
                response.headers[REQUEST_ID_HEADER] = request_id
            return response
        except Problem as error:
            problem = error
        except web.HTTPException as error:
            if error.status < HTTPStatus.BAD_REQUEST:
                error.headers[REQUEST_ID_HEADER] = request_id
                raise
            problem = _from_http(error, request)
            extra = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
        except Unavailable as error:
            _log.warning("request", action="unavailable", request=request_id, reason=str(error))
            problem = Problem(
                ProblemType.UNAVAILABLE,
                "Something that is needed to answer does not answer now; try again.",
                retry_after_s=UNAVAILABLE_RETRY_S,
            )
        except (ClientConnectionResetError, ConnectionResetError):
            raise  # the client is gone, there is nobody to tell
        except Exception:  # noqa: BLE001 - the caller gets a problem, the log the rest
            where = f"{request.method} {request.path}"
            _log.exception("request", action="failed", request=request_id, where=where)
            problem = Problem(ProblemType.INTERNAL, "The request failed; the log has its instance.")
        if request.writer.output_size:
            raise ConnectionResetError("failed in the middle of an answer")
        return problem_response(problem, request_id, request.path, extra)

    return answer


def problem_response(
    problem: Problem, request_id: str, path: str, headers: Mapping[str, str] | None = None
) -> web.Response:
    """The answer that tells a problem, as the API version does that `path` belongs to."""
    document = problem.members(f"urn:request:{request_id}")
    if path.startswith(LEGACY_PREFIXES):
        document["extensions"] = {"validationErrors": _validation_errors(problem)}
    named = {REQUEST_ID_HEADER: request_id, **(headers or {})}
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


async def read_body(request: web.Request, bytes_max: int) -> bytes:
    """The whole body, inflated where it is sent as gzip or deflate.

    At most `bytes_max` bytes are taken, both as sent and inflated. Raises `Problem`:
    body-too-large, or bad-request for another or a broken encoding and for a body that does not end
    in time.
    """
    encoding = request.headers.get("Content-Encoding")
    body = await _read_sent(request, bytes_max)
    if encoding is None:
        return body
    coding = encoding.strip().lower()
    if coding in ("", "identity"):
        return body
    if coding not in _WINDOW_BITS:
        detail = f"Content-Encoding {encoding[:100]!r} is not known; use gzip, deflate or none."
        raise Problem(ProblemType.BAD_REQUEST, detail)
    return _inflated(body, coding, bytes_max)


async def _read_sent(request: web.Request, bytes_max: int) -> bytes:
    content = request.content
    if request.content_length is not None and request.content_length > bytes_max:
        raise _too_large(bytes_max, "")
    if content.is_eof():  # it came with its headers: nothing to wait for
        body = content.read_nowait()
        if len(body) > bytes_max:
            raise _too_large(bytes_max, "")
        return body
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_READ_TIMEOUT_S):
            while part := await content.readany():
                size += len(part)
                if size > bytes_max:
                    raise _too_large(bytes_max, "")
                parts.append(part)
    except TimeoutError as error:
        detail = f"The body did not end within {BODY_READ_TIMEOUT_S} s."
        raise Problem(ProblemType.BAD_REQUEST, detail) from error
    except web.RequestPayloadError as error:
        raise Problem(ProblemType.BAD_REQUEST, "The body is not whole.") from error
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _inflated(body: bytes, coding: str, bytes_max: int) -> bytes:
    """Inflate gzip of one or more members, or zlib, or bare deflate, which some clients send."""
    bits = _WINDOW_BITS[coding]
    if coding == "deflate" and body and body[0] & 0x0F != zlib.DEFLATED:
        bits = _RAW_DEFLATE_BITS
    parts: list[bytes] = []
    left = bytes_max
    while body:
        inflater = zlib.decompressobj(bits)
        try:
            part = inflater.decompress(body, left + 1)
        except zlib.error as error:
            detail = f"The body is not {coding} as its Content-Encoding says."
            raise Problem(ProblemType.BAD_REQUEST, detail) from error
        if len(part) > left:
            raise _too_large(bytes_max, " when inflated")
        if not inflater.eof:
            raise Problem(ProblemType.BAD_REQUEST, f"The {coding} body is cut short.")
        parts.append(part)
        left -= len(part)
        body = inflater.unused_data
        if body and coding == "deflate":
            raise Problem(ProblemType.BAD_REQUEST, "Something follows the deflate body.")
    return b"".join(parts)


def _too_large(bytes_max: int, when: str) -> Problem:
    detail = f"The body has more than {bytes_max} bytes{when}; send less in one request."
    return Problem(ProblemType.BODY_TOO_LARGE, detail)
