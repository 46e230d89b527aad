"""Answers about usage on their way out: rendered a part at a time beside the loop, so that nobody
waits for another's million rows, and sent as fast as the reader takes them.

A small answer is one piece. A large one is a stream, and needs a place (`control.usage.places`)
while it is sent. What fails before the first byte is a problem like any other; what fails later is
logged, and the connection is closed in the middle of the body, so that the reader sees that it was
cut.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final

import structlog
from aiohttp import hdrs, web

from control.usage.admission import leave_place
from control.usage.entity_tag import READING, entity_tag, is_known
from control.usage.places import Places, caller_of
from control.usage.query import COMPLETE_UNTIL_HEADER
from meterline.http import answer_headers
from meterline.http.operation import Call
from meterline.limits import ANSWER_ROWS_AT_ONCE, ANSWER_S_MAX, ANSWER_STALL_S
from meterline.usage import UsageRow

Blocks = AsyncGenerator[list[UsageRow], None]
# A reader may keep what is sealed, and asks whether it still holds before using it again.
_VARY: Final[dict[str, str]] = {hdrs.VARY: hdrs.ACCEPT}
_SEALED: Final[dict[str, str]] = {**_VARY, hdrs.CACHE_CONTROL: "private, no-cache"}
_MOVING: Final[dict[str, str]] = {**_VARY, hdrs.CACHE_CONTROL: "no-store"}
_log: Final = structlog.get_logger("meterline.control")


@dataclass(frozen=True, slots=True)
class Form:
    """How rows are written: what stands before, between the parts, and after them. `render` is
    called in a thread.

    It is `sealed` where all that was received by the end of the query is in it: then the bytes
    follow from the rows alone, and only late events change them.
    """

    media: str
    head: bytes
    render: Callable[[Sequence[UsageRow]], bytes]
    between: bytes = b""
    tail: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    sealed: bool = False


class Answers:
    """Sends answers of all operations that share it."""

    def __init__(self) -> None:
        self.places = Places()
        # One thread: while several render, the loop would wait for the interpreter's lock behind
        # all of them. Each answer has at most one part in its queue, so they take turns.
        self._renderer = ThreadPoolExecutor(1, "answers")

    async def send(
        self, call: Call[Any, Any], form: Form, ask: Callable[[], Blocks]
    ) -> web.StreamResponse:
        """Answer with the rows that `ask` gives.

        Where a large answer has to wait for its place, what was read is let go, and `ask` is called
        again.
        """
        request, caller = call.request, caller_of(call.principal)
        async with aclosing(self.pieces(form, ask())) as pieces:
            first = await anext(pieces)
            second = await anext(pieces, None)
            if second is None:
                return _whole(request, form, first)
            form = _moving(request, form)
            if is_known(request, None):
                return _not_modified(form)
            if request.method == hdrs.METH_HEAD:
                return await self._begun(request, form)
            leave_place(request)
            if self.places.enter_now(caller):
                try:
                    return await self._stream(request, form, pieces, first, second)
                finally:
                    self.places.leave(caller)
        await self.places.enter(caller)
        try:
            async with aclosing(self.pieces(form, ask())) as pieces:
                return await self._stream(request, form, pieces, await anext(pieces))
        finally:
            self.places.leave(caller)

    async def pieces(self, form: Form, blocks: Blocks) -> AsyncGenerator[bytes, None]:
        """The body in pieces, at least one; one for each part of the rows."""
        piece, begun = form.head, False
        async with aclosing(blocks):
            async for block in blocks:
                rendered = await self._rendered(form, block)
                if begun:
                    yield piece
                    piece = form.between + rendered
                else:
                    piece, begun = piece + rendered, True
        yield piece + form.tail

    async def _rendered(self, form: Form, block: Sequence[UsageRow]) -> bytes:
        if len(block) <= ANSWER_ROWS_AT_ONCE:
            return form.render(block)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._renderer, form.render, block)

    async def _begun(self, request: web.Request, form: Form) -> web.StreamResponse:
        # A stream's headers are gone before the middleware sees it again.
        response = web.StreamResponse(
            headers={**form.headers, **answer_headers(request), "Content-Type": form.media}
        )
        await response.prepare(request)
        return response

    async def _stream(
        self, request: web.Request, form: Form, pieces: AsyncGenerator[bytes, None], *first: bytes
    ) -> web.StreamResponse:
        response = await self._begun(request, form)
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                for piece in first:
                    await _written(response, piece)
                async for piece in pieces:
                    await _written(response, piece)
                await response.write_eof()
        except Exception as error:  # noqa: BLE001 - the body is cut, the log has why
            reason = "the reader is too slow" if isinstance(error, TimeoutError) else str(error)
            _log.warning("answer", action="cut", where=request.path, reason=reason)
            if request.transport is not None:  # without the end of the body: the reader sees it
                request.transport.abort()
        return response


def _whole(request: web.Request, form: Form, body: bytes) -> web.Response:
    """An answer in one piece, or 304 where the reader has it."""
    if form.sealed and request.method in READING:
        lasting = {name: it for name, it in form.headers.items() if name != COMPLETE_UNTIL_HEADER}
        tag = entity_tag({**lasting, hdrs.CONTENT_TYPE: form.media}, body)
        form = replace(form, headers={**form.headers, **_SEALED, hdrs.ETAG: tag})
    else:
        tag, form = None, _moving(request, form)
    if is_known(request, tag):
        return _not_modified(form)
    return web.Response(body=body, content_type=form.media, headers=form.headers)


def _moving(request: web.Request, form: Form) -> Form:
    """Without a tag: the answer is kept by nobody."""
    if request.method not in READING:
        return form
    return replace(form, headers={**form.headers, **_MOVING})


def _not_modified(form: Form) -> web.Response:
    """What an answer would say of itself, without what it holds (RFC 9110 15.4.5)."""
    headers = {it: text for it, text in form.headers.items() if it != hdrs.CONTENT_DISPOSITION}
    return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)


async def _written(response: web.StreamResponse, piece: bytes) -> None:
    async with asyncio.timeout(ANSWER_STALL_S):
        await response.write(piece)
