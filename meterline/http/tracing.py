"""Traces of requests: the outermost span of each, and its trace in every line of the log."""

from collections.abc import MutableMapping
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from meterline.http.answers import REQUEST_ID
from meterline.http.scrape import OPERATION, TRACE_ID
from meterline.ports import (
    TRACEPARENT,
    TRACESTATE,
    Span,
    TraceContext,
    Tracer,
    Work,
    parse_traceparent,
)


class RequestTrace:
    """The trace of a request: that of its header, else that of an event which it brings, else its
    own. Nothing is begun before it is known that an operation is asked: probes and made-up paths
    take no place of others.
    """

    def __init__(self, tracer: Tracer, header: TraceContext | None) -> None:
        self.tracer = tracer
        self.span: Span | None = None  # None: not begun, or not sampled
        self._header = header
        self._since_ns = tracer.now_ns()

    def begin(self) -> None:
        """It asks an operation."""
        self._begin(self._header)

    def _begin(self, parent: TraceContext | None, *links: TraceContext) -> None:
        self.span = self.tracer.begin(Work.REQUEST, parent, links, self._since_ns)

    def of_events(self, contexts: list[TraceContext]) -> None:
        """Its events bring these, all sampled. Where the request says nothing, it belongs to the
        trace of the first, and is linked to the others. What was begun gives way: it never ends.
        """
        if contexts and self._header is None:
            self._begin(contexts[0], *contexts[1:])

    def child(self, work: Work, since_ns: int | None = None) -> Span | None:
        """A part of the request; None where it is not sampled."""
        if self.span is None:
            return None
        return self.tracer.begin(work, self.span.context, since_ns=since_ns)


_current: Final[ContextVar[RequestTrace | None]] = ContextVar("trace", default=None)


def current_trace() -> RequestTrace | None:
    """That of the request which is answered here; None where traces are off. (A key of the request
    would cost more where it is absent: aiohttp raises and catches).
    """
    return _current.get()


def tracing(tracer: Tracer) -> Middleware:
    """Around everything that answers. Whoever finds the operation of a request begins its span."""

    @web.middleware
    async def trace(request: web.Request, handler: Handler) -> web.StreamResponse:
        header = request.headers.getall(TRACEPARENT, ())
        parent = None
        if len(header) == 1:  # W3C 3.2: of several, none is right
            state = ",".join(request.headers.getall(TRACESTATE, ()))
            parent = parse_traceparent(header[0].strip(), state)
        it = RequestTrace(tracer, parent)
        _current.set(it)
        status = HTTPStatus.INTERNAL_SERVER_ERROR.value
        try:
            response = await handler(request)
            status = response.status
            return response
        except web.HTTPException as error:
            status = error.status
            raise
        finally:
            _current.set(None)  # the next request of this connection is another one
            if it.span is not None:
                request[TRACE_ID] = it.span.context.trace
                _end(it.span, request, status)

    return trace


def _end(span: Span, request: web.Request, status: int) -> None:
    operation = request[OPERATION]
    span.rename(f"{request.method} {operation}")
    span.set("meterline.operation", operation)
    span.set("meterline.request_id", request.get(REQUEST_ID, ""))
    span.set("http.request.method", request.method)
    span.set("http.response.status_code", status)
    failed = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    span.end(f"answered {status}" if failed else "")


def with_trace_id(
    _logger: object, _method: str, line: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """A processor of structlog: every line that is written for a traced request names its trace."""
    trace = _current.get()
    if trace is not None and trace.span is not None:
        line.setdefault("trace_id", trace.span.context.trace)
    return line
