"""The body of a request: read, inflated and bounded."""

import asyncio
import zlib
from typing import Final

from aiohttp import web

from meterline.limits import BODY_READ_TIMEOUT_S, GZIP_MEMBERS_MAX
from meterline.problem import Problem, ProblemType

_WINDOW_BITS: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_RAW_DEFLATE_BITS: Final = -15
_PIECE_BYTES: Final = 64 * 1024


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
    left, at, members = bytes_max, 0, 0
    while at < len(body):
        members += 1
        if members > GZIP_MEMBERS_MAX:
            detail = f"The gzip body has more than {GZIP_MEMBERS_MAX} members; send it as one."
            raise Problem(ProblemType.BAD_REQUEST, detail)
        inflater = zlib.decompressobj(bits)
        while not inflater.eof and at < len(body):
            part, at = _piece(inflater, body, at, left + 1, coding)
            if len(part) > left:
                raise _too_large(bytes_max, " when inflated")
            parts.append(part)
            left -= len(part)
        if not inflater.eof:
            raise Problem(ProblemType.BAD_REQUEST, f"The {coding} body is cut short.")
        if at < len(body) and coding == "deflate":
            raise Problem(ProblemType.BAD_REQUEST, "Something follows the deflate body.")
    return b"".join(parts)


def _piece(
    inflater: "zlib._Decompress", body: bytes, at: int, bytes_max: int, coding: str
) -> tuple[bytes, int]:
    """At most `bytes_max` bytes inflated from `at` on, and where it goes on.

    A member's end copies what follows it in the piece: in the whole body, that would be again and
    again all the rest.
    """
    piece = body[at : at + _PIECE_BYTES]
    try:
        part = inflater.decompress(piece, bytes_max)
    except zlib.error as error:
        detail = f"The body is not {coding} as its Content-Encoding says."
        raise Problem(ProblemType.BAD_REQUEST, detail) from error
    return part, at + len(piece) - len(inflater.unused_data)


def _too_large(bytes_max: int, when: str) -> Problem:
    detail = f"The body has more than {bytes_max} bytes{when}; send less in one request."
    return Problem(ProblemType.BODY_TOO_LARGE, detail)
