"""A log, embedded stores and dispatchers that may die at any effect: where late usage is tested."""

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import msgspec
from sqlalchemy import text

from aggregator.step import Aggregator
from dispatcher.runs.failing import Unread
from dispatcher.runs.late import LateSources, LateTerms, glance, look, revise
from dispatcher.runs.planner import PlanTerms, Sources, find_due, make_runs
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.control_store.engine import Database, open_database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.backends.control_store.report_store import SqlReportStore
from meterline.backends.control_store.reports.corrections import SqlCorrectionStore
from meterline.backends.control_store.reports.late import SqlLateStore
from meterline.backends.rocksdb import RocksSeenStore
from meterline.backends.spool import FileSpool
from meterline.backends.sqlite_log import SqliteLog, open_sqlite_log
from meterline.event import encode_pack, identity_key, partition_of
from meterline.limits import SLICE_SPAN_MS
from meterline.meter import Aggregation, Meter, MeterDraft
from meterline.ports import Unavailable
from meterline.report import (
    Interval,
    Report,
    ReportFilter,
    Revisions,
    Run,
    RunState,
    Schedule,
    StartTerms,
)
from meterline.usage import UsageQuery, UsageRow, UsageStore
from meterline.window import HOUR_MS, MINUTE_MS, rfc3339_ms
from tests.unit.aggregator.world import Deadly, Hands, Killed, sealed, taken_on

PARTITIONS: Final = 2
HORIZON_MS: Final = 35 * 86_400_000
START_MS: Final = 1_767_225_617_123  # 2026-01-01T00:00:17.123Z: windows may start at any instant
Cell = tuple[str, str, int]  # subject, model, start of the window

Fate = Callable[[], str]


def well() -> str:
    return "well"


class Overtaken:
    """A `UsageStore` as far as the planner asks it: after its answer something else goes on."""

    def __init__(self, usage: UsageStore, then: Callable[[], Awaitable[None]]) -> None:
        self._usage = usage
        self._then = then

    async def usage_by_subject(
        self, query: UsageQuery, rows_max: int
    ) -> AsyncIterator[list[UsageRow]]:
        async for rows in self._usage.usage_by_subject(query, rows_max):
            yield rows
        await self._then()

    async def usage_sum(self, query: UsageQuery) -> tuple[int, int]:
        return await self._usage.usage_sum(query)


@dataclass
class LateWorld:
    """Stores that outlive dispatchers, and what was sent."""

    folder: Path
    log: SqliteLog
    clock: Hands
    usage: ClickHouseUsageStore
    database: Database
    meter: Meter
    holders: int = 0
    pause_ms: int = HOUR_MS
    worker: Aggregator = field(init=False)
    sent: list[tuple[str, str, int, int]] = field(default_factory=list)
    names: int = 0
    meanwhile: Callable[[], Awaitable[None]] | None = None  # done once, while a run is made

    def __post_init__(self) -> None:
        self.reports = SqlReportStore(self.database)
        self.progress = SqlProgressStore(self.database)
        self.catalogue = SqlCatalogueStore(self.database)
        self.corrections = SqlCorrectionStore(self.database)
        self.late = SqlLateStore(self.database)
        self.events = self.usage
        self.worker = Aggregator(
            self.log,
            self.usage,
            self.progress,
            self.catalogue,
            lambda number: RocksSeenStore(self.folder / "seen" / str(number), HORIZON_MS),
            HORIZON_MS,
        )

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    async def send(self, *events: tuple[str, str, int, int]) -> None:
        """Events of (subject, model, instant, value)."""
        packs: dict[int, list[bytes]] = {}
        for subject, model, at_ms, value in events:
            self.names += 1
            name = f"e{self.names}"
            document = {
                "specversion": "1.0",
                "id": name,
                "source": "s",
                "type": self.meter.event_type,
                "subject": subject,
                "time": rfc3339_ms(at_ms),
                "data": {"tokens": value, "model": model},
                "namespace": "default",
                "recordedtime": rfc3339_ms(self.now_ms),
            }
            number = partition_of(identity_key("default", "s", name), PARTITIONS)
            packs.setdefault(number, []).append(msgspec.json.encode(document))
        for number, texts in packs.items():
            await self.log.append(number, encode_pack(texts))
        self.sent += events

    async def count(self, *, seal: bool = True) -> None:
        """All that was sent is counted, and complete up to now; with `seal` its slices end."""
        await taken_on(self.worker)
        for number in range(PARTITIONS):
            partition = await self.worker.open(number)
            while await self.worker.read_some(number):
                pass
            if seal and partition.slice is not None and partition.slice.border.events:
                self.clock.at_ms += SLICE_SPAN_MS
                await self.log.append(number, encode_pack([]))
                await self.worker.read_some(number)
        await self.worker.flush()
        await sealed(self.worker)
        until_ms = dict.fromkeys(range(PARTITIONS), self.now_ms)
        await self.progress.complete(self.log.number, self.worker.catalogue.version, until_ms)

    async def report(
        self, revisions: Revisions = Revisions.RECORD, filter_: ReportFilter | None = None
    ) -> Report:
        """A report by the hour, from `START_MS`."""
        made = Report(
            id="01R",
            namespace="default",
            slug="hourly",
            meter_id=self.meter.id,
            schedule=Schedule(Interval.HOUR, START_MS),
            group_by=("model",),
            endpoint="https://example.com/hook",
            signing_secret_sealed=b"",
            created_at_ms=START_MS,
            updated_at_ms=START_MS,
            filter=filter_ or ReportFilter(),
            revisions=revisions,
        )
        await self.reports.create_report(made, START_MS)
        return made

    async def looked_at(self) -> int:
        """What another dispatcher does meanwhile: it looks at all that is sealed."""
        terms = LateTerms(self.log.number, PARTITIONS, settle_ms=0, pause_ms=self.pause_ms)
        return await look(self.sources()[1], terms, self.now_ms)

    def sources(self, fate: Fate = well) -> tuple[Sources, LateSources]:
        """The stores as one dispatcher has them."""
        reports, catalogue, progress, usage, corrections, late, events = (
            Deadly(port, fate)
            for port in (
                self.reports,
                self.catalogue,
                self.progress,
                self.usage,
                self.corrections,
                self.late,
                self.events,
            )
        )
        ports: Any = (reports, catalogue, progress, usage, corrections, None, FileSpool)
        found: Any = (late, events, catalogue, progress)
        return Sources(*ports), LateSources(*found)

    async def plan(self, fate: Fate = well) -> int:
        """One turn of a dispatcher: due runs, late usage, runs that are made; how much it did."""
        sources, late = self.sources(fate)
        if self.meanwhile is not None:
            sources = replace(sources, usage=Overtaken(self.usage, self.meanwhile))
            self.meanwhile = None
        number, now_ms = self.log.number, self.now_ms
        terms = LateTerms(number, PARTITIONS, settle_ms=0, pause_ms=self.pause_ms)
        did = await find_due(sources.reports, now_ms, 1_000)
        did += await look(late, terms, now_ms)
        did += await revise(late.late, terms, now_ms, Unread())
        self.holders += 1
        plan_terms = PlanTerms(number, PARTITIONS, StartTerms(0))
        holder = f"h{self.holders}"
        return did + await make_runs(sources, plan_terms, lambda: self.now_ms, holder)

    async def glance(self, glanced: dict[int, int] | None = None) -> dict[int, int]:
        """Look at open slices, too."""
        terms = LateTerms(self.log.number, PARTITIONS, settle_ms=0, pause_ms=self.pause_ms)
        return await glance(self.sources()[1], terms, glanced or {}, self.now_ms)

    async def plan_all(self) -> None:
        """Turns until there is nothing to do."""
        while await self.plan():
            pass

    async def plan_through(self, fate: Fate) -> None:
        """A turn in which the dispatcher may die or fail anywhere."""
        try:
            await self.plan(fate)
        except (Killed, Unavailable):
            self.clock.at_ms += 121_000  # its lease runs out

    async def runs(self) -> list[Run]:
        """All runs, the oldest window first and by revision."""
        found = await self.reports.runs("01R", 1_000)
        return sorted(found, key=lambda run: (run.from_ms, run.revision))

    def counted(self, from_ms: int, to_ms: int) -> dict[tuple[str, str], int]:
        """By subject and model: recounted from what was sent."""
        sums: dict[tuple[str, str], int] = {}
        for subject, model, at_ms, value in self.sent:
            if from_ms <= at_ms < to_ms:
                sums[subject, model] = sums.get((subject, model), 0) + value
        return sums

    async def held(self, from_ms: int, to_ms: int) -> dict[tuple[str, str], int]:
        """What a receiver holds of a window that applied every delivery of it, in whole numbers."""
        held: dict[str, dict[tuple[str, str], int]] = {}
        for run in await self.runs():
            if (run.from_ms, run.to_ms) != (from_ms, to_ms):
                continue
            for one in await self.reports.deliveries(run.id, 1_000):
                body = await self.reports.delivery_body("default", one.id)
                assert body is not None
                usage = msgspec.json.decode(body)["usage"]
                held[one.subject] = {
                    (it["subject"], it["groupBy"]["model"]): int(Decimal(it["valueText"]))
                    for it in usage
                }
        return {key: value for entries in held.values() for key, value in entries.items()}

    async def corrected(self, run: Run) -> dict[tuple[str, str], tuple[int | None, int | None]]:
        """Old and new by subject and model, in whole numbers."""
        found: dict[tuple[str, str], tuple[int | None, int | None]] = {}
        listed = await self.corrections.corrections(run.id, 1_000)
        assert [one.number for one in listed] == list(range(1, len(listed) + 1))
        for one in (it.correction for it in listed):
            old, new = (None if v is None else v // 10**18 for v in (one.old, one.new))
            key = (one.subject, dict(one.groups)["model"])
            assert key not in found, "an entry is corrected once"
            found[key] = (old, new)
        return found

    async def check(self, hours: int) -> None:
        """Whatever happened: what the receiver holds, with the corrections of the newest revision
        that nobody sent, is the recount; and nothing else is corrected.
        """
        runs = await self.runs()
        assert all(run.state not in (RunState.WAITING, RunState.MATERIALIZING) for run in runs)
        for hour in range(hours):
            window = (START_MS + hour * HOUR_MS, START_MS + (hour + 1) * HOUR_MS)
            of_window = [run for run in runs if (run.from_ms, run.to_ms) == window]
            newest = of_window[-1]
            assert [run.revision for run in of_window] == list(range(1, len(of_window) + 1))
            held = await self.held(*window)
            expected = self.counted(*window)
            corrected = await self.corrected(newest) if newest.state is RunState.RECORDED else {}
            owed = {
                key: (held.get(key), expected.get(key))
                for key in held.keys() | expected.keys()
                if held.get(key) != expected.get(key)
            }
            assert corrected == owed, f"hour {hour}"


@asynccontextmanager
async def opened(
    folder: Path, usage: ClickHouseUsageStore, migrated: Path, fresh_numbers: Iterator[int]
) -> AsyncIterator[LateWorld]:
    """A world with one meter and no report, over a store that has its tables."""
    clock = Hands()
    clock.at_ms = START_MS
    log = open_sqlite_log(folder / "log", PARTITIONS, clock)
    log.number = next(fresh_numbers)
    shutil.copy(migrated, folder / "control.db")
    database = open_database(f"sqlite:///{folder / 'control.db'}")
    version = next(fresh_numbers) * 1_000  # others count in the same usage store
    await database.write(
        lambda connection: connection.execute(
            text(f"UPDATE catalogue_version SET version = {version}")
        )
    )
    draft = MeterDraft(
        "tokens",
        "Tokens",
        Aggregation.SUM,
        f"prompt{log.number}",  # others send to the same usage store
        "$.tokens",
        dimensions=(("model", "$.model"),),
    )
    meter = await SqlCatalogueStore(database).create_meter("default", draft, START_MS)
    world = LateWorld(folder, log, clock, usage, database, meter)
    yield world
    await world.worker.close_all()
    await log.close()
    await database.close()


def minutes(count: int) -> int:
    """Minutes as milliseconds."""
    return count * MINUTE_MS
