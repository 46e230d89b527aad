"""`python -m tests.faults`: kill, freeze and cut off every process of the distributed set-up, and
compare with the oracle after each fault.

Exits with 1 where anything was lost or counted twice, or did not come back.
"""

import argparse
import random
import secrets
import sys
import tempfile
import time
from collections import Counter, deque
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from rich.console import Console
from rich.progress import Progress, TaskID
from rich.table import Table

from tests.faults.bench import Bench, Judged, asked_meanwhile, benched
from tests.faults.cases import CASES, Case, chosen
from tests.faults.held import HELD, held
from tests.faults.installation import Servers, installed
from tests.faults.own_servers import own_servers
from tests.faults.pictures.album import pictured
from tests.faults.pictures.load import lively
from tests.faults.unsurvivable import ENDS
from tests.faults.watch import Watch, watching
from tests.journey.receiver import receiving
from tests.progress_bar import progress_bar
from tests.services.service import ServiceError

ROUNDS = 2

_SHOWN: Final = ("{task.completed}/{task.total}", "{task.fields[kills]} kills  {task.description}")


def main() -> None:
    """See the module."""
    asked = _asked()
    console = Console(width=None if sys.stdout.isatty() else 120)
    if asked.list:
        console.print("\n".join([*CASES, *ENDS]), highlight=False)
        return
    seed = secrets.randbelow(1 << 32) if asked.seed is None else asked.seed
    console.print(f"faults on real processes, seed {seed}, {asked.rounds} rounds")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="meterline-faults-")))
        servers = stack.enter_context(own_servers())
        if asked.held:
            failed = _held(servers, folder, console, asked, seed)
        else:
            failed = _survived(servers, folder, console, asked, seed)
            failed += _ended(servers, folder, console, asked.only)
    for words in failed:
        console.print(f"FAILED {words}", highlight=False, markup=False, soft_wrap=True)
    if failed:
        sys.exit(f"{len(failed)} faults were not survived; again: --seed {seed}")


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seed", type=int, help="draw all chances from it")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each fault")
    parser.add_argument("--only", default="", help="faults whose name contains this")
    parser.add_argument(
        "--held", action="store_true", help="some faults of each kind, until their alert fires"
    )
    parser.add_argument(
        "--pictures",
        type=Path,
        metavar="FOLDER",
        help="with --held: draw the dashboard over the run, with more load and in a longer time",
    )
    parser.add_argument("--list", action="store_true", help="the names of all faults")
    asked = parser.parse_args()
    if asked.rounds < 1:
        parser.error("--rounds: at least 1, or no fault is brought about")
    if asked.pictures is not None and not asked.held:
        parser.error("--pictures: only with --held, whose faults last long enough to be seen")
    if not any(asked.only in name for name in (*CASES, *ENDS)):
        parser.error(f"--only {asked.only!r}: no fault has it in its name; --list shows them")
    return asked


@dataclass(slots=True)
class Run:
    """What a run has seen so far, over all its installations."""

    console: Console
    done: list[Judged] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    totals: Counter[str] = field(default_factory=Counter)
    alarms: list[str] = field(default_factory=list)  # what became of the alert of each fault

    def live(
        self,
        bench: Bench,
        plan: deque[tuple[str, Case]],
        bar: Progress,
        task: TaskID,
        watch: Watch,
    ) -> None:
        """Bring about what is planned; after a failure the rest is for a new installation."""
        failed = len(self.failed)
        while plan and len(self.failed) == failed:
            name, case = plan.popleft()
            bar.update(task, description=name)
            try:
                self.done.append(bench.under(name, watch.spanned(name, case.fault)))
                _tell(self.console, self.done[-1])
            except (AssertionError, ServiceError, OSError) as error:
                self._fails(f"{name}: {error!r}", bench)
            bar.update(task, advance=1, kills=self.kills.total() + bench.kills.total())
        self._add(bench)

    def _fails(self, words: str, bench: Bench) -> None:
        self.failed.append(words)
        self.console.print(f"FAILED {words}", markup=False, highlight=False, soft_wrap=True)
        self.console.print(bench.product.words(), markup=False, highlight=False, soft_wrap=True)

    def _add(self, bench: Bench) -> None:
        self.kills += bench.kills
        tally, oracle, rig = bench.senders.tally, bench.oracle, bench.rig
        self.totals += Counter(
            {
                "identities acknowledged": len(oracle.identities),
                "copies of them": oracle.copies,
                "requests": tally.requests,
                "refused": tally.refused,
                "cut off": tally.broken,
                "reports": len(rig.asked),
                "deliveries": rig.deliveries,
            }
        )


def _survived(
    servers: Servers, folder: Path, console: Console, asked: argparse.Namespace, seed: int
) -> list[str]:
    """Every fault that is to be survived; what was not, in words."""
    plan = deque(chosen(random.Random(seed), asked.rounds, asked.only))
    planned, run = len(plan), Run(console)
    began_s = time.monotonic()
    with receiving() as receiver, progress_bar(console, *_SHOWN) as bar:
        task = bar.add_task("", total=len(plan), kills=0)
        number = 0
        while plan:
            with (
                installed(servers, folder) as product,
                benched(product, receiver, seed + number, console.print) as bench,
                asked_meanwhile(bench),
                watching(list(product.slots.values())) as watch,
            ):
                run.live(bench, plan, bar, task, watch)
            run.alarms += [it.words for it in map(watch.alarmed, watch.spans)]
            number += 1
    if len(run.done) + len(run.failed) < planned:
        run.failed.append(f"{len(run.done)} of {planned} faults were brought about")
    if run.done:
        _table(run, time.monotonic() - began_s)
    return run.failed


def _held(
    servers: Servers, folder: Path, console: Console, asked: argparse.Namespace, seed: int
) -> list[str]:
    """Some faults of each kind, until their alert fires; which did not fire and clear, in words."""
    failed = []
    with (
        pictured(asked.pictures) as recording,
        receiving() as receiver,
        installed(servers, folder) as product,
        benched(product, receiver, seed, console.print) as bench,
        watching(list(product.slots.values()), recording) as watch,
        lively(bench, watch, recording) as pause,
    ):
        for name in (it for it in HELD if asked.only in it):
            found = held(bench, watch, name, pause)
            console.print(found.words, highlight=False, markup=False, soft_wrap=True)
            if found.fired_s is None or found.cleared_s is None:
                failed.append(found.words)
    return failed


def _ended(servers: Servers, folder: Path, console: Console, only: str) -> list[str]:
    """Every fault that cannot be survived: it must be told, and nothing more be lost."""
    failed = []
    for name, case in ENDS.items():
        if only not in name:
            continue
        began_s = time.monotonic()
        try:
            words = case(servers, folder)
        except AssertionError as error:
            failed.append(f"{name}: {error}")
            notes = "\n".join(getattr(error, "__notes__", ()))
            console.print(
                f"FAILED {failed[-1]}\n{notes}", markup=False, highlight=False, soft_wrap=True
            )
            continue
        console.print(f"{name}: {time.monotonic() - began_s:.0f} s; it said:", highlight=False)
        console.print(f"    {words}", markup=False, highlight=False, soft_wrap=True)
    return failed


def _tell(console: Console, one: Judged) -> None:
    words = f" ({one.words})" if one.words else ""
    console.print(
        f"{one.name}: {one.kills} kills, zero lag after {one.to_zero_lag_s:.1f} s,"
        f" {one.events:,} events, 0 lost, 0 double{words}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def _table(run: Run, seconds: float) -> None:
    table = Table("fault", "times", "kills", "zero lag after, median", "worst")
    for name in sorted({one.name for one in run.done}):
        these = [one for one in run.done if one.name == name]
        lags = [one.to_zero_lag_s for one in these]
        kills = sum(one.kills for one in these)
        row = (f"{len(these)}", f"{kills}", f"{median(lags):.1f} s", f"{max(lags):.1f} s")
        table.add_row(name, *row)
    run.console.print(table)
    by_kind = ", ".join(f"{number} {name}" for name, number in run.kills.most_common())
    totals = ", ".join(f"{number:,} {name}" for name, number in run.totals.items())
    run.console.print(f"{run.kills.total()} kills: {by_kind}.", highlight=False)
    run.console.print(f"{totals}. {seconds / 60:.1f} minutes.", highlight=False)
    run.console.print("\n".join(["Alerts:", *run.alarms]), highlight=False, markup=False)


if __name__ == "__main__":
    main()
