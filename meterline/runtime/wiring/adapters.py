"""Wiring: which adapter stands behind which port, from the settings. No code below knows the
set-up.
"""

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol

import structlog
from pydantic import ValidationError
from ulid import ULID

from aggregator.audit.auditor import AuditTerms, StoreAuditor
from aggregator.audit.blocks import BlockAudit
from aggregator.audit.erasing import CalmAuditor
from control.refusals.service import Gateway, RefusalService
from control.stores import Ledger, Stores
from control.v3.meters.bodies import MeterBody
from ingest.admission import AdmissionRules
from ingest.inbox.consumer import Inbox
from ingest.publisher import Publisher
from meterline.audit import CheckedAccounts, CheckedLineage, CheckedRefusals
from meterline.backends.clickhouse.audit.evidence import ClickHouseEvidence
from meterline.backends.clickhouse.blocks.store import ClickHouseBlockRows
from meterline.backends.clickhouse.bounds import READING
from meterline.backends.clickhouse.chdb import folder as chdb_folder
from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.events.lineage import ClickHouseEventLineage
from meterline.backends.clickhouse.holdings import ClickHouseHoldings
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.clickhouse.usage.accounts import ClickHouseAccounts
from meterline.backends.clickhouse.usage.snapshot import BlockSnapshot
from meterline.backends.clock import SystemClock
from meterline.backends.control_store.access.subjects import SqlSubjectStore
from meterline.backends.control_store.deliveries.lineage import SqlDeliveryLineage
from meterline.backends.control_store.engine import Database, open_database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.meters.revisions import SqlRevisionStore
from meterline.backends.control_store.progress.blocks import SqlBlockLedger
from meterline.backends.control_store.progress.dropped_revisions import SqlRevisionLedger
from meterline.backends.control_store.progress.erasures import SqlErasureStore
from meterline.backends.control_store.progress.evidence import SqlEvidence
from meterline.backends.control_store.progress.partitions.shards import SqlShards
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.backends.control_store.progress.redrives import SqlSettlementStore
from meterline.backends.control_store.progress.retention import SqlRetention
from meterline.backends.control_store.progress.seal_ledger import SqlSealLedger
from meterline.backends.control_store.report_store import SqlReportStore
from meterline.backends.kafka.inbox import InboxWatch
from meterline.backends.kafka.log import KafkaLog, open_kafka_log
from meterline.backends.shared_check import SharedCheck
from meterline.backends.sqlite_log import SqliteLog, open_sqlite_log
from meterline.event import DEFAULT_NAMESPACE
from meterline.limits import METERS_PUT_AT_ONCE
from meterline.meter import MeterDraft, faults_of
from meterline.ports import SILENT, Recorder, Unsuitable
from meterline.runtime import disk_room
from meterline.runtime.settings.reading import Settings, SettingsError
from meterline.runtime.wiring.connections import kafka_security, usage_access
from meterline.runtime.wiring.control_access import control_access
from meterline.runtime.wiring.usage_servers import (
    connection_to_several,
    has_one_life,
    make_databases,
    place_partitions,
)
from meterline.usage import (
    CheckedUsageStore,
    Masks,
    Unsealed,
    UsageIntegrity,
    check_not_older,
    check_revisions_known,
    needless_message,
)
from meterline.window import DAY_MS

logger = structlog.get_logger()
CLOCK: Final = SystemClock()
OpenLog = SqliteLog | KafkaLog


class Worker(Protocol):
    """A shell that works until it is stopped."""

    async def run(self, stop: asyncio.Event) -> None:
        """Return after `stop` is set; raise what a person must look at."""
        ...


async def open_log(settings: Settings, stack: AsyncExitStack) -> OpenLog:
    """The log; closed with the stack. Raises `Unavailable`, and `Unsuitable` with words."""
    deadline_ms = (
        settings.produce_deadline_ms // 2
    )  # the other half may be spent waiting for a turn
    log: OpenLog
    if settings.kafka_servers:
        log = await open_kafka_log(
            settings.kafka_servers,
            settings.log_topic,
            settings.partitions,
            settings.log_retention_days * DAY_MS,
            deadline_ms=deadline_ms,
            security=kafka_security(settings),
            timeout_s=settings.log_timeout_s,
        )
    else:
        folder = settings.data_dir / "log"
        log = open_sqlite_log(folder, settings.partitions, CLOCK, deadline_ms)
    stack.push_async_callback(log.close)
    return log


def check_room(settings: Settings) -> None:
    """Raise `Unsuitable` where a disk is too full to open the embedded stores."""
    disk_room.check_to_start(_folders(settings))


async def check_disk(settings: Settings) -> None:
    """For `/readyz`. Raises `Unavailable` while a disk of the embedded stores is full."""
    disk_room.check_to_run(_folders(settings))


def _folders(settings: Settings) -> tuple[Path, ...]:
    """Of the embedded stores: each may be a disk of its own."""
    data = settings.data_dir
    return data, data / "log", data / "usage", settings.seen_dir


def open_control_database(
    settings: Settings, stack: AsyncExitStack, recorder: Recorder = SILENT
) -> Database:
    """The control store's database; connects when first used."""
    database = open_database(settings.control_database_url, recorder, control_access(settings))
    stack.push_async_callback(database.close)
    return database


async def open_usage(
    settings: Settings, stack: AsyncExitStack, recorder: Recorder = SILENT
) -> ClickHouseUsageStore:
    """The usage store, with its tables. Raises `Unavailable`, `Unsuitable` without its engine."""
    folder = settings.data_dir / "usage" if settings.usage_url == "chdb" else None
    if folder is None:
        await make_databases(settings)
    else:
        if find_spec("chdb") is None:
            raise Unsuitable(
                "the embedded usage store needs the package chdb, which is not installed. Install"
                " meterline[embedded], or set usage_url to the address of a ClickHouse server"
            )
        settings.data_dir.mkdir(parents=True, exist_ok=True)
        if tables := chdb_folder.mend(folder):
            logger.warning("usage_definitions_made_anew", tables=tables)
    url, access = f"chdb:{folder}" if folder else settings.usage_url, usage_access(settings)
    several = connection_to_several(settings, recorder)
    usage = ClickHouseUsageStore(several or Connection(url, recorder=recorder, access=access))
    stack.push_async_callback(usage.close)
    await usage.create_tables()
    if folder is not None:
        # always: a start that ended early may have made them
        await asyncio.to_thread(chdb_folder.sync, folder)
    return usage


@dataclass(frozen=True, slots=True)
class Opened:
    """Everything that counting, asking and reporting stand on, with the log's number known.

    `stores.usage` refuses to answer once it has lost what was counted; `usage` is the same store
    without this check, for the audit. Counting checks by `integrity`, readers by `reading`.
    """

    stores: Stores
    reports: SqlReportStore
    log: OpenLog
    database: Database
    connection: Connection  # to the usage store
    usage: ClickHouseUsageStore
    integrity: UsageIntegrity
    reading: UsageIntegrity
    recorder: Recorder = SILENT


async def open_all(
    settings: Settings,
    database: Database,
    usage: ClickHouseUsageStore,
    log: OpenLog,
    recorder: Recorder = SILENT,
) -> Opened:
    """Register the log and gather the stores. Raises `Unavailable`, `Problem` where the log is not
    the one known.
    """
    progress, seal_ledger = SqlProgressStore(database), SqlSealLedger(database)
    if settings.log_accepted != log.id and not await seal_ledger.knows_log(log.id):
        await _check_unknown_log(log, known_others=await seal_ledger.knows_log())
    log.number = await progress.register_log(log.id, log.partitions)
    if isinstance(log, KafkaLog):
        log.firsts = await progress.log_firsts(log.number)
    log.lay_out(await progress.layout(log.number))
    if log.number > 1 and settings.log_accepted != log.id:
        raise Unsuitable(
            f"this control store has counted another log than this one ({log.id}). The log was"
            " created again, or a setting is wrong. Nothing was counted from this log. Correct"
            " log_url, log_topic or data_dir. If the old log is lost for good, set"
            f" log_accepted to {log.id}: counting continues with this log. Events of the old log"
            " that are sent again then count twice"
        )
    await place_partitions(usage.connection, SqlShards(database), log.partitions)
    holdings = ClickHouseHoldings(usage.connection)
    integrity = UsageIntegrity(seal_ledger, holdings, log.number, log.partitions)
    await integrity.begin(str(ULID()), settings.usage_lost)
    await check_not_older(seal_ledger, holdings, log.number, integrity.store_id, integrity.last)
    catalogue = SqlCatalogueStore(database, settings.meters_max)
    await check_revisions_known(catalogue, holdings, integrity.store_id)
    if settings.usage_lost is not None:
        hint = needless_message(settings.usage_lost, integrity.store_id)
        logger.warning("usage_lost", hint=hint)
    await holdings.name_servers(integrity.store_id)
    subjects = SqlSubjectStore(database)
    reading = integrity.beside(ClickHouseHoldings(usage.connection.lane(READING)))
    # the life of one server can be held to, that of several cannot
    standing = SharedCheck(reading.check) if has_one_life(usage.connection) else None
    revisions, checked = SqlRevisionStore(database), CheckedUsageStore(usage, reading, standing)
    retention, erasures = SqlRetention(database), SqlErasureStore(database)
    stores = Stores(
        catalogue, progress, checked, log, CLOCK, subjects, revisions, retention, erasures
    )
    reports = SqlReportStore(database)
    masks = Masks(erasures)
    usage.read_blocks(BlockSnapshot(SqlBlockLedger(database), log.number, masks))
    return Opened(
        stores, reports, log, database, usage.connection, usage, integrity, reading, recorder
    )


async def _check_unknown_log(log: OpenLog, *, known_others: bool) -> None:
    """Raise `Unsuitable` where a log that holds records meets a control store that is new."""
    if known_others or not any([await log.end(n) for n in range(log.partitions)]):
        return
    raise Unsuitable(
        f"the log ({log.id}) holds events, but the control store is new. It was lost, or a setting"
        " is wrong. Nothing was counted. Correct control_url or data_dir, or restore the newest"
        " backup. To start from zero with this log, use a new usage store and set log_accepted to"
        f" {log.id}: then create meters, reports and keys again. Only events that the log still"
        " has are counted"
    )


def ledger(settings: Settings, opened: Opened) -> Ledger:
    """What the account, the audit and the trace read."""
    stores = opened.stores
    erasures = SqlErasureStore(opened.database)
    masks, unsealed = Masks(erasures), Unsealed(SqlRevisionLedger(opened.database))
    auditor = StoreAuditor(
        opened.log,
        opened.usage,
        stores.progress,
        stores.catalogue,
        ClickHouseEvidence(opened.connection),
        SqlEvidence(opened.database),
        BlockAudit(
            SqlBlockLedger(opened.database),
            ClickHouseBlockRows(opened.connection, masks, unsealed=unsealed),
            CLOCK,
            unsealed,
        ),
        AuditTerms(settings.horizon_days * DAY_MS, settings.losses_accepted or {}),
    )
    return Ledger(
        CheckedAccounts(
            ClickHouseAccounts(opened.connection, masks, stores.retention.notices), opened.reading
        ),
        CalmAuditor(auditor, erasures),
        CheckedLineage(ClickHouseEventLineage(opened.connection), opened.reading),
        SqlDeliveryLineage(opened.database),
    )


def refusal_service(settings: Settings, opened: Opened, gateway: Gateway) -> RefusalService:
    """Where refusals are settled; events that are sent again go through `gateway`."""
    refused = CheckedRefusals(opened.usage, opened.reading)
    settled = SqlSettlementStore(opened.database)
    horizon_ms = settings.horizon_days * DAY_MS
    return RefusalService(opened.stores, refused, settled, gateway, horizon_ms)


def publisher(settings: Settings, log: OpenLog, recorder: Recorder = SILENT) -> Publisher:
    """What the gateway hands its events to."""
    deadline_ms = settings.produce_deadline_ms
    return Publisher(
        log,
        CLOCK,
        waiting_ms_max=deadline_ms // 2,
        deadline_ms=deadline_ms,
        recorder=recorder,
    )


def admission_rules(settings: Settings, log: OpenLog) -> AdmissionRules:
    """What the gateway lets in."""
    return AdmissionRules(
        log.routes,
        settings.event_bytes_max,
        settings.batch_events_max,
        settings.event_past_ms_max,
        settings.event_future_ms_max,
    )


def completeness_lag_ms(settings: Settings) -> int:
    """After this, nothing recorded earlier can still appear in the log."""
    return settings.produce_deadline_ms + settings.clock_skew_ms


INBOX_GROUP_SUFFIX: Final = "-inbox"


def inbox_watch(settings: Settings, stack: AsyncExitStack) -> InboxWatch | None:
    """How far the inbox topics are; None where there are none."""
    if not settings.inbox_topics:
        return None
    group = settings.consumer_group + INBOX_GROUP_SUFFIX
    watch = InboxWatch(
        settings.kafka_servers,
        group,
        list(settings.inbox_topics),
        kafka_security(settings),
        margin_ms=completeness_lag_ms(settings),
        timeout_s=settings.log_timeout_s,
    )
    stack.push_async_callback(watch.close)
    return watch


def inbox(
    settings: Settings, publisher_: Publisher, log: OpenLog, stack: AsyncExitStack
) -> Inbox | None:
    """The reader of the inbox topics; None where there are none."""
    watch = inbox_watch(settings, stack)
    if watch is None:
        return None
    return Inbox(
        settings.kafka_servers,
        settings.consumer_group + INBOX_GROUP_SUFFIX,
        settings.inbox_topics,
        publisher_,
        log,
        admission_rules(settings, log),
        watch,
        kafka_security(settings),
    )


async def put_meters(settings: Settings, opened: Opened) -> None:
    """Make or revise the meters of the settings file; those that it does not name any more can be
    changed by the API. Raises `SettingsError` that names the meter and the field.
    """
    catalogue, now_ms = opened.stores.catalogue, CLOCK.now_ms()
    drafts = [_draft(at, given) for at, given in enumerate(settings.meters)]
    for first in range(0, len(drafts), METERS_PUT_AT_ONCE):
        some = drafts[first : first + METERS_PUT_AT_ONCE]
        await catalogue.put_settings_meters(DEFAULT_NAMESPACE, some, now_ms)
    named = {draft.key for draft in drafts}
    for meter in await catalogue.release_settings_meters(DEFAULT_NAMESPACE, named, now_ms):
        logger.info("meter_released", meter=meter.key)


def _draft(at: int, given: dict[str, object]) -> MeterDraft:
    named = f"meters[{at}] ({given.get('key', 'without key')})"
    try:
        # as JSON, for the body is judged as strictly as one that came over HTTP
        text = json.dumps({"name": given.get("key"), **given}, default=str)
        draft = MeterBody.model_validate_json(text).draft()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SettingsError(f"{named}: {where}: {first['msg']}") from error
    faults = faults_of(draft)
    if faults:
        raise SettingsError("; ".join(f"{named}: {f.field}: {f.reason}" for f in faults))
    return draft
