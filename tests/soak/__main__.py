"""`python -m tests.soak`: an hour at half of the top rate, with metrics and traces on. Memory, file
handles and lag stay as they are, and nothing is lost.

On both set-ups: one `meterline up`, and the roles as processes on servers of their own. Events come
with copies and late ones, meters come and go, a report is delivered every minute. Samples, a
picture and a table are left in a folder. Exits with 1 where anything does not hold.
"""

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.faults.day_delivery import Delivery
from tests.faults.day_events import Day
from tests.faults.day_totals import audited, compared
from tests.faults.own_servers import own_servers
from tests.journey.receiver import Mailbox, receiving
from tests.journey.setups import LOOPBACK, Servers, SetUp, distributed, embedded, started, telling
from tests.soak import judging
from tests.soak.judging import MEGABYTE, Judged, warm_s
from tests.soak.load import Changes, follow, make_meters, make_report, top_rate
from tests.soak.plot import Chart, svg
from tests.soak.sampling import (
    COUNTED,
    FRESHNESS,
    LAG,
    LAG_S,
    OF_PROCESSES,
    SENT,
    WHOLE,
    Sampler,
    Series,
    sampling,
)
from tests.traced.collector import Collector, collecting

RESIDENT, HANDLES, THREADS, CPU_S, DISK = OF_PROCESSES
SHARE: Final = 0.5  # of the top rate
BATCH: Final = 200  # events of a request
SETUPS: Final = ("embedded", "servers")
AGGREGATOR_BYTES_MAX: Final = 700 * MEGABYTE
COUNTED_WITHIN_S: Final = 300.0
LOOK_S: Final = 1.0
SAID_EVERY_S: Final = 60.0  # where there is no terminal


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked for."""

    minutes: float
    rate: float | None
    partitions: int
    aggregators: int
    batch: int
    seed: int
    out: Path


@dataclass(frozen=True, slots=True)
class Lived:
    """What came of a run."""

    series: Series
    differences: list[str]
    box: Mailbox
    changes: Changes


def main() -> None:
    """See the module."""
    plan, setups = _asked()
    console = Console(width=None if sys.stdout.isatty() else 120)
    plan.out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in setups:
        with ExitStack() as stack:
            made = tempfile.TemporaryDirectory(prefix="meterline-soak-")
            folder, servers = Path(stack.enter_context(made)), None
            if name == "servers":
                own = stack.enter_context(own_servers())
                servers = Servers(own.kafka.url, own.clickhouse.url, own.postgres.url)
            collector = stack.enter_context(collecting())
            failed += _soaked(name, plan, _Maker(folder, servers, plan, collector), console)
    if failed:
        sys.exit(f"{failed} claims do not hold")


def _asked() -> tuple[Plan, list[str]]:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--only", choices=SETUPS, help="one of both")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, help="events a second; else half of the top rate")
    parser.add_argument("--partitions", type=int, default=16, help="on servers")
    parser.add_argument("--aggregators", type=int, choices=(1, 2), default=1, help="on servers")
    parser.add_argument("--batch", type=int, default=BATCH, help="events of a request")
    parser.add_argument("--seed", type=int, default=20_261_126)
    parser.add_argument("--out", type=Path, default=Path("dist/soak"))
    given = vars(parser.parse_args())
    only = given.pop("only")
    return Plan(**given), [only] if only else list(SETUPS)


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes installations of one kind, each in a folder of its own."""

    folder: Path
    servers: Servers | None
    plan: Plan
    collector: Collector

    def made(self, name: str) -> SetUp:
        """A new one, not started. Embedded it has as many partitions as it comes with."""
        folder = self.folder / name
        folder.mkdir()
        more = {"METERLINE_TRACES_URL": self.collector.url}
        if self.servers is None:
            return embedded(folder, {**more, "METERLINE_WEBHOOK_NETWORKS_ALLOWED": LOOPBACK})
        more["METERLINE_PARTITIONS"] = str(self.plan.partitions)
        setup = distributed(folder, self.servers, more)
        left_out = {f"aggregate-{n}" for n in (1, 2) if n > self.plan.aggregators}
        kept = {name: it for name, it in setup.processes.items() if name not in left_out}
        return replace(setup, processes=kept)


def _soaked(name: str, plan: Plan, maker: _Maker, console: Console) -> int:
    """One set-up, from its top rate to the table; how many claims do not hold."""
    rate = plan.rate
    if rate is None:
        top = top_rate(maker.made("top"), plan.seed, plan.batch)
        rate = SHARE * top
        console.print(f"{name}: the top rate is {top:,.0f} events/s", highlight=False)
    events = int(rate * plan.minutes * 60)
    words = f"{name}: {events:,} events at {rate:,.0f} events/s, {plan.minutes:g} minutes"
    console.print(words, highlight=False)
    setup, series, from_s = maker.made("soak"), Series(), warm_s(plan.minutes * 60)
    try:
        with started(setup), telling(setup):
            lived = _lived(setup, plan, rate, series, console)
    finally:  # also of a run that was broken off
        series.write(plan.out / f"{name}.csv")
        picture = svg(_charts(series), words, from_s)
        (plan.out / f"{name}.svg").write_text(picture, encoding="utf-8")
    found = judged(lived, plan.minutes * 60, on_servers=maker.servers is not None)
    _show(console, name, series, found, from_s)
    return sum(not it.holds for it in found)


def _lived(setup: SetUp, plan: Plan, rate: float, series: Series, console: Console) -> Lived:
    """Load it for its time; then what was counted is compared and audited."""
    make_meters(setup.control)
    span_ms = int(plan.minutes * 60_000)
    day = Day(int(rate * span_ms / 1_000), plan.seed, int(time.time() * 1_000), span_ms)
    delivery = Delivery(day, [setup.ingest.url], rate, day.events, plan.batch)

    def told() -> dict[str, float]:
        return {SENT: delivery.acknowledged, COUNTED: delivery.counted}

    with receiving() as receiver:
        box = make_report(setup.control, receiver)
        sampler, changes = Sampler(setup, series, told), Changes(setup.control)
        with sampling(sampler), changes.going(), delivery.running():
            _followed(setup, delivery, sampler, console)
        _caught_up(setup, delivery)
        differences = [*changes.failures, *compared(setup.control, day)]
        differences += audited(setup.control, setup.folder, console)
    return Lived(sampler.series, differences, box, changes)


def _followed(setup: SetUp, delivery: Delivery, sampler: Sampler, console: Console) -> None:
    """Return when all is sent; show how far it is."""
    said_s = time.monotonic()
    with _bar(console) as bar:
        task = bar.add_task("", total=delivery.day.events, held="", behind=0)
        while delivery.acknowledged < delivery.day.events:
            assert not (words := delivery.failure or sampler.failure), words
            follow(setup.control, delivery)
            held = " ".join(
                f"{name} {sampler.series.last(RESIDENT, name) / MEGABYTE:,.0f}"
                for name in setup.processes
            )
            behind = delivery.acknowledged - delivery.counted
            bar.update(task, completed=delivery.acknowledged, held=held, behind=behind)
            if not console.is_terminal and time.monotonic() - said_s >= SAID_EVERY_S:
                said_s = time.monotonic()
                words = f"{delivery.acknowledged:,} sent, {behind:,} not counted; MB: {held}"
                console.print(words, highlight=False)
            time.sleep(LOOK_S)


def _caught_up(setup: SetUp, delivery: Delivery) -> None:
    ends_s = time.monotonic() + COUNTED_WITHIN_S
    while not follow(setup.control, delivery) or delivery.counted < delivery.day.events:
        assert time.monotonic() < ends_s, f"it stands still at {delivery.counted:,}"
        time.sleep(LOOK_S)


def judged(lived: Lived, run_s: float, *, on_servers: bool) -> list[Judged]:
    """Every claim about a run."""
    from_s, series = warm_s(run_s), lived.series
    resident = series.all(RESIDENT)
    found = [judging.memory_is_flat(name, it, from_s) for name, it in resident.items()]
    handles = series.all(HANDLES)
    found += [judging.handles_are_flat(name, it, from_s) for name, it in handles.items()]
    for name, points in resident.items():
        if on_servers and name.startswith("aggregate"):
            claim = f"memory of {name} is below {AGGREGATOR_BYTES_MAX / MEGABYTE:,.0f} MB"
            scaled = [(at_s, value / MEGABYTE) for at_s, value in points]
            most = AGGREGATOR_BYTES_MAX / MEGABYTE
            found.append(judging.stays_below(claim, scaled, 0.0, most, "MB"))
    for what in (LAG_S, FRESHNESS):
        points = series.of.get((what, WHOLE), [])
        claim = f"{what} are bounded"
        found.append(judging.stays_below(claim, points, from_s, judging.LAG_MAX_S, "s"))
    delivered, refused = len(lived.box.delivered), len(lived.box.refused)
    figures = f"{delivered:,} deliveries, {refused:,} refused; {lived.changes.made} meters made"
    found.append(Judged("reports arrive", delivered > 0 and not refused, figures))
    return [*found, judging.nothing_is_lost(lived.differences)]


def _charts(series: Series) -> list[Chart]:
    lag = {what: series.of.get((what, WHOLE), []) for what in (LAG_S, FRESHNESS)}
    return [
        Chart("resident memory, MB", series.all(RESIDENT), MEGABYTE),
        Chart("file handles", series.all(HANDLES)),
        Chart("threads", series.all(THREADS)),
        Chart("lag and freshness, seconds", lag),
        Chart("records of the log that are not counted", series.all(LAG)),
        Chart("disk of a process, MB", series.all(DISK), MEGABYTE),
        Chart("events, millions", {what: series.of[what, WHOLE] for what in (SENT, COUNTED)}, 1e6),
    ]


def _show(console: Console, name: str, series: Series, found: list[Judged], from_s: float) -> None:
    table = Table(title=f"{name}: every process, from {from_s / 60:g} minutes on")
    table.add_column("process")
    for head in ("MB", "then", "MB a million events", "handles", "then", "CPU", "disk MB"):
        table.add_column(head, justify="right")
    slopes = judging.slopes(series.all(RESIDENT), series.of[COUNTED, WHOLE], from_s)
    for process, points in series.all(RESIDENT).items():
        memory, handles = (
            judging.grown(of, from_s) for of in (points, series.of[HANDLES, process])
        )
        if memory is None or handles is None:
            continue
        share = series.last(CPU_S, process) / points[-1][0]
        table.add_row(
            process,
            f"{memory.before / MEGABYTE:,.0f}",
            f"{memory.after / MEGABYTE:,.0f}",
            f"{slopes.get(process, 0.0) / MEGABYTE:+.2f}",
            f"{handles.before:,.0f}",
            f"{handles.after:,.0f}",
            f"{share:.2f}",
            f"{series.last(DISK, process) / MEGABYTE:,.0f}",
        )
    console.print(table)
    for it in found:
        mark = "holds" if it.holds else "DOES NOT HOLD"
        console.print(f"{mark}: {it.claim}: {it.figures}", markup=False, highlight=False)


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.completed:,} of {task.total:,}"),
        BarColumn(20),
        TextColumn("{task.fields[behind]:,} not counted; MB: {task.fields[held]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


if __name__ == "__main__":
    main()
