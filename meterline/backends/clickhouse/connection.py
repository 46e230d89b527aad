"""Connections to ClickHouse: one client per thread, a bounded pool of threads for each lane, errors
of the world as `Unavailable`.

clickhouse-connect's asyncio client refuses chDB, so both set-ups use the same sync client in
threads (it lets go of the interpreter lock while the engine works).
"""

import asyncio
import re
import secrets
import struct
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

from clickhouse_connect.datatypes.base import ClickHouseType
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import (
    ClickHouseError,
    DataError,
    NotSupportedError,
    ProgrammingError,
)
from urllib3.exceptions import HTTPError

from meterline.backends.clickhouse.clients.access import (
    PLAIN,
    ServerAccess,
    connected,
    renew_password,
)
from meterline.backends.clickhouse.clients.inserts import insert
from meterline.backends.clickhouse.clients.lanes import COUNTING, Lane
from meterline.backends.clickhouse.clients.streams import Stream, settings_clause
from meterline.ports import SILENT, AccessRefused, Recorder, Unavailable, metrics

# The engine's own insert de-duplication would eat a repair; an asynchronous insert would be
# acknowledged too early.
INSERT_SETTINGS: Final[dict[str, Any]] = {
    "insert_deduplicate": 0,
    "deduplicate_insert": "disable",
    "async_insert": 0,
}
QUERY_SETTINGS: Final[dict[str, Any]] = {
    "do_not_merge_across_partitions_select_final": 1,
    "optimize_move_to_prewhere_if_final": 0,
    "use_skip_indexes_if_final": 1,
    "max_threads": 2,
}

# The engine's own sentence, up to where clients and engine append versions, queries and addresses.
_MESSAGE: Final = re.compile(r"(Code: \d+\. )?DB::Exception: [^\n]*?(?=\.? ?\(|\n|$| for url)")
# Where the engine met damage: it names the folder of the part, and the table with its database.
_READING: Final = re.compile(
    r"from part (?:\S*/)?(?P<part>[^\s/]+)/? in table (?:\w+\.)?(?P<table>\w+)"
)
_OURS: Final = (DataError, ProgrammingError, NotSupportedError)
# TOO_MANY_ROWS, TIMEOUT_EXCEEDED, TOO_SLOW, and MEMORY_LIMIT_EXCEEDED of the query, not of the
# server: what a query was bounded by.
_EXCEEDED: Final = re.compile(
    r"Code: (158|159|160)\b|Code: 241\b.*?(Query memory limit|\(for query\))", re.DOTALL
)
# UNKNOWN_DATABASE, UNKNOWN_USER, WRONG_PASSWORD, REQUIRED_PASSWORD, ACCESS_DENIED,
# AUTHENTICATION_FAILED
_REFUSED: Final = re.compile(r"Code: (81|192|193|194|497|516)\b")
ERROR_CHARS_MAX: Final = 300
T = TypeVar("T")
Rows = Sequence[Sequence[Any]]


class Exceeded(Unavailable):
    """A query would read or hold more, or take longer, than its settings allow, or those of the
    store's user.
    """


class Connection:
    """Where the usage store is: `chdb:<folder>` or `http(s)://user:password@host:port/database`.

    It is the lane of counting; `lane` gives the others.
    """

    def __init__(
        self,
        url: str,
        lane: Lane = COUNTING,
        recorder: Recorder = SILENT,
        access: ServerAccess = PLAIN,
    ) -> None:
        self._url = url
        self._access = access
        self._recorder = recorder
        self._lane = lane
        self._lanes: dict[str, Connection] = {}
        self._local = threading.local()
        self._clients: list[Client] = []
        self._lock = threading.Lock()
        self._types: dict[tuple[str, tuple[str, ...]], Sequence[ClickHouseType]] = {}
        self._threads = ThreadPoolExecutor(lane.threads, lane.name)
        self._stream_threads = ThreadPoolExecutor(lane.streams, f"{lane.name}-stream")
        self._streams = asyncio.Semaphore(lane.streams)
        self._beginning = asyncio.Semaphore(lane.threads)
        self._idle: list[Client] = []  # of streams that ended: an open one has a client for itself
        self._making = threading.Lock()
        self._ending = ThreadPoolExecutor(1, f"{lane.name}-end")

    def lane(self, lane: Lane) -> "Connection":
        """The same store for statements of another kind; closed with this connection. All who ask
        for a lane share it.
        """
        if lane.name not in self._lanes:
            self._lanes[lane.name] = self._made(lane)
        return self._lanes[lane.name]

    def _made(self, lane: Lane) -> "Connection":
        made = Connection(self._url, lane, self._recorder, self._access)
        made._lock = self._lock
        return made

    @property
    def always(self) -> Mapping[str, Any]:
        """Settings of every statement here."""
        return {}

    @property
    def servers(self) -> Sequence["Connection"]:
        """The servers that have the rows: what is asked of one of them is told of its own tables.
        Here it is one, this one.
        """
        return (self,)

    async def make_together(self) -> None:
        """Make what is read together, as far as it is not there."""

    async def check_whole(self, ids: Sequence[Sequence[str]]) -> None:
        """Whether what is read together are the servers with these ids. Raises `Unavailable`."""

    async def at(self, partition: int) -> "Connection":
        """The server that has the rows of a partition of the log. Raises `Unavailable`."""
        del partition
        return self

    async def by_server(
        self, rows: Sequence[T], partition_of: Callable[[T], int]
    ) -> Sequence[tuple["Connection", Sequence[T]]]:
        """Rows with the servers that they are written to; none for no rows."""
        del partition_of
        return [(self, rows)] if rows else []

    @property
    def embedded(self) -> bool:
        """Whether it is chDB, in this process."""
        return self._url.startswith("chdb:")

    @property
    def streams_at_once(self) -> int:
        """How many streams may be open; who opens another waits until one is closed."""
        return self._lane.streams

    def _client(self) -> Client:
        client: Client | None = getattr(self._local, "client", None)
        if client is None:
            client = self._local.client = self._connected()
        return renew_password(client, self._url, self._access)

    def _connected(self) -> Client:
        with self._lock:  # chDB opens its folder once; two at a time would race
            client = self._opened()
            self._clients.append(client)
            return client

    def _opened(self) -> Client:
        try:
            return connected(self._url, self._access)
        except ProgrammingError as error:  # chDB's word for a folder that it cannot open
            where = self._url.removeprefix("chdb:")
            raise Unavailable(
                f"usage store: {where} cannot be opened as a store ({_text(error)}). Restore its"
                " newest backup, or move it away and follow docs/operations.md, 'When a store is"
                " lost or damaged'"
            ) from error

    async def run(self, work: Callable[[Client], T]) -> T:
        """Do `work` with a client in a thread. Raises `Unavailable` for every error of store or
        network, `Exceeded` for a bound that was set.
        """

        def call() -> T:
            with self._errors_named():
                return work(self._client())

        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    @contextmanager
    def _given_up(self, mark: str) -> Iterator[None]:
        """Who is cancelled within, or waits too long, ends the statement with this comment."""
        try:
            yield
        except asyncio.CancelledError:
            if self._lane.gives_up:
                self._ending.submit(self._end, mark)
            raise
        except TimeoutError as error:
            self._ending.submit(self._end, mark)
            raise Exceeded(f"no rows within {self._lane.seconds_each} s") from error

    def _end(self, mark: str) -> None:
        # A user without the right leaves it to the bounds of the statement.
        with suppress(ClickHouseError, OSError, HTTPError, Unavailable):
            self._client().command(f"KILL QUERY WHERE Settings['log_comment'] = '{mark}' ASYNC")

    async def stream(
        self,
        sql: str,
        parameters: dict[str, Any],
        settings: Mapping[str, Any],
        take: Callable[[bytes], T],
    ) -> AsyncGenerator[T, None]:
        """What `take` makes of the rows of a query, in JSON, one a line. It is called in a thread
        with pieces that end anywhere. Pieces are read as they are asked for, so what is held is
        little. Raises as `run` does. Whoever stops early closes it.
        """
        mark, bounds = self._bounds(settings, streamed=True)
        if not self.embedded:
            bounds["cancel_http_readonly_queries_on_client_close"] = 1
        async with self._streams:
            stream = Stream(sql + settings_clause(bounds), parameters, self._lane.form)

            def step() -> tuple[bool, T]:
                with self._errors_named():
                    piece = stream.read(self._for_stream)
                self._recorder.count(metrics.ROWS_RETURNED, piece.count(b"\n"), self._lane.name)
                if stream.ended:  # here, for each change of threads costs as much as a short answer
                    end()
                with self._making:  # rows are made under the interpreter's lock: one after another
                    return not stream.ended, take(piece)

            def end() -> None:
                if (client := stream.close()) is not None:
                    self._idle.append(client)

            run = asyncio.get_running_loop().run_in_executor
            began_s = asyncio.get_running_loop().time()
            try:
                with self._given_up(mark):
                    async with self._beginning, asyncio.timeout(self._lane.seconds_each):
                        more, made = await run(self._stream_threads, step)  # grouped, and sorted
                    self._took(began_s)
                    yield made
                    while more:
                        more, made = await run(self._stream_threads, step)
                        yield made
            finally:
                if not stream.ended:
                    await asyncio.shield(run(self._stream_threads, end))

    def _bounds(
        self, settings: Mapping[str, Any], *, streamed: bool = False
    ) -> tuple[str, dict[str, Any]]:
        """A name for a statement that can be given up, and its settings."""
        bounds = self._settings(settings, streamed=streamed)
        if not self._lane.gives_up:
            return "", bounds
        mark = f"meterline-{secrets.token_hex(8)}"
        return mark, {**bounds, "log_comment": mark}

    def _settings(self, given: Mapping[str, Any], *, streamed: bool = False) -> dict[str, Any]:
        bounds = self._lane.settings(given, embedded=self.embedded, streamed=streamed)
        return {**bounds, **self.always}

    def _for_stream(self) -> Client:
        try:
            return renew_password(self._idle.pop(), self._url, self._access)
        except IndexError:
            return self._connected()

    async def query(
        self,
        sql: str,
        parameters: dict[str, Any],
        settings: Mapping[str, Any] = QUERY_SETTINGS,
    ) -> Rows:
        """Rows of a query; parameters are bound by the server, `{name:Type}`."""
        mark, bounds = self._bounds(settings)
        began_s = asyncio.get_running_loop().time()
        with self._given_up(mark):
            found = await self.run(lambda client: client.query(sql, parameters, bounds))
        self._took(began_s)
        rows: Rows = found.result_rows
        lane = self._lane.name
        self._recorder.count(metrics.ROWS_RETURNED, len(rows), lane)
        self._recorder.count(metrics.ROWS_READ, int(found.summary.get("read_rows", 0)), lane)
        return rows

    def _took(self, began_s: float) -> None:
        """A statement that reads has its first rows."""
        took_s = asyncio.get_running_loop().time() - began_s
        self._recorder.observe(metrics.STATEMENT_SECONDS, took_s, self._lane.name)

    async def insert(self, table: str, columns: Sequence[str], rows: Rows) -> None:
        """Insert rows as one block; returns when the store has synced it to disk."""
        key = table, tuple(columns)
        settings = self._settings(INSERT_SETTINGS)

        def work(client: Client) -> None:
            context = client.create_insert_context(
                table,
                columns,
                column_types=self._types.get(key),  # without them it asks each time
                column_oriented=True,
                settings=settings,
            )
            self._types.pop(key, None)  # whatever goes wrong, they are asked for again
            insert(client, context, rows)
            self._types[key] = context.column_types

        await self._inserted(table, work)

    async def _inserted(self, table: str, work: Callable[[Client], None]) -> None:
        began_s = asyncio.get_running_loop().time()
        await self.run(work)
        took_s = asyncio.get_running_loop().time() - began_s
        self._recorder.observe(metrics.INSERT_SECONDS, took_s, table)

    async def insert_packed(
        self, table: str, columns: Sequence[str], rows: Iterable[bytes]
    ) -> None:
        """Insert rows whose values lie one behind the other, each as wide as its column, numbers
        little-endian. As one block; returns when the store has synced it to disk.
        """
        settings = self._settings(INSERT_SETTINGS)

        def work(client: Client) -> None:
            try:
                packed = b"".join(rows)
            except struct.error as error:
                raise DataError(f"{table}: {error}") from error
            client.raw_insert(table, columns, packed, settings, fmt="RowBinary")

        await self._inserted(table, work)

    async def execute(self, sql: str) -> None:
        """Run a statement that gives no rows."""
        await self.run(lambda client: client.command(sql))

    async def insert_selected(
        self, sql: str, parameters: dict[str, Any], settings: Mapping[str, Any]
    ) -> None:
        """Run an `INSERT ... SELECT` that has no settings of its own."""
        bounds = self._settings(settings)
        if self.embedded:  # beside it, chDB would set each and set it back: longer than it takes
            sql, bounds = sql + settings_clause(bounds), {}
        await self.run(lambda client: client.command(sql, parameters, settings=bounds))

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        """Errors of store and network as `Unavailable`, or `Exceeded`."""
        try:
            yield
        except _OURS:
            raise  # a value that no column takes: trying again would not help
        except (ClickHouseError, OSError, HTTPError) as error:
            if _EXCEEDED.search(str(error)):
                raise Exceeded(self.message_of(error)) from error
            self._recorder.count(metrics.STORE_ERRORS, 1, "usage")
            if _REFUSED.search(str(error)):
                raise AccessRefused(f"usage store: {self.message_of(error)}") from error
            raise Unavailable(f"usage store: {self.message_of(error)}") from error

    def message_of(self, error: Exception) -> str:
        """What went wrong, in words for people."""
        return _text(error)

    async def close(self) -> None:
        """Finish what runs in every lane and close every client."""
        for lane in self._lanes.values():
            await lane.close()
        for threads in (self._threads, self._stream_threads, self._ending):
            await asyncio.to_thread(threads.shutdown, wait=True)
        for client in self._clients:
            client.close()


def reading_of(error: Exception) -> re.Match[str] | None:
    """The `part` and `table` that the engine read when it met damage."""
    return _READING.search(str(error))


def _text(error: Exception) -> str:
    """What the engine said, without addresses and queries; where it did not answer, just that."""
    message = _MESSAGE.search(str(error))
    if message is None:
        return "no connection, or no answer in time"
    text, place = message[0].strip()[:ERROR_CHARS_MAX], reading_of(error)
    return text if place is None else f"{text} (table {place['table']}, part {place['part']})"
