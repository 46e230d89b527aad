"""The control store of an archive: put into an empty one, all of it in one transaction."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.migrate import migrate_within
from meterline.backends.control_store.migrations.migrated import number_within
from meterline.backends.control_store.tables import whole
from meterline.backends.control_store.tables.columns import metadata
from meterline.runtime.archive.files import Archive
from meterline.runtime.archive.manifest import CONTROL, Manifest
from meterline.runtime.archive.writing import TableHead

PAUSED: Final = "restored from a backup: resume it once senders have sent again"
_head: Final = msgspec.json.Decoder(TableHead)
_rows: Final = msgspec.json.Decoder(list[Any])


class Become(NamedTuple):
    """What a restored set-up is known by, in place of what the archive says."""

    log_id: str
    firsts: str | None  # see `logs.firsts`
    usage_id: str


async def put_control(archive: Archive, database: Database, become: Become, *, pause: bool) -> int:
    """Put all tables into an empty store, bring them to the newest migration, let them speak of the
    restored log and usage store, and pause the reports if asked: how many were paused.

    All of it is one transaction. So no process ever meets rows that speak of the old log.
    """
    manifest = archive.manifest

    async def act(connection: Connection) -> int:
        if await number_within(connection) == 0:
            await migrate_within(connection, manifest.migration)
        await _load(archive, connection)
        await migrate_within(connection)
        await whole.become(connection, manifest.log.number, *become)
        return await whole.pause_reports(connection, PAUSED) if pause else 0

    return await database.write(act)


async def _load(archive: Archive, connection: Connection) -> None:
    await whole.clear(connection)
    for table in tables_of(archive.manifest):
        lines = archive.lines(f"{CONTROL}/{table}.ndjson.gz", heads=1)
        head = _head.decode(next(lines))
        await whole.put(connection, table, head.columns, _decoded(lines, head.columns))


def _decoded(lines: Iterable[bytes], columns: whole.Columns) -> Iterator[Sequence[Any]]:
    packed = [at for at, (_, kind) in enumerate(columns) if kind == "bytes"]
    for line in lines:
        row = _rows.decode(line)
        for at in packed:
            if row[at] is not None:
                row[at] = msgspec.convert(row[at], bytes)
        yield row


def tables_of(manifest: Manifest) -> list[str]:
    """Tables of the control store, those that others refer to first."""
    order = {table.name: at for at, table in enumerate(metadata.sorted_tables)}
    head, tail = f"{CONTROL}/", ".ndjson.gz"
    found = [it.path for it in manifest.files if it.path.startswith(head)]
    names = [path.removeprefix(head).removesuffix(tail) for path in found]
    return sorted(names, key=lambda name: order.get(name, len(order)))


class SealedInArchive:
    """The secrets in an archive: the key must open them before anything is written."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    async def sealed_secrets(self, limit: int) -> list[bytes]:
        """Those of the newest reports, as they are sealed, the newest first. Rows are ordered by
        the id, which is a ULID.
        """
        lines = self._archive.lines(f"{CONTROL}/reports.ndjson.gz", heads=1)
        columns = _head.decode(next(lines)).columns
        at = [name for name, _ in columns].index("signing_secret_sealed")
        found = deque((bytes(row[at]) for row in _decoded(lines, columns)), maxlen=limit)
        return list(reversed(found))
