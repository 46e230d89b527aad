"""Large runs: seconds until they are decided, and the memory of the process that does it, over the
embedded control store. Usage is made up as it is asked for, for its store has figures of its own.

`python -m tests.bench.bench_materialize SUBJECTS EACH LARGEST` makes one run: so many subjects with
so many entries each, and one more with LARGEST entries, which may be too large for a body.
"""

import argparse
import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from dispatcher.runs.planner import PlanTerms, Sources, find_due, make_runs
from meterline.backends.control_store.engine import Database, open_database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.migrate import migrate
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.backends.control_store.report_store import SqlReportStore
from meterline.backends.control_store.reports.corrections import SqlCorrectionStore
from meterline.backends.spool import FileSpool
from meterline.meter import Aggregation, Meter, MeterDraft
from meterline.number import UNIT
from meterline.report import Interval, Report, Schedule
from meterline.usage import UsageQuery, UsageRow
from meterline.window import MINUTE_MS
from tests.bench.bench_aggregator import say
from tests.unit.dispatcher.conftest import LOG, START_MS, CellUsage

END_MS = START_MS + MINUTE_MS


class Shape(NamedTuple):
    """Of a run: so many subjects with so many entries each, and one with `largest` entries."""

    subjects: int
    each: int
    largest: int = 0

    @property
    def entries(self) -> int:
        return self.subjects * self.each + self.largest


SHAPES: Final = (
    Shape(0, 1, 1),  # what the process takes by itself
    Shape(100_000, 1),
    Shape(100_000, 15),
    Shape(1_000, 15, 1_485_000),
)


class MadeUp(CellUsage):
    """Usage of a shape; made when asked for, as a store's answer is."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self._shape = shape

    async def usage_by_subject(
        self, query: UsageQuery, rows_max: int
    ) -> AsyncIterator[list[UsageRow]]:
        self.asked.append(query)
        rows = self._rows()
        while portion := list(islice(rows, rows_max)):
            yield portion

    def _rows(self) -> Iterator[UsageRow]:
        for number in range(self._shape.subjects):
            yield from _entries(f"customer-{number:06}", self._shape.each)
        yield from _entries("the-largest", self._shape.largest)


def _entries(subject: str, number: int) -> Iterator[UsageRow]:
    for one in range(number):
        groups = (("model", f"model-{one:07}"),)
        yield UsageRow(START_MS, END_MS, subject, groups, one * UNIT + 1, 1, 0)


async def prepared(database: Database, shape: Shape) -> tuple[Sources, Meter, Report]:
    """A store with one report whose first window is complete."""
    await migrate(database)
    catalogue, progress = SqlCatalogueStore(database), SqlProgressStore(database)
    dimensions = (("model", "$.model"),)
    draft = MeterDraft("tokens", "T", Aggregation.SUM, "p", "$.tokens", dimensions=dimensions)
    meter = await catalogue.create_meter("default", draft, START_MS)
    schedule = Schedule(Interval.MINUTE, START_MS)
    url = "https://example.com/hook"
    report = Report(
        "01R", "default", "r", meter.id, schedule, ("model",), url, b"s", START_MS, START_MS
    )
    reports = SqlReportStore(database)
    await reports.create_report(report, START_MS)
    await progress.complete(LOG, meter.revision, {0: END_MS + 2 * MINUTE_MS})
    corrections, kept = SqlCorrectionStore(database), SqlReportStore(database)
    return (
        Sources(reports, catalogue, progress, MadeUp(shape), corrections, kept, FileSpool),
        meter,
        report,
    )


async def materialize(folder: Path, shape: Shape) -> None:
    """Make the run, and print what it took."""
    database = open_database(f"sqlite:///{folder / 'control.db'}")
    sources, _, report = await prepared(database, shape)
    await find_due(sources.reports, END_MS, 1)
    before = time.perf_counter()
    made = await make_runs(sources, PlanTerms(LOG, 1), lambda: END_MS, "h")
    seconds = time.perf_counter() - before
    (run,) = await sources.reports.runs(report.id, 1)
    assert made == 1
    assert run.manifest is not None
    assert run.manifest.deliveries == shape.subjects + bool(shape.largest)
    (last,) = await sources.reports.deliveries(run.id, 1, run.manifest.deliveries - 1)
    await database.close()
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    say(
        f"materialize: {shape.entries:,} entries of {run.manifest.deliveries:,} subjects in"
        f" {seconds:.1f} s, {peak_mb:.0f} MB at most; the run is {run.state}"
    )
    if last.failure is not None:
        say(f"  {last.subject}: {last.state}, {last.failure}")


def main() -> None:
    """Each in a process of its own, so that the memory is that of this alone."""
    for shape in SHAPES:
        words = [sys.executable, "-m", "tests.bench.bench_materialize", *map(str, shape)]
        subprocess.run(words, check=True)


def asked() -> Shape:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bench_materialize")
    for name in Shape._fields:
        parser.add_argument(name, type=int)
    return Shape(**vars(parser.parse_args()))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        asyncio.run(materialize(Path(scratch), asked()))
