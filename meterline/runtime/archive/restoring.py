"""An archive is put into stores that are empty, of whatever set-up the settings name."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from aggregator.catch_up import check_same_log
from meterline.audit import AuditSpan, Finding
from meterline.backends.clickhouse.holdings import ClickHouseHoldings
from meterline.backends.clickhouse.usage.whole import ClickHouseArchive
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.migrate import migrate, migrate_to, newest, number_of
from meterline.backends.control_store.tables import whole
from meterline.backends.control_store.tables.columns import metadata
from meterline.backends.kafka.log import KafkaLog
from meterline.event import Record, RecordKind
from meterline.limits import ARCHIVE_RECORDS
from meterline.ports import Unsuitable
from meterline.runtime.archive.files import Archive, Tell
from meterline.runtime.archive.manifest import (
    CONTROL,
    LOG,
    USAGE,
    Manifest,
    check_fits,
    without_gaps,
)
from meterline.runtime.archive.writing import ArchivedRecord, TableHead
from meterline.runtime.secret_key import secret_box
from meterline.runtime.settings.reading import Settings
from meterline.runtime.wiring import adapters
from meterline.runtime.wiring.adapters import Opened, OpenLog

ANEW: Final = (
    "Empty all three stores (log, usage store, control store), or name new ones, then restore again"
)
_PAUSED: Final = "restored from a backup: resume it once senders have sent again"
_head: Final = msgspec.json.Decoder(TableHead)
_rows: Final = msgspec.json.Decoder(list[Any])
_record: Final = msgspec.json.Decoder(ArchivedRecord)


@dataclass(frozen=True, slots=True)
class Restored:
    """What came of a restore: the id and number of the log now, the reports that were paused, and
    what the audit found.
    """

    manifest: Manifest
    log_id: str
    log_number: int
    paused: int
    slices: int
    findings: Sequence[Finding]


async def restore(
    folder: Path, settings: Settings, tell: Tell, *, pause: bool, audited: bool
) -> Restored:
    """Put the archive in `folder` into the stores of the settings, and compare all of it.

    Nothing is written before every digest of it was found right, and every store empty. The control
    store is written last, in one transaction. So one that was broken off is not started. Raises
    `Unavailable`, `Unsuitable`.
    """
    archive = Archive(folder)
    manifest = archive.manifest
    check_fits(manifest, settings.partitions, newest())
    await asyncio.to_thread(archive.check, tell)
    await secret_box(settings, _SealedInArchive(archive))
    async with AsyncExitStack() as stack:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
        database = adapters.open_control_database(settings, stack)
        log = await adapters.open_log(settings, stack)
        store = await adapters.open_usage(settings, stack)
        usage = ClickHouseArchive(store.connection)
        await _check_empty(log, database, usage, manifest)
        # first: a store with an id and no control store that knows it is not started
        await ClickHouseHoldings(store.connection).adopt(manifest.usage_id)
        await _put_usage(archive, usage, tell)
        await _put_log(archive, log, tell)
        paused = await _put_control(archive, database, log, pause=pause)
        tell(f"control store: {len(_tables(manifest))} tables")
        accepted = settings.model_copy(update={"log_accepted": log.id})
        opened = await adapters.open_all(accepted, database, store, log)
        for partition, stretch in enumerate(manifest.log.partitions):
            seal = await opened.stores.progress.last_seal(log.number, partition)
            await check_same_log(log, partition, seal, stretch.counted)
        slices, findings = await _audit(settings, opened) if audited else (0, [])
        return Restored(manifest, log.id, log.number, paused, slices, findings)


async def _check_empty(
    log: OpenLog, database: Database, usage: ClickHouseArchive, manifest: Manifest
) -> None:
    there = await number_of(database)
    used = []
    if there and (await database.read(whole.is_used)):
        used.append("control store")
    if await usage.is_used():
        used.append("usage store")
    if any([await log.end(number) for number in range(log.partitions)]):
        used.append("log")
    if used:
        raise Unsuitable(f"not empty: {', '.join(used)}. Nothing was written. {ANEW}")
    if there not in (0, manifest.migration):
        raise Unsuitable(
            f"the control store is at migration {there}, and the archive at {manifest.migration}:"
            " name a database without tables. It is upgraded after the restore"
        )


async def _put_usage(archive: Archive, usage: ClickHouseArchive, tell: Tell) -> None:
    tables, there = archive.manifest.usage_columns, await usage.tables()
    for number, (table, columns) in enumerate(tables.items(), start=1):
        if unknown := set(columns) - set(there.get(table, [])):
            raise Unsuitable(
                f"the archive has columns of {table} that this build does not know:"
                f" {', '.join(sorted(unknown))}. Restore it with the build that made it"
            )
        path = f"{USAGE}/{table}.tsv.gz"
        pieces = archive.pieces(path)
        while piece := await asyncio.to_thread(next, pieces, b""):
            await usage.put(table, columns, piece)
        rows = archive.manifest.file(path).rows
        tell(f"usage store: {table}, {rows:,} rows ({number} of {len(tables)} tables)")


async def _put_log(archive: Archive, log: OpenLog, tell: Tell) -> None:
    """Every record at the offset that it had: offsets are a part of what rows are named by."""
    stretches = archive.manifest.log.partitions
    if isinstance(log, KafkaLog):
        log.firsts = [one.first for one in stretches]
    for partition, stretch in enumerate(stretches):
        lines = archive.lines(f"{LOG}/{partition}.ndjson.gz")
        found = without_gaps(_records(lines, partition, log.id), stretch.first, stretch.end)
        await log.put_back(partition, stretch.first, [])
        while some := await asyncio.to_thread(lambda it=found: list(islice(it, ARCHIVE_RECORDS))):  # type: ignore[misc]
            await log.put_back(partition, some[0].offset, some)
        if (end := await log.end(partition)) != stretch.end:
            raise Unsuitable(
                f"partition {partition} of the log ends at {end}, not at {stretch.end}: others"
                f" write to it. Stop the gateways. {ANEW}"
            )
    tell(f"log: {sum(one.end - one.first for one in stretches):,} records")


def _records(lines: Iterable[bytes], partition: int, log_id: str) -> Iterator[Record]:
    for line in lines:
        it = _record.decode(line)
        kind = RecordKind(it.kind)
        yield Record(partition, it.offset, it.append_ms, kind, it.value, log_id)


async def _put_control(archive: Archive, database: Database, log: OpenLog, *, pause: bool) -> int:
    manifest = archive.manifest
    if await number_of(database) == 0:
        await migrate_to(database, manifest.migration)
    await database.write(partial(_load, archive))
    await migrate(database)
    firsts = None
    if isinstance(log, KafkaLog):
        firsts = msgspec.json.encode(list(log.firsts)).decode()

    async def goes_on(connection: Connection) -> int:
        await whole.become(connection, manifest.log.number, log.id, firsts)
        return await whole.pause_reports(connection, _PAUSED) if pause else 0

    return await database.write(goes_on)


async def _load(archive: Archive, connection: Connection) -> None:
    await whole.clear(connection)
    for table in _tables(archive.manifest):
        lines = archive.lines(f"{CONTROL}/{table}.ndjson.gz")
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


def _tables(manifest: Manifest) -> list[str]:
    """Tables of the control store, those that others refer to first."""
    order = {table.name: at for at, table in enumerate(metadata.sorted_tables)}
    head, tail = f"{CONTROL}/", ".ndjson.gz"
    found = [it.path for it in manifest.files if it.path.startswith(head)]
    names = [path.removeprefix(head).removesuffix(tail) for path in found]
    return sorted(names, key=lambda name: order.get(name, len(order)))


async def _audit(settings: Settings, opened: Opened) -> tuple[int, list[Finding]]:
    """The whole audit, as `meterline audit` asks a server for it."""
    auditor = adapters.ledger(settings, opened).auditor
    slices, findings, cursor = 0, list[Finding](), None
    while True:
        step = await auditor.step(AuditSpan(), cursor)
        slices, findings, cursor = slices + step.slices, findings + step.findings, step.next
        if cursor is None:
            return slices, findings


class _SealedInArchive:
    """The secrets in an archive: the key must open them before anything is written."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    async def sealed_secrets(self, limit: int) -> list[bytes]:
        """Of any reports, as they are sealed."""
        lines = self._archive.lines(f"{CONTROL}/reports.ndjson.gz")
        columns = _head.decode(next(lines)).columns
        at = [name for name, _ in columns].index("signing_secret_sealed")
        return [bytes(row[at]) for row in islice(_decoded(lines, columns), limit)]
