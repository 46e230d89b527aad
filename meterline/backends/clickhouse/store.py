"""`UsageStore` on ClickHouse and chDB (docs/architecture.md, "Tallies")."""

import asyncio
from collections import defaultdict
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager
from operator import attrgetter, itemgetter
from typing import Any, Final

from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DataError

from meterline.backends.clickhouse.bounds import (
    READING,
    RUNS,
    UPKEEP,
    rows_within_bounds,
    within_bounds,
)
from meterline.backends.clickhouse.chdb.parts import PartWatch
from meterline.backends.clickhouse.connection import QUERY_SETTINGS, Connection, Rows
from meterline.backends.clickhouse.events.listing import EventListing
from meterline.backends.clickhouse.named_sql import QUERIES
from meterline.backends.clickhouse.schema import define, missing
from meterline.backends.clickhouse.several.replicated import ReplicatedConnection
from meterline.backends.clickhouse.usage.answer import answer, portions, total
from meterline.backends.clickhouse.usage.slices import slices_below, slices_from
from meterline.backends.clickhouse.usage.snapshot import BlockSnapshot, Reader
from meterline.backends.clickhouse.usage.sql import rejected_statement
from meterline.backends.clickhouse.usage.statement import Part
from meterline.backends.clickhouse.usage.values import ValueListing
from meterline.event import (
    CHECK_BYTES,
    KEY_BYTES,
    ListedEvent,
    Position,
)
from meterline.limits import (
    BLOCK_INSERT_ROWS,
    FILL_READ_BYTES,
    FILL_READ_EVENTS,
    FLUSH_MONTHS_MAX,
    SEEN_CHUNK_ROWS,
)
from meterline.meter import Meter, pieces
from meterline.usage import (
    AccountRow,
    Counted,
    EventRow,
    Flush,
    Life,
    MemberRow,
    RawEvent,
    RejectedRow,
    RejectRow,
    SeenExtent,
    SeenRow,
    SeenSpan,
    SliceId,
    Stretch,
    TallyRow,
    Touched,
    UsageQuery,
    UsageRow,
    seen_bytes,
    span_of,
)

_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "events": EventRow._fields,
    "rejects": RejectRow._fields,
    "tallies": TallyRow._fields,
    "members": MemberRow._fields,
    "rejected": RejectedRow._fields,
    "accounts": AccountRow._fields,
    "late_tallies": TallyRow._fields,
    "late_members": MemberRow._fields,
}
# Where a table's rows fall into partitions by the month or year of their window.
_WINDOW_AT: Final = {
    "tallies": TallyRow._fields.index("window"),
    "members": MemberRow._fields.index("window"),
    "rejected": RejectedRow._fields.index("window"),
}
_SEEN_WIDTHS: Final = {"key": KEY_BYTES, "check": CHECK_BYTES}
_MINUTES_PER_MONTH: Final = 28 * 1_440  # or more
_HOWEVER_SOON: Final = -(2**62)
# Counting goes on meanwhile: two threads take a third more of the processor, and both cores.
_COUNT_BACK: Final = {**QUERY_SETTINGS, "max_threads": 1}
_partition_of: Final = attrgetter("partition")


class ClickHouseUsageStore:
    """See `UsageStore`, `SubjectUsageStore` and `LateEvents` of `meterline.usage`, and
    `meterline.event.RefusedEvents`.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection  # for what else is asked of the same store
        self._connection = connection
        self._asking, self._upkeep = connection.lane(READING), connection.lane(UPKEEP)
        self._reader, self._runs = Reader(self._asking), Reader(connection.lane(RUNS))
        self._listing = EventListing(self._asking)
        self.listed_events = self._listing.page
        self.event_subjects = self._listing.subjects
        self.usage_values = ValueListing(self._reader).page
        self._parts = PartWatch(connection, {*_COLUMNS, "seen"}) if connection.embedded else None

    async def create_tables(self) -> None:
        """Make the tables that are not there, and the columns that older ones lack. Where all is
        there, nothing is asked of the store that writes.
        """
        for server in self._connection.servers:
            if isinstance(server, ReplicatedConnection):
                await server.make_tables()
            else:
                await define(server, missing(await server.query(QUERIES["schema"], {})))
        await self._connection.make_together()

    def read_blocks(self, blocks: BlockSnapshot | None) -> None:
        """From now on, answers are read from these blocks, as far as they go."""
        self._reader.blocks = self._runs.blocks = blocks

    async def write(self, flush: Flush) -> None:
        """Three stages, each durable before the next: an account never speaks of rows that are not
        there. Of chDB it is looked at that they are; a server has a disk of its own.
        """
        async with self._whole():
            await self._write_rows(flush)
        async with self._whole():
            await self._insert("accounts", flush.accounts)

    @asynccontextmanager
    async def _whole(self) -> AsyncIterator[None]:
        """What is inserted within is whole on disk. Raises as `PartWatch.end` does."""
        before = 0 if self._parts is None else await self._parts.begin()
        yield
        if self._parts is not None:
            await self._parts.end(before)

    async def _write_rows(self, flush: Flush) -> None:
        await asyncio.gather(
            self._insert("events", flush.events),
            self._insert("rejects", flush.rejects),
            self._insert_seen(flush.seen),
        )
        await asyncio.gather(
            self._insert("tallies", flush.tallies),
            self._insert("members", flush.members),
            self._insert("rejected", flush.rejected),
            self._insert("late_tallies", flush.late_tallies),
            self._insert("late_members", flush.late_members),
        )

    async def _insert(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        for server, mine in await self._connection.by_server(rows, _partition_of):
            for block in _blocks(table, mine):
                await server.insert(table, _COLUMNS[table], block)

    async def _insert_seen(self, rows: Sequence[SeenRow]) -> None:
        """There is one for every event, and all are of one width: to put them together here takes
        much less than the client's way by columns.
        """
        if rows:
            for name, width in _SEEN_WIDTHS.items():  # packing would fill them up, or cut them
                values = map(itemgetter(SeenRow._fields.index(name)), rows)
                if set(map(len, values)) != {width}:
                    raise DataError(f"seen.{name} is not always of {width} bytes")
            for server, mine in await self._connection.by_server(rows, _partition_of):
                await server.insert_packed("seen", SeenRow._fields, seen_bytes(mine))

    async def count_back(self, slice_id: SliceId, revisions: Sequence[int]) -> dict[str, Counted]:
        """Identities and hash sums of a slice per table, from what the store holds."""
        parameters = {**slice_id._asdict(), **_listed(revisions)}
        server = await self._connection.at(slice_id.partition)
        rows = await server.query(QUERIES["count_back"], parameters, _COUNT_BACK)
        return {name: Counted(count, digest) for name, count, digest in rows}

    async def account(self, slice_id: SliceId) -> AccountRow | None:
        """The newest account of a slice."""
        server = await self._connection.at(slice_id.partition)
        rows = await server.query(QUERIES["account"], slice_id._asdict())
        return AccountRow(*rows[0]) if rows else None

    async def answers(self) -> None:
        """See the port."""
        await self._asking.query("SELECT 1", {})

    async def accounts(
        self,
        log: int,
        first: Mapping[int, int] | None = None,
        end: Mapping[int, int] | None = None,
    ) -> AccountRow:
        """See the port."""
        wanted = slices_from(first or {}) if end is None else slices_below(end)
        statement = QUERIES["accounts"].replace("{wanted}", wanted)
        rows = await self._asking.query(statement, {"log": log})
        version, *counts = rows[0]
        return AccountRow(log, 0, 0, version, *counts)

    async def slice_events(
        self, slice_id: SliceId, namespaced_types: Sequence[tuple[str, str]] | None = None
    ) -> list[EventRow]:
        """The new events of a slice in order."""
        parameters = {**slice_id._asdict(), "types": _type_names(namespaced_types or ())}
        server = await self._connection.at(slice_id.partition)
        rows = await server.query(QUERIES["slice_events"], parameters)
        return [EventRow._make((*values, text.encode())) for *values, text in rows]

    async def raw_events(
        self,
        log: int,
        partition: int,
        slices: Sequence[int],
        end: int,
        namespaced_types: Sequence[tuple[str, str]],
    ) -> AsyncIterator[list[RawEvent]]:
        """Events in portions. Counting comes before whoever reads them."""
        # Slices are many: they stand in the statement, for values of it are part of the address.
        listed = f"({', '.join(map(str, slices))})"
        statement = QUERIES["raw_events"].replace("{slices:Array(UInt64)}", listed)
        asked: dict[str, Any] = {"log": log, "partition": partition, "end": end}
        asked |= {"rows": FILL_READ_EVENTS, "bytes": FILL_READ_BYTES}
        asked["types"] = _type_names(namespaced_types)
        offset, place = slices[0], -1
        server = await self._upkeep.at(partition)
        while True:
            after = {**asked, "offset": offset, "place": place}
            rows = await server.query(statement, after)
            if not rows:
                return
            portion = [RawEvent._make((*values, text.encode())) for *values, text in rows]
            yield portion
            size = sum(len(event.text) for event in portion)
            if len(rows) < FILL_READ_EVENTS and size < FILL_READ_BYTES:
                return
            offset, place = rows[-1][1], rows[-1][2]

    async def seen_between(
        self, log: int, partition: int, offset_first: int, offset_end: int
    ) -> AsyncIterator[list[SeenRow]]:
        """Seen rows in chunks, by position."""
        offset, place = offset_first, -1
        server = await self._connection.at(partition)
        while True:
            parameters = {
                "log": log,
                "partition": partition,
                "offset": offset,
                "place": place,
                "end": offset_end,
                "rows": SEEN_CHUNK_ROWS,
            }
            rows = await server.query(QUERIES["seen_between"], parameters)
            if rows:
                yield [SeenRow(*row) for row in rows]
            if len(rows) < SEEN_CHUNK_ROWS:
                return
            offset, place = rows[-1][2], rows[-1][3]

    async def seen_extent(self, span: SeenSpan) -> SeenExtent:
        """Rows of a span. What takes long gives way to what is counted."""
        name = "seen_extent" if span.partitions == 1 else "seen_extent_of_heir"
        server = await self._upkeep.at(span.partition)
        rows = await server.query(QUERIES[name], span._asdict())
        return SeenExtent._make(rows[0])

    async def seen_keys(self, span: SeenSpan, low: int, high: int) -> bytes:
        """Keys of a span, as they are put into files."""
        parameters = {**span._asdict(), "low": low, "high": high}
        bounds = UPKEEP.settings(QUERY_SETTINGS, embedded=self._connection.embedded)

        def work(client: Client) -> bytes:
            return bytes(client.raw_query(QUERIES["seen_keys"], parameters, bounds, "RowBinary"))

        return await (await self._upkeep.at(span.partition)).run(work)

    async def usage(self, query: UsageQuery) -> list[UsageRow]:
        """Whole minutes from tallies and members, cut minutes from raw events."""
        async with aclosing(self.usage_rows(query)) as blocks:
            return [row async for block in blocks for row in block]

    def usage_rows(
        self, query: UsageQuery, life: Life | None = None
    ) -> AsyncGenerator[list[UsageRow], None]:
        """The same, a part of the rows at a time."""
        return rows_within_bounds(answer(self._reader, query, life=life))

    def usage_by_subject(self, query: UsageQuery, rows_max: int) -> AsyncIterator[list[UsageRow]]:
        """See `meterline.usage.SubjectUsageStore`."""
        return portions(self._runs, query, rows_max)

    async def usage_sum(self, query: UsageQuery) -> tuple[int, int]:
        """See `meterline.usage.SubjectUsageStore`."""
        return await total(self._runs, query)

    async def rejected(self, meter: Meter, limit: int, after: str | None) -> list[RejectedRow]:
        """A page of rejected values; the cursor is `log.partition.offset.place` of the last row
        seen.
        """
        spans = [(piece.meter, span_of(piece.from_ms, piece.to_ms)) for piece in pieces(meter)]
        parts = [Part(part, span.first, span.end) for part, span in spans]
        statement = rejected_statement(parts, _cursor(after), limit)
        with within_bounds():
            return [RejectedRow(*row) for row in await self._asking.query(*statement)]

    async def new_events(self, positions: Sequence[Position]) -> list[ListedEvent]:
        """Events by position."""
        return await self._listing.whole("events", positions)

    async def refused_at(self, positions: Sequence[Position]) -> list[ListedEvent]:
        """See `meterline.event.RefusedEvents`."""
        return await self._listing.whole("rejects", positions)

    async def touched(
        self,
        log: int,
        stretch: Stretch,
        namespaced_types: Collection[tuple[str, str]],
        late_by_ms: int | None = None,
    ) -> list[Touched]:
        """See `meterline.usage.LateEvents`."""
        if not namespaced_types:
            return []
        parameters = {
            "log": log,
            **stretch._asdict(),
            "types": _type_names(namespaced_types),
            "late_by_ms": _HOWEVER_SOON if late_by_ms is None else late_by_ms,
        }
        server = await self._runs.connection.at(stretch.partition)
        rows = await server.query(QUERIES["touched"], parameters)
        return [Touched(stretch.partition, *row) for row in rows]

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()


def _listed(revisions: Sequence[int]) -> dict[str, object]:
    """The shorter of two lists: these revisions, or those between them that are `absent`."""
    least, most = min(revisions, default=1), max(revisions, default=0)
    absent = most - least + 1 < 2 * len(revisions)
    listed = set(range(least, most + 1)).difference(revisions) if absent else revisions
    return {"least": least, "most": most, "revisions": sorted(listed), "absent": absent}


def _type_names(namespaced_types: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{namespace}\n{name}" for namespace, name in namespaced_types]


def _cursor(after: str | None) -> tuple[int, int, int, int]:
    if after is None:
        return 0, 0, 0, -1
    log, partition, offset, place = (int(part) for part in after.split("."))
    return log, partition, offset, place


def _blocks(
    table: str, rows: Sequence[tuple[Any, ...]], most: int = BLOCK_INSERT_ROWS
) -> list[Rows]:
    """Rows as blocks that each span at most FLUSH_MONTHS_MAX of the table's partitions, and have at
    most so many rows; none for no rows.
    """
    blocks = _spans(table, rows)
    return [block[at : at + most] for block in blocks for at in range(0, len(block), most)]


def _spans(table: str, rows: Sequence[tuple[Any, ...]]) -> list[Rows]:
    if not rows:
        return []
    at = _WINDOW_AT.get(table)
    if at is None:
        return [rows]
    windows = [row[at] for row in rows]
    if (max(windows) - min(windows)) // _MINUTES_PER_MONTH < FLUSH_MONTHS_MAX - 1:
        return [rows]
    by_span: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        by_span[row[at] // (_MINUTES_PER_MONTH * (FLUSH_MONTHS_MAX - 1))].append(row)
    return list(by_span.values())
