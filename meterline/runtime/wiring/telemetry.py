"""What a process measures: its recorder, what is looked at when its metrics are scraped, its
traces.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version

from aggregator.drivers.standing import Standing
from aggregator.step import Aggregator
from control.health import Health
from control.v3.installation.backfill import backfill_of
from control.v3.installation.lag import uncounted
from ingest.publisher import Publisher
from meterline.backends.control_store.reports.backlog import SqlBacklogStore
from meterline.backends.telemetry.prometheus import PrometheusRecorder
from meterline.http.scrape import Scrape
from meterline.limits import NEWER_METERS_WITHIN_MS, RUNS_LATE_MS
from meterline.ports import UNTRACED, Clock, Tracer, Unsuitable, metrics
from meterline.runtime.settings.reading import Settings
from meterline.runtime.wiring.adapters import CLOCK, Opened
from meterline.runtime.workers.families import Families, exposition, plain
from meterline.runtime.workers.worker import Worker
from meterline.usage import Filling


@dataclass(slots=True)
class Telemetry:
    """The metrics and traces of one process."""

    recorder: PrometheusRecorder
    scrape: Scrape
    tracer: Tracer = UNTRACED
    clock: Clock = CLOCK
    complete_until_ms: int | None = field(default=None, init=False)  # as was last known

    def of_gateway(self, publisher: Publisher) -> None:
        """What a gateway knows of itself."""

        def glance() -> None:
            self.recorder.set(metrics.PENDING_BYTES, publisher.pending_bytes)

        self.scrape.glances.append(glance)

    def of_counting(
        self, step: Aggregator, standing: Standing, seen_cached: Callable[[], int]
    ) -> None:
        """What an aggregator knows of itself. `seen_cached` are the bytes in the cache of its seen
        stores.
        """
        step.traces.tracer = self.tracer

        def glance() -> None:
            held = list(step.partitions.values())
            slices = [one.slice for one in held if one.slice is not None]
            begun_ms = [one.begun_ms for one in slices if one.border.events]
            age_ms = max(0, self.clock.now_ms() - min(begun_ms)) if begun_ms else 0
            self.recorder.set(metrics.PARTITIONS_HELD, len(held))
            lacking = list(step.catching_up.values())
            self.recorder.set(metrics.CATCH_UP_PARTITIONS, len(lacking))
            left = sum(max(0, one.keys_total - one.keys) for one in lacking)
            self.recorder.set(metrics.CATCH_UP_KEYS, left)
            self.recorder.set(metrics.OPEN_CELLS, sum(one.cells for one in slices))
            self.recorder.set(metrics.OPEN_BYTES, sum(one.held_bytes for one in slices))
            self.recorder.set(metrics.SEEN_CACHE_BYTES, seen_cached())
            self.recorder.set(metrics.SEAL_AGE, age_ms / 1_000)
            now_s = asyncio.get_running_loop().time()
            self.recorder.set(metrics.STALLED_SECONDS, standing.longest_s(now_s))

        self.scrape.glances.append(glance)

    def of_progress(self, opened: Opened) -> None:
        """How far the whole installation is, by its stores."""
        self.scrape.looks.append(partial(_look_at_progress, self, opened))

        def glance() -> None:
            # While no store answers, what was last known grows older: that is the truth.
            if self.complete_until_ms is not None:
                age_ms = max(0, self.clock.now_ms() - self.complete_until_ms)
                self.recorder.set(metrics.FRESHNESS_SECONDS, age_ms / 1_000)

        self.scrape.glances.append(glance)

    def of_reports(self, opened: Opened) -> None:
        """What the whole installation has still to report."""
        store, recorder = SqlBacklogStore(opened.database), self.recorder

        async def look() -> None:
            gauges = (metrics.RUNS_DUE, metrics.RUNS_LATE, metrics.OWED, metrics.ENDPOINTS_OUT)
            for gauge in (*gauges, metrics.OWED_SECONDS):
                recorder.set(gauge, None)
            now_ms = self.clock.now_ms()
            it = await store.backlog(now_ms, now_ms - RUNS_LATE_MS)
            values = (it.runs_due, it.runs_late, it.owed, it.endpoints_out)
            for gauge, value in zip(gauges, values, strict=True):
                recorder.set(gauge, value)
            since_ms = now_ms if it.owed_since_ms is None else it.owed_since_ms
            recorder.set(metrics.OWED_SECONDS, max(0, now_ms - since_ms) / 1_000)

        self.scrape.looks.append(look)

    def of_health(self, health: Health) -> None:
        """Whether the process is ready. A store that hangs fails no statement for a minute: here it
        shows sooner.
        """

        async def look() -> None:
            silent = await health.silent()
            self.recorder.set(metrics.READY, 0 if silent else 1)
            for part in {it.part for it in silent if it.timed_out} & metrics.STORES:
                self.recorder.count(metrics.STORE_ERRORS, 1, part)

        self.scrape.looks.append(look)


async def _look_at_progress(telemetry: Telemetry, opened: Opened) -> None:
    """Ends are asked before what was counted: a lag is never values too small."""
    recorder, stores = telemetry.recorder, opened.stores
    log, progress, numbers = stores.log, stores.progress, range(stores.log.partitions)
    for number in numbers:  # what does not answer now is not known any more
        recorder.set(metrics.LAG_RECORDS, None, str(number))
        recorder.set(metrics.LAG_SECONDS, None, str(number))
    for gauge in (
        metrics.BACKFILL_SLICES,
        metrics.BACKFILL_EVENTS,
        metrics.BACKFILL_SECONDS,
        metrics.DIFFERING_SLICES,
    ):
        recorder.set(gauge, None)
    recorder.set(metrics.DIFFERING_SLICES, await progress.differing_slices())
    try:
        begins = await asyncio.gather(*(log.begin(number) for number in numbers))
        ends = await asyncio.gather(*(log.end(number) for number in numbers))
    except Exception:
        recorder.count(metrics.STORE_ERRORS, 1, "log")
        raise
    # by any catalogue: open slices take a new meter in, and lag behind nothing meanwhile
    flushed = await progress.flushed_ends(log.number, 0)
    until_ms = await progress.completions(log.number, 0)
    now_ms = telemetry.clock.now_ms()
    for number in numbers:
        behind = uncounted(begins[number], ends[number], flushed.get(number, 0))
        recorder.set(metrics.LAG_RECORDS, behind, str(number))
        since_ms = until_ms.get(number)
        age_ms: int | None = 0
        if behind:
            age_ms = None if since_ms is None else max(0, now_ms - since_ms)
        seconds = None if age_ms is None else age_ms / 1_000
        recorder.set(metrics.LAG_SECONDS, seconds, str(number))
    waited_for = await stores.catalogue.newest_in_force(now_ms - NEWER_METERS_WITHIN_MS)
    claims_ms = await progress.completions(log.number, waited_for)
    if len(claims_ms) >= len(numbers):
        telemetry.complete_until_ms = min(claims_ms.values())
    _tell_backfill(recorder, await progress.fillings(log.number), now_ms)


def _tell_backfill(recorder: PrometheusRecorder, fillings: Sequence[Filling], now_ms: int) -> None:
    going = backfill_of(fillings, now_ms)
    end_ms: int | None = now_ms  # None: not known yet
    if going is not None:
        end_ms = going.expected_end_ms
    slices = 0 if going is None else going.slices - going.slices_filled
    events = 0 if going is None else going.events - going.events_filled
    recorder.set(metrics.BACKFILL_SLICES, slices)
    recorder.set(metrics.BACKFILL_EVENTS, events)
    recorder.set(metrics.BACKFILL_SECONDS, None if end_ms is None else (end_ms - now_ms) / 1_000)


def telemetry(settings: Settings, role: str, stack: AsyncExitStack) -> Telemetry:
    """The metrics of a process of this role, and its traces: these are sent until the stack is
    closed. Raises `Unsuitable` where they are on and cannot be sent.
    """
    recorder = PrometheusRecorder(role)
    setup = "distributed" if settings.kafka_servers else "embedded"
    recorder.set(metrics.BUILD_INFO, 1, version("meterline"), role, setup)
    tracer = _tracer(settings, role, recorder, stack)
    return Telemetry(recorder, Scrape(recorder.exposition), tracer)


def _tracer(
    settings: Settings, role: str, recorder: PrometheusRecorder, stack: AsyncExitStack
) -> Tracer:
    if settings.traces_url is None:
        return UNTRACED
    try:  # imported here: a process without traces loads none of it
        from meterline.backends.telemetry.otlp import OtlpTracer, exporter_to  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise Unsuitable(
            "traces_url is set, but the packages of OpenTelemetry are not installed. Install"
            " meterline[traces], or remove traces_url"
        ) from error
    resource = {"service.name": f"meterline-{role}", "service.version": version("meterline")}
    exporter = exporter_to(settings.traces_url)
    tracer = OtlpTracer(exporter, settings.traces_ratio, resource, recorder)
    stack.push_async_callback(asyncio.to_thread, tracer.close)
    return tracer if tracer.on else UNTRACED


def joined(stack: AsyncExitStack, worker: Worker, measured: Telemetry, stop: asyncio.Event) -> None:
    """Scrapes of this worker show what all workers measure. It listens to its parent until the
    stack is closed.
    """
    registry = measured.recorder.registry

    async def own() -> Families:
        await measured.scrape.refresh()
        return await asyncio.to_thread(plain, registry)

    async def of_all(accept: str) -> tuple[bytes, str]:
        everything = await worker.all_measured(await asyncio.to_thread(plain, registry))
        return await asyncio.to_thread(exposition, everything, accept)

    measured.scrape.exposition = of_all
    listening = asyncio.create_task(worker.listen(stop, own))
    stack.callback(listening.cancel)
