"""An archive is put into stores that are empty, of whatever set-up the settings name."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from ulid import ULID

from aggregator.catch_up import check_same_log
from meterline.audit import AuditSpan, AuditStep, Finding
from meterline.backends.clickhouse.holdings import ClickHouseHoldings
from meterline.backends.clickhouse.usage.whole import ClickHouseArchive
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.migrations.migrated import newest, number_of
from meterline.backends.control_store.tables import whole
from meterline.backends.kafka.log import KafkaLog
from meterline.event import Record, RecordKind
from meterline.limits import ARCHIVE_FINDINGS_MAX, ARCHIVE_PIECE_BYTES, ARCHIVE_RECORDS
from meterline.ports import Unsuitable
from meterline.runtime.archive.control import Become, SealedInArchive, put_control, tables_of
from meterline.runtime.archive.files import Archive, Tell
from meterline.runtime.archive.manifest import (
    LOG,
    USAGE,
    Manifest,
    check_fits,
    portions,
    without_gaps,
)
from meterline.runtime.archive.uncounted import ArchivedRecord
from meterline.runtime.secret_key import secret_box
from meterline.runtime.settings.reading import Settings
from meterline.runtime.wiring import adapters
from meterline.runtime.wiring.adapters import Opened, OpenLog
from meterline.runtime.wiring.usage_servers import place_anew

ANEW: Final = (
    "Empty all three stores (log, usage store, control store), or name new ones, then restore again"
)
_record: Final = msgspec.json.Decoder(ArchivedRecord)


class Audited:
    """What an audit of everything found: a count of differences, and the first of them."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.differences = 0
        self.slices = 0
        self.unchecked: Counter[str] = Counter()

    def add(self, step: AuditStep) -> None:
        """Take in a step."""
        self.findings += step.findings[: ARCHIVE_FINDINGS_MAX - len(self.findings)]
        self.differences += len(step.findings) + step.omitted
        self.slices += step.slices
        self.unchecked.update(
            {
                "slices whose events or minutes are not kept": step.not_kept,
                "slices that a meter is still filled from": step.unfilled,
                "events of erased subjects": step.erased,
                "blocks whose minutes are not kept": step.blocks_not_kept,
            }
        )


@dataclass(frozen=True, slots=True)
class Restored:
    """What came of a restore: the id and number of the log now, the reports that were paused, and
    what the audit found; None: it was left out.
    """

    manifest: Manifest
    log_id: str
    log_number: int
    paused: int
    audited: Audited | None


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
    await secret_box(settings, SealedInArchive(archive))
    async with AsyncExitStack() as stack:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
        database = adapters.open_control_database(settings, stack)
        log = await adapters.open_log(settings, stack)
        store = await adapters.open_usage(settings, stack)
        place_anew(store.connection, log.partitions)
        usage = ClickHouseArchive(store.connection)
        await _check_empty(log, database, usage, manifest)
        # first: a store with an id and no control store that knows it is not started
        usage_id = str(ULID())
        await ClickHouseHoldings(store.connection).adopt(usage_id)
        await _put_usage(archive, usage, tell)
        await _put_log(archive, log, tell)
        firsts = json.dumps(list(log.firsts)) if isinstance(log, KafkaLog) else None
        paused = await put_control(archive, database, Become(log.id, firsts, usage_id), pause=pause)
        tell(f"control store: {len(tables_of(manifest))} tables")
        accepted = settings.model_copy(update={"log_accepted": log.id})
        opened = await adapters.open_all(accepted, database, store, log)
        for partition, stretch in enumerate(manifest.log.partitions):
            seal = await opened.stores.progress.last_seal(log.number, partition)
            await check_same_log(log, partition, seal, stretch.counted)
        found = await _audit(settings, opened) if audited else None
        return Restored(manifest, log.id, log.number, paused, found)


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
        gapless = without_gaps(_records(lines, partition, log.id), stretch.first, stretch.end)
        found = portions(gapless, ARCHIVE_RECORDS, ARCHIVE_PIECE_BYTES)
        await log.put_back(partition, stretch.first, [])
        while some := await asyncio.to_thread(next, found, None):
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


async def _audit(settings: Settings, opened: Opened) -> Audited:
    """The whole audit, as `meterline audit` asks a server for it."""
    auditor = adapters.ledger(settings, opened).auditor
    found, cursor = Audited(), None
    while True:
        step = await auditor.step(AuditSpan(), cursor)
        found.add(step)
        cursor = step.next
        if cursor is None:
            return found
