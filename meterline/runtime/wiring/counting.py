"""How counting is wired: the step, housekeeping, blocks, and what drives them."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from aggregator.blocks import BlockMaker
from aggregator.completeness import Completeness, InboxDrained
from aggregator.drivers.block_loop import BesideCounting, WithBlocks
from aggregator.drivers.poll_worker import PollWorker
from aggregator.drivers.standing import Standing
from aggregator.drivers.stuck_guard import StuckGuard
from aggregator.dropped_revisions import DroppedRevisions, RevisionStores
from aggregator.erasure import ErasedStores, Eraser
from aggregator.housekeeping import Housekeeping, Intervals
from aggregator.retention import Retention
from aggregator.slice.flush_due import FlushBounds
from aggregator.step import Aggregator
from meterline.backends.clickhouse.blocks.dropped_revisions import ClickHouseRevisionRows
from meterline.backends.clickhouse.blocks.erasure import ClickHouseErasedRows
from meterline.backends.clickhouse.blocks.store import ClickHouseBlockRows
from meterline.backends.clickhouse.bounds import UPKEEP
from meterline.backends.clickhouse.holdings import ClickHousePeriods
from meterline.backends.control_store.progress.blocks import SqlBlockLedger
from meterline.backends.control_store.progress.dropped_revisions import SqlRevisionLedger
from meterline.backends.control_store.progress.erasures import SqlErasureStore
from meterline.backends.control_store.progress.retention import SqlRetention
from meterline.backends.kafka.growth import AGGREGATOR
from meterline.backends.kafka.record import kafka_record
from meterline.backends.kafka.topic import renew_password
from meterline.backends.rocksdb import RocksSeenStore, cached_bytes
from meterline.backends.sqlite_log import SqliteLog
from meterline.event import Record
from meterline.limits import OPEN_SLICES_PARTITION_BYTES, SEEN_MARGIN_DAYS, STALLED_AFTER_S
from meterline.runtime.settings.reading import Settings
from meterline.runtime.wiring.adapters import CLOCK, Opened, OpenLog, Worker, completeness_lag_ms
from meterline.runtime.wiring.connections import kafka_security
from meterline.usage import (
    BlockRows,
    CheckedBlockRows,
    CheckedErasedRows,
    CheckedPeriods,
    CheckedRevisionRows,
    CheckedUsageStore,
    Erasure,
    Masks,
    RetentionTerms,
    SeenStore,
    Unsealed,
)
from meterline.window import DAY_MS


def aggregator(
    settings: Settings, opened: Opened, drained: InboxDrained | None
) -> tuple[Aggregator, Housekeeping]:
    """The step of counting and what goes on around it."""
    horizon_ms = settings.horizon_days * DAY_MS

    def open_seen(number: int) -> SeenStore:
        # In a folder of the usage store: where that is counted anew, so is what was seen.
        folder = settings.seen_dir / opened.log.id / opened.integrity.store_id / str(number)
        return RocksSeenStore(folder, horizon_ms, settings.seen_cache_bytes)

    stores = opened.stores
    step = Aggregator(
        opened.log,
        CheckedUsageStore(opened.usage, opened.integrity),
        stores.progress,
        stores.catalogue,
        open_seen,
        horizon_ms,
        settings.losses_accepted,
        opened.recorder,
    )
    completeness = Completeness(step, completeness_lag_ms(settings), drained)
    retention_ms = settings.log_retention_days * DAY_MS
    bounds = FlushBounds(settings.flush_interval_ms, settings.flush_events, settings.flush_bytes)
    chosen = "open_slices_bytes" in settings.model_fields_set
    each = 0 if chosen else OPEN_SLICES_PARTITION_BYTES
    intervals = Intervals(bounds, retention_ms, settings.open_slices_bytes, each)
    return step, Housekeeping(step, completeness, intervals, _retention(settings, opened))


def _retention(settings: Settings, opened: Opened) -> Retention:
    """What drops old periods. What detects duplicates is kept as long as events are, and longer
    than the horizon.
    """
    events, refusals = settings.keep_events_days, settings.keep_refusals_days
    seen = None if events is None else max(events, settings.horizon_days + SEEN_MARGIN_DAYS)
    minutes = settings.keep_minutes_days
    terms = RetentionTerms(*map(_kept_ms, (events, refusals, seen, minutes)))
    rows = ClickHousePeriods(opened.connection.lane(UPKEEP))
    periods = CheckedPeriods(rows, opened.integrity)
    return Retention(periods, SqlRetention(opened.database), terms, opened.log.number)


def _kept_ms(days: int | None) -> int | None:
    """None: for ever."""
    return None if days is None else days * DAY_MS


@dataclass(frozen=True, slots=True)
class Counting:
    """The shell that drives counting, its step, and whether it gets on."""

    worker: Worker
    step: Aggregator
    standing: Standing
    seen_cached: Callable[[], int]  # bytes in the cache of its seen stores

    async def check(self) -> None:
        """For `/readyz`. Raises `Unavailable` where a partition stands still."""
        self.standing.check(CLOCK.passed_s())


def aggregation_worker(
    settings: Settings, opened: Opened, drained: InboxDrained | None
) -> Counting:
    """The shell that drives counting: a poll loop embedded, Faust on Kafka."""
    step, housekeeping = aggregator(settings, opened, drained)
    rows = _block_rows(opened)
    maker = BlockMaker(
        opened.log.number,
        opened.log.partitions,
        SqlBlockLedger(opened.database),
        rows,
        opened.stores.catalogue,
        CLOCK,
        random.Random(),  # noqa: S311 - it tells numbers of one millisecond apart
    )
    timeout_s = max(settings.usage_timeout_s, settings.control_timeout_s)
    standing = Standing(max(STALLED_AFTER_S, 2 * timeout_s))
    driver = _driver(settings, opened.log, step, housekeeping, standing)
    eraser, revisions = _eraser(settings, opened), _dropped_revisions(settings, opened, rows)

    async def before() -> None:
        maker.partitions = opened.log.partitions
        await eraser.turn()
        await revisions.turn()

    def rests() -> int:
        return housekeeping.rests(CLOCK.now_ms())

    counted = BesideCounting(lambda: 0 in step.partitions, before, rests, lambda: step.is_sealing)
    worker = WithBlocks(driver, maker, counted)
    return Counting(worker, step, standing, partial(cached_bytes, settings.seen_cache_bytes))


def _block_rows(opened: Opened) -> BlockRows:
    """What makes and recounts blocks."""
    masks = Masks(SqlErasureStore(opened.database))
    unsealed = Unsealed(SqlRevisionLedger(opened.database))
    rows = ClickHouseBlockRows(opened.connection, masks, unsealed=unsealed)
    return CheckedBlockRows(rows, opened.integrity)


def _dropped_revisions(settings: Settings, opened: Opened, rows: BlockRows) -> DroppedRevisions:
    """What drops rows of revisions that nothing asks for."""
    database = opened.database
    stores = RevisionStores(
        SqlRevisionLedger(database),
        SqlRetention(database),
        SqlErasureStore(database),
        CheckedRevisionRows(
            ClickHouseRevisionRows(opened.connection), opened.integrity, CLOCK.passed_s
        ),
        SqlBlockLedger(database),
        rows,
    )
    kept_ms = _kept_ms(settings.keep_superseded_days)
    chance = random.Random()  # noqa: S311 - as above
    return DroppedRevisions(stores, opened.log.number, kept_ms, CLOCK, chance)


def _eraser(settings: Settings, opened: Opened) -> Eraser:
    """What carries out erasures."""

    def renewed(erasure: Erasure) -> BlockRows:
        rows = ClickHouseBlockRows(opened.connection, erasure=erasure)
        return CheckedBlockRows(rows, opened.integrity)

    stores = ErasedStores(
        SqlErasureStore(opened.database),
        CheckedErasedRows(
            ClickHouseErasedRows(opened.connection), opened.integrity, CLOCK.passed_s
        ),
        SqlBlockLedger(opened.database),
        renewed,
        opened.log,
        opened.log.compact,
        settings.log_retention_days * DAY_MS,
        opened.stores.progress.layout,
    )
    return Eraser(stores, CLOCK, random.Random())  # noqa: S311 - as above


def _driver(
    settings: Settings,
    log: OpenLog,
    step: Aggregator,
    housekeeping: Housekeeping,
    standing: Standing,
) -> Worker:
    if isinstance(log, SqliteLog):
        return StuckGuard(PollWorker(step, housekeeping, CLOCK, log.news, standing), standing)
    # imported here: a second that embedded saves
    from aggregator.drivers.faust_worker import FaustWorker  # noqa: PLC0415
    from aggregator.drivers.membership import Membership  # noqa: PLC0415

    security = kafka_security(settings)
    datadir = settings.data_dir / "faust"
    datadir.mkdir(parents=True, exist_ok=True)  # Faust makes the last folder of it only

    def record_of(message: Any) -> Record:
        return kafka_record(
            message.partition,
            log.first_of(message.partition) + message.offset,
            round(message.timestamp * 1000),
            message.headers,
            message.value,
        )

    return FaustWorker(
        step,
        housekeeping,
        CLOCK,
        record_of,
        Membership(
            settings.consumer_group,
            settings.kafka_servers,
            settings.log_topic,
            str(datadir),
            settings.instance_id,
            security,
            AGGREGATOR,
        ),
        standing,
        partial(renew_password, security=security),
    )
