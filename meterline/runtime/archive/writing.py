"""An archive is written, while everything else goes on. The order is what makes it one moment
(docs/decisions/0084): the control store, what it says of the usage store, then the log.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, aclosing, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from aggregator.catch_up import CountedMeanwhile
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.migrations.migrated import newest, number_of
from meterline.backends.control_store.progress.partitions import growth
from meterline.backends.control_store.tables import whole
from meterline.event import Layout, Log
from meterline.limits import (
    ARCHIVE_ERASING_MS,
    ARCHIVE_LOOK_S,
    ARCHIVE_MS_MAX,
    ARCHIVE_TRIES,
)
from meterline.ports import Clock, Unavailable, Unsuitable
from meterline.runtime.archive.files import Lines, NewArchive, Tell
from meterline.runtime.archive.manifest import (
    CONTROL,
    FORMAT,
    USAGE,
    ArchivedLog,
    Manifest,
)
from meterline.runtime.archive.uncounted import NothingLost, write_log
from meterline.window import rfc3339

_encoder: Final = msgspec.json.Encoder()


class TableHead(msgspec.Struct, frozen=True):
    """The first line of a table of the control store: its columns, each with its kind."""

    table: str
    columns: Sequence[tuple[str, str]]


class UsageRows(Protocol):
    """The rows of a usage store, see `ClickHouseArchive`."""

    async def tables(self) -> dict[str, list[str]]:
        """The columns of each table; blocks come first."""
        ...

    def rows(
        self,
        table: str,
        columns: Sequence[str],
        log: int,
        ends: Mapping[int, int],
        revision: int,
        blocks: Sequence[int],
        take: Callable[[bytes], None],
        /,
    ) -> AsyncGenerator[None, None]:
        """Give the rows of a table to `take`, as far as a moment speaks of them."""
        ...


@dataclass(frozen=True, slots=True)
class Source:
    """What an archive is made of: stores that are open, and known to belong together."""

    log: Log
    database: Database
    usage: UsageRows
    nothing_lost: NothingLost
    clock: Clock


class _Overtaken(Exception):
    """What the control store said at first is not in the usage store any more."""


async def write_archive(folder: Path, source: Source, tell: Tell) -> Manifest:
    """Write an archive into a folder that is empty, or not there. Lines about its progress go to
    `tell`. Raises `Unavailable`, `Unsuitable`.
    """
    archive = NewArchive(folder)
    for left in reversed(range(ARCHIVE_TRIES)):
        try:
            return await _written(archive, source, tell)
        except _Overtaken as error:
            if not left:
                message = f"{error}, {ARCHIVE_TRIES} times. Empty {folder}, and try again later"
                raise Unavailable(message) from error
            tell(f"{error}: the backup begins anew")
    raise AssertionError("the last try returns or raises")


async def _written(archive: NewArchive, source: Source, tell: Tell) -> Manifest:
    migration = await number_of(source.database)
    if migration != newest():
        raise Unsuitable(
            f"the control store is at migration {migration}, this build knows {newest()}: make the"
            " backup with the build that runs"
        )
    await _until_erased(source, tell)
    began_ms = source.clock.now_ms()
    moment, layout = await source.database.read_moment(
        partial(_control, archive, source.log.number)
    )
    if layout.partitions > source.log.partitions:  # it has grown since it was opened
        source.log.lay_out(layout)
    tell(f"control store: {sum(one.rows for one in archive.files):,} rows")
    if moment.erasures.under_way:
        raise _Overtaken("a subject is being erased")
    if moment.usage_id is None:
        raise Unsuitable("nothing was ever started here: run `meterline up` or `migrate` first")
    columns = await _usage(archive, source, moment, tell)
    # recorded before it begins: what was not begun by now was there when it was read
    if await source.database.read(whole.minutes_begun) != moment.minutes:
        raise _Overtaken("usage by minute was dropped meanwhile")
    log = await _log(archive, source, moment, began_ms, tell)
    await _check_not_overtaken(source, moment, layout)
    if source.clock.now_ms() - began_ms > ARCHIVE_MS_MAX:
        raise Unsuitable(
            f"the backup took over {ARCHIVE_MS_MAX // 3_600_000} hours: what is not kept any more"
            " may have been dropped meanwhile. Write it to a faster disk"
        )
    manifest = Manifest(
        format=FORMAT,
        made_at=rfc3339(began_ms),
        version=version("meterline"),
        migration=migration,
        usage_id=moment.usage_id,
        usage_columns=columns,
        log=log,
        files=archive.files,
    )
    await asyncio.to_thread(archive.finish, manifest)
    return manifest


async def _check_not_overtaken(source: Source, moment: whole.Moment, layout: Layout) -> None:
    """Raise `_Overtaken` where what is in the log now is not what the moment speaks of."""
    if await source.database.read(whole.erasing) != moment.erasures:
        raise _Overtaken("a subject was erased meanwhile")
    # registered before the first mark: what was read of a log that is laid out as before has none
    if await source.database.read(partial(growth.layout, log=source.log.number)) != layout:
        raise _Overtaken("the log began to get more partitions meanwhile")


async def _until_erased(source: Source, tell: Tell) -> None:
    """Wait until no subject is being erased: rows of it would be half there."""
    until_ms, waited = source.clock.now_ms() + ARCHIVE_ERASING_MS, False
    while (await source.database.read(whole.erasing)).under_way:
        if source.clock.now_ms() >= until_ms:
            raise Unavailable(
                f"subjects were being erased for {ARCHIVE_ERASING_MS // 60_000} minutes: try again"
                " when no erasure is under way"
            )
        if not waited:
            tell("a subject is being erased: the backup begins after it")
        waited = True
        await asyncio.sleep(ARCHIVE_LOOK_S)


async def _control(
    archive: NewArchive, log: int, connection: Connection
) -> tuple[whole.Moment, Layout]:
    """All rows, and what they say, in one transaction. On SQLite all of it runs in a thread."""
    with _tables(archive) as page:
        await whole.read_all(connection, page)
    layout = await growth.layout(connection, log)
    if layout.uncounted(await growth.marks(connection, log)):
        raise Unavailable(
            "the log is getting more partitions: try again when `meterline migrate --partitions`"
            " has ended"
        )
    moment = await whole.moment(connection, log)
    firsts = {number: layout.first(number) for number in range(layout.partitions)}
    return moment._replace(sealed=firsts | dict(moment.sealed)), layout


@contextmanager
def _tables(archive: NewArchive) -> Iterator[whole.Page]:
    """Where pages of tables go; a file is ended when the next table begins."""
    with ExitStack() as stack:
        opened: dict[str, Lines] = {}

        def page(table: str, columns: whole.Columns, rows: Sequence[Sequence[Any]]) -> None:
            if table not in opened:
                stack.close()
                path = f"{CONTROL}/{table}.ndjson.gz"
                one: AbstractContextManager[Lines] = archive.file(path)
                opened[table] = stack.enter_context(one)
                head = TableHead(table, [(name, kind) for name, kind in columns])
                opened[table].write(_encoder.encode(head) + b"\n", 0)
            if rows:
                opened[table].write(_encoder.encode_lines(map(tuple, rows)), len(rows))

        yield page


async def _usage(
    archive: NewArchive, source: Source, moment: whole.Moment, tell: Tell
) -> dict[str, list[str]]:
    """Every table, as far as the control store spoke of its rows."""
    tables = await source.usage.tables()
    for number, (table, columns) in enumerate(tables.items(), start=1):
        with archive.file(f"{USAGE}/{table}.tsv.gz") as lines:
            bounds = moment.log, moment.sealed, moment.revision, moment.blocks
            async with aclosing(source.usage.rows(table, columns, *bounds, lines.write)) as taken:
                async for _ in taken:
                    pass
        tell(f"usage store: {table}, {lines.rows:,} rows ({number} of {len(tables)} tables)")
        if "block" in columns:
            kept = set(await source.database.read(whole.kept_blocks))
            if not kept.issuperset(moment.blocks):
                raise _Overtaken("sums by hour and day were merged and dropped meanwhile")
    return tables


async def _log(
    archive: NewArchive, source: Source, moment: whole.Moment, began_ms: int, tell: Tell
) -> ArchivedLog:
    """What the control store did not speak of as counted."""
    try:
        log = await write_log(archive, source.log, moment.sealed, source.nothing_lost, began_ms)
    except CountedMeanwhile as error:
        raise _Overtaken("records were counted, and dropped from the log, meanwhile") from error
    waiting = sum(one.end - one.first for one in log.partitions)
    tell(f"log: {waiting:,} records that are not counted yet")
    return log
