"""A run of 100,000 subjects: seconds until it is decided, and the memory of the process that does
it, over the embedded control store. Usage comes from memory, for its store has figures of its own.
"""

import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dispatcher.planner import PlanTerms, Sources, find_due, make_runs
from meterline.backends.spool import FileSpool
from meterline.backends.sql.catalogue import SqlCatalogueStore
from meterline.backends.sql.corrections import SqlCorrectionStore
from meterline.backends.sql.engine import Database, open_database
from meterline.backends.sql.migrate import migrate
from meterline.backends.sql.progress import SqlProgressStore
from meterline.backends.sql.report_bytes import SqlDeliveryBytes
from meterline.backends.sql.reports import SqlReportStore
from meterline.meter import Aggregation, Meter, MeterDraft
from meterline.number import UNIT
from meterline.report import Interval, Report, Schedule
from meterline.run import RunState
from meterline.usage import UsageQuery, UsageRow
from meterline.window import MINUTE_MS
from tests.bench.bench_aggregator import say
from tests.unit.dispatcher.conftest import LOG, START_MS, CellUsage

SUBJECTS = 100_000
END_MS = START_MS + MINUTE_MS


class ManySubjects(CellUsage):
    """Usage of so many subjects; made when asked for, as a store's answer is."""

    async def usage(self, query: UsageQuery) -> list[UsageRow]:
        self.asked.append(query)
        groups = (("model", "small"),)
        return [
            UsageRow(START_MS, END_MS, f"customer-{n:06}", groups, n * UNIT + 1, 1, 0)
            for n in range(SUBJECTS)
        ]


async def prepared(database: Database) -> tuple[Sources, Meter, Report]:
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
    corrections, kept = SqlCorrectionStore(database), SqlDeliveryBytes(database)
    return (
        Sources(reports, catalogue, progress, ManySubjects(), corrections, kept, FileSpool),
        meter,
        report,
    )


async def materialize(folder: Path) -> None:
    """Make the run, and print what it took."""
    database = open_database(f"sqlite:///{folder / 'control.db'}")
    sources, _, report = await prepared(database)
    await find_due(sources.reports, END_MS, 1)
    before = time.perf_counter()
    made = await make_runs(sources, PlanTerms(LOG, 1), lambda: END_MS, "h")
    seconds = time.perf_counter() - before
    (run,) = await sources.reports.runs(report.id, 1)
    assert made == 1
    assert run.state is RunState.DELIVERING
    assert run.manifest is not None
    assert run.manifest.deliveries == SUBJECTS
    await database.close()
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    say(f"materialize: {SUBJECTS:,} subjects in {seconds:.1f} s, {peak_mb:.0f} MB at most")


def main() -> None:
    """In a process of its own, so that the memory is that of this alone."""
    subprocess.run([sys.executable, "-m", "tests.bench.bench_materialize"], check=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        asyncio.run(materialize(Path(scratch)))
