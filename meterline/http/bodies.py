"""The body of a request: read, inflated and bounded, by itself and together with all others."""

import asyncio
import zlib
from typing import Final

from aiohttp import web

from meterline.limits import (
    BODIES_BYTES_MAX,
    BODIES_BYTES_OF_ONE_MAX,
    BODY_READ_TIMEOUT_S,
    GZIP_MEMBERS_MAX,
)
from meterline.problem import Problem, ProblemType

_WINDOW_BITS: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_RAW_DEFLATE_BITS: Final = -15
_PIECE_BYTES: Final = 64 * 1024
_RETRY_S: Final = 1


class BodyRoom:
    """The memory that the bodies of all requests have together, in bytes.

    A caller may hold `of_one_max` of it; one without a name (mode `none`) all of it. What is not
    held is refused as unavailable: nothing of the request was used, so it can be sent again.
    """

    def __init__(
        self, bytes_max: int = BODIES_BYTES_MAX, of_one_max: int = BODIES_BYTES_OF_ONE_MAX
    ) -> None:
        self._bytes_max = bytes_max
        self._of_one_max = of_one_max
        self._held = 0
        self._of: dict[str, int] = {}

    @property
    def held(self) -> int:
        """Bytes that are held now."""
        return self._held

    def hold(self, caller: str, size: int) -> None:
        """Hold so many bytes more. Raises `Problem` (unavailable): they are not held."""
        of_caller = self._of.get(caller, 0) + size
        if self._held + size > self._bytes_max:
            raise _no_room("The server is receiving as many request bodies as it has memory for.")
        if caller and of_caller > self._of_one_max:
            raise _no_room("The server is receiving as many bodies of this API key as one key may.")
        self._held += size
        self._of[caller] = of_caller

    def release(self, caller: str, size: int) -> None:
        """Give back what a request held."""
        self._held -= size
        left = self._of[caller] - size
        if left:
            self._of[caller] = left
        else:
            del self._of[caller]


class Holding:
    """What one request holds of the room. `caller` is set when it is known."""

    __slots__ = ("_room", "_size", "caller")

    def __init__(self, room: BodyRoom) -> None:
        self._room = room
        self._size = 0
        self.caller = ""

    def more(self, size: int) -> None:
        """Hold so many bytes more. Raises `Problem` (unavailable)."""
        self._room.hold(self.caller, size)
        self._size += size

    def end(self) -> None:
        """The request is answered."""
        if self._size:
            self._room.release(self.caller, self._size)
            self._size = 0


HOLDING: Final = web.RequestKey("holding", Holding)


def _no_room(reason: str) -> Problem:
    detail = f"{reason} Send this request again after {_RETRY_S} s, with fewer at once."
    return Problem(ProblemType.UNAVAILABLE, detail, retry_after_s=_RETRY_S)


async def read_body(request: web.Request, bytes_max: int) -> bytes:
    """The whole body, inflated where it is sent as gzip or deflate.

    At most `bytes_max` bytes are taken, both as sent and inflated; they are held in the room of
    `HOLDING` until the request is answered. Raises `Problem`: body-too-large, bad-request for
    another or a broken encoding and for a body that does not end in time, unavailable where there
    is no room for it now.
    """
    encoding = request.headers.get("Content-Encoding")
    holding = request.get(HOLDING)
    body = await _read_sent(request, bytes_max, holding)
    if encoding is None:
        return body
    coding = encoding.strip().lower()
    if coding in ("", "identity"):
        return body
    if coding not in _WINDOW_BITS:
        detail = f"Content-Encoding {encoding[:100]!r} is not known; use gzip, deflate or none."
        raise Problem(ProblemType.BAD_REQUEST, detail)
    inflated = _inflated(body, coding, bytes_max)
    if holding is not None:
        holding.more(len(inflated))
    return inflated


async def _read_sent(request: web.Request, bytes_max: int, holding: Holding | None) -> bytes:
    content = request.content
    if request.content_length is not None and request.content_length > bytes_max:
        raise _too_large(bytes_max, "")
    if content.is_eof():  # it came with its headers: nothing to wait for
        body = content.read_nowait()
        if len(body) > bytes_max:
            raise _too_large(bytes_max, "")
        if holding is not None:
            holding.more(len(body))
        return body
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_READ_TIMEOUT_S):
            while part := await content.readany():
                size += len(part)
                if size > bytes_max:
                    raise _too_large(bytes_max, "")
                if holding is not None:
                    holding.more(len(part))
                parts.append(part)
    except TimeoutError as error:
        detail = f"The body did not end within {BODY_READ_TIMEOUT_S} s."
        raise Problem(ProblemType.BAD_REQUEST, detail) from error
    except web.RequestPayloadError as error:
        raise Problem(ProblemType.BAD_REQUEST, "The body is incomplete.") from error
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
