"""The result of one statement, read a piece at a time by whichever thread asks."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, cast

from clickhouse_connect.driver.client import Client

from meterline.limits import ANSWER_PIECE_BYTES

ROWS_AS_JSON: Final = "JSONEachRow"  # one that chDB streams, and that is read fast


class _Source(Protocol):
    def read(self, size: int, /) -> bytes: ...
    def close(self) -> None: ...


def settings_clause(settings: Mapping[str, Any]) -> str:
    """Settings as a part of the statement: beside it, chDB would not stream. A name for it is none,
    and chDB has no names.
    """
    of_it = (one for one in settings.items() if one[0] != "query_id")
    pairs = (f"{name} = {_literal(value)}" for name, value in of_it)
    return f"\nSETTINGS {', '.join(pairs)}"


def _literal(value: object) -> str:
    if not isinstance(value, str):
        return repr(value)
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


class Stream:
    """A statement that begins with the first reading. While it is open its client does nothing
    else.
    """

    def __init__(self, sql: str, parameters: dict[str, Any], form: str = ROWS_AS_JSON) -> None:
        self._sql = sql
        self._form = form
        self._parameters = parameters
        self._client: Client | None = None
        self._source: _Source | None = None
        self.ended = False  # all of it was read
        self._closed = False
        self._lock = threading.Lock()  # who stops while another thread reads waits for that

    def read(self, connect: Callable[[], Client]) -> bytes:
        """The next piece; empty at the end, or once it is closed. The first time it gets its
        client.
        """
        with self._lock:
            if self._closed:
                self.ended = True
                return b""
            if self._source is None:
                self._client = connect()
                stream = self._client.raw_stream(self._sql, self._parameters, fmt=self._form)
                self._source = cast("_Source", stream)
            piece = self._source.read(ANSWER_PIECE_BYTES)
            if len(piece) < ANSWER_PIECE_BYTES:  # most answers are short: that was all of it
                more = self._source.read(ANSWER_PIECE_BYTES - len(piece))
                self.ended = not more
                piece += more
            return piece

    def close(self) -> Client | None:
        """End it. The client is free for another one."""
        with self._lock:
            self._closed = True
            client, self._client = self._client, None
            if self._source is not None:
                self._source.close()
            return client
