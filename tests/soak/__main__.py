"""`python -m tests.soak`: an hour at half of the top rate, with metrics and traces on. Memory, file
handles and lag stay as they are, and nothing is lost.

On both set-ups: one `meterline up`, and the roles as processes on servers of their own. Events come
with copies and late ones, meters come and go, a report is delivered every minute. Samples, a
picture and what was printed are left in a folder. Exits with 1 where anything does not hold, or
the run broke off. It takes twenty minutes at least to tell whether memory is flat.
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

from meterline.limits import SEEN_CACHE_BYTES
from tests.faults.day_delivery import Delivery
from tests.faults.day_events import Day
from tests.faults.day_totals import audited, compared
from tests.faults.own_servers import own_servers
from tests.journey.receiver import Mailbox, receiving
from tests.journey.setups import LOOPBACK, Servers, SetUp, distributed, embedded, started, telling
from tests.progress_bar import progress_bar
from tests.services.local import spawned
from tests.services.service import ServiceError
from tests.soak import judging, report
from tests.soak.judging import MEGABYTE, Judged, Points, warm_s
from tests.soak.load import Changes, follow, make_meters, make_report, top_rate
from tests.soak.plot import svg
from tests.soak.sampling import (
    COUNTED,
    FRESHNESS,
    HANDLES,
    LAG_S,
    RESIDENT,
    SEEN_CACHE,
    SENT,
    STORE_FILES,
    WHOLE,
    Sampler,
    Series,
    sampling,
)
from tests.traced.collector import Collector, collecting

_SHOWN: Final = (
    "{task.completed:,} of {task.total:,}",
    "{task.fields[behind]:,} not counted; MB: {task.fields[held]}",
)
SHARE: Final = 0.5  # of the top rate
BATCH: Final = 200  # events of a request
SETUPS: Final = ("embedded", "servers")
AGGREGATOR_BYTES_MAX: Final = 700 * MEGABYTE
STORE_FILES_MAX: Final = 16 * 20  # partitions, and files of one at which writing waits for merges
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
    console = Console(width=None if sys.stdout.isatty() else 120, record=True)
    plan.out.mkdir(parents=True, exist_ok=True)
    verdicts = [_soaked_apart(name, plan, console) for name in setups]
    for verdict in verdicts:
        console.print(verdict.words, markup=False, highlight=False)
    (plan.out / "report.txt").write_text(console.export_text(), encoding="utf-8")
    if not all(verdict.holds for verdict in verdicts):
        sys.exit(1)


def _soaked_apart(name: str, plan: Plan, console: Console) -> report.Verdict:
    """One set-up, on servers and in a folder of its own. A run that breaks off has a verdict too,
    and the other set-up is still loaded.
    """
    try:
        with ExitStack() as stack:
            made = tempfile.TemporaryDirectory(prefix="meterline-soak-")
            folder, servers = Path(stack.enter_context(made)), None
            if name == "servers":
                own = stack.enter_context(own_servers())
                servers = Servers(own.kafka.url, own.clickhouse.url, own.postgres.url)
            collector = stack.enter_context(collecting())
            return _soaked(name, plan, _Maker(folder, servers, plan, collector), console)
    except (AssertionError, OSError, ServiceError) as error:
        words = "\n".join([str(error), *getattr(error, "__notes__", ())])
        return report.broke_off(name, words)


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
            more["METERLINE_WEBHOOK_NETWORKS_ALLOWED"] = LOOPBACK
            return embedded(folder, more, begin=spawned)
        more["METERLINE_PARTITIONS"] = str(self.plan.partitions)
        # A process that is forked holds what its parent has imported, for all roles.
        setup = distributed(folder, self.servers, more, begin=spawned)
        left_out = {f"aggregate-{n}" for n in (1, 2) if n > self.plan.aggregators}
        kept = {name: it for name, it in setup.processes.items() if name not in left_out}
        return replace(setup, processes=kept)


def _soaked(name: str, plan: Plan, maker: _Maker, console: Console) -> report.Verdict:
    """One set-up, from its top rate to the tables and the verdict."""
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
        picture = svg(report.charts(series), words, from_s)
        (plan.out / f"{name}.svg").write_text(picture, encoding="utf-8")
        console.print(report.minutes_table(name, series))
        console.print(report.processes_table(name, series, from_s))
    found = judged(lived, plan.minutes * 60, on_servers=maker.servers is not None)
    for line in report.claims(found):
        console.print(line, markup=False, highlight=False)
    return report.verdict(name, found, plan.minutes)


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
    with progress_bar(console, *_SHOWN) as bar:
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


def scaled_mb(points: Points) -> Points:
    """In MB, from bytes."""
    return [(at_s, value / MEGABYTE) for at_s, value in points]


def judged(lived: Lived, run_s: float, *, on_servers: bool) -> list[Judged]:
    """Every claim about a run."""
    from_s, series = warm_s(run_s), lived.series
    resident = series.all(RESIDENT)
    found = [judging.memory_is_flat(name, it, from_s) for name, it in resident.items()]
    for name, points in series.all(SEEN_CACHE).items():
        claim, scaled = f"the cache of seen stores of {name} is bounded", scaled_mb(points)
        most = SEEN_CACHE_BYTES / MEGABYTE
        found.append(judging.stays_below(claim, scaled, 0.0, most, "MB"))
    handles = series.all(HANDLES)
    found += [judging.handles_are_flat(name, it, from_s) for name, it in handles.items()]
    for name, points in series.all(STORE_FILES).items():
        claim = f"files of seen stores of {name} are bounded"
        found.append(judging.stays_below(claim, points, 0.0, STORE_FILES_MAX, "files"))
    for name, points in resident.items():
        if on_servers and name.startswith("aggregate"):
            claim = f"memory of {name} is below {AGGREGATOR_BYTES_MAX / MEGABYTE:,.0f} MB"
            most = AGGREGATOR_BYTES_MAX / MEGABYTE
            found.append(judging.stays_below(claim, scaled_mb(points), 0.0, most, "MB"))
    for what in (LAG_S, FRESHNESS):
        points = series.of.get((what, WHOLE), [])
        claim = f"{what} are bounded"
        found.append(judging.stays_below(claim, points, from_s, judging.LAG_MAX_S, "s"))
    delivered, refused = len(lived.box.delivered), len(lived.box.refused)
    figures = f"{delivered:,} deliveries, {refused:,} refused"
    found.append(Judged("reports arrive", delivered > 0 and not refused, figures))
    found.append(judging.meters_are_taken_on(lived.changes.made, lived.changes.taken_on_s))
    return [*found, judging.nothing_is_lost(lived.differences)]


if __name__ == "__main__":
    main()
