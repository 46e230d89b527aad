"""`python -m tests.recovery`: back up, wipe, restore, move and upgrade, with a year of flights.

Each way goes through real processes, the ones on servers through servers of their own. After each
step answers are compared with pandas, and the installation is audited. Exits with 1 where anything
differs, or does not come back.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress, TaskID
from rich.table import Table

from tests.faults.own_servers import own_servers
from tests.journey.oracle import ALL_FLIGHTS
from tests.journey.receiver import Receiver, receiving
from tests.journey.setups import Servers
from tests.progress_bar import progress_bar
from tests.recovery.ground import ground
from tests.recovery.steps import FAILURES, Step, Steps
from tests.recovery.upgrading import upgraded_embedded, upgraded_on_servers
from tests.recovery.ways import Way, moved, restored_embedded, restored_on_servers
from tests.scratch import memory_folder

WAYS: Final[Mapping[str, Way]] = {
    "restore, embedded": restored_embedded,
    "restore, on servers": restored_on_servers,
    "move": moved,
    "upgrade, embedded": upgraded_embedded,
    "upgrade, on servers": upgraded_on_servers,
}
LEAST: Final = 56_000  # the table begins with January, which is in the first half of so many
_SHOWN: Final = ("{task.completed} of {task.total} ways", "{task.description}")


@dataclass(slots=True)
class Run:
    """All ways that were asked for, one after the other."""

    console: Console
    bar: Progress
    task: TaskID
    done: list[Step] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def go(self, name: str, folder: Path, flights: int, at: Servers, receiver: Receiver) -> None:
        """One way to its end, or to its first difference."""
        steps = Steps(name, begins=self._begins, ends=self._ends, done=self.done)
        try:
            with ground(folder, flights, receiver) as made:
                WAYS[name](made, at, steps)
        except FAILURES as error:
            notes = "\n".join(getattr(error, "__notes__", ()))
            self.failed.append(name)
            self.say(f"FAILED {name}: {error!r}\n{notes}")
        self.bar.advance(self.task)

    def say(self, words: str) -> None:
        """A line for people, as it is."""
        self.console.print(words, highlight=False, markup=False, soft_wrap=True)

    def _begins(self, step: Step) -> None:
        self.bar.update(self.task, description=f"{step.way}: {step.name}")

    def _ends(self, step: Step) -> None:
        what = f"{step.events:,} events, " if step.events else ""
        self.say(f"{step.way}: {step.name}: {what}{step.seconds:.1f} s, {outcome(step)}")


def outcome(step: Step) -> str:
    """What a step showed."""
    return f"FAILED: {step.result}" if step.failed else step.result or "done"


def main() -> None:
    """See the module."""
    asked = _asked()
    console = Console(width=None if sys.stdout.isatty() else 120)
    names = [name for name in WAYS if asked.only in name]
    if (memory := memory_folder()) is not None:
        tempfile.tempdir = str(memory)  # the servers keep theirs there, too
    with ExitStack() as stack:
        place = tempfile.TemporaryDirectory(prefix="meterline-recovery-")
        folder = Path(stack.enter_context(place))
        own = stack.enter_context(own_servers())
        at = Servers(own.kafka.url, own.clickhouse.url, own.postgres.url)
        receiver = stack.enter_context(receiving())
        bar = stack.enter_context(progress_bar(console, *_SHOWN))
        run = Run(console, bar, bar.add_task("", total=len(names)))
        for number, name in enumerate(names):
            room = folder / str(number)
            room.mkdir()
            run.go(name, room, asked.flights, at, receiver)
    _table(console, run.done)
    if run.failed:
        sys.exit(f"{len(run.failed)} of {len(names)} ways failed: {'; '.join(run.failed)}")


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.recovery", description=__doc__)
    parser.add_argument("--flights", type=int, default=ALL_FLIGHTS, help="the first of the table")
    parser.add_argument("--only", default="", help="ways whose name contains this")
    asked = parser.parse_args()
    if not LEAST <= asked.flights <= ALL_FLIGHTS:
        parser.error(f"--flights: {LEAST} to {ALL_FLIGHTS}")
    if not any(asked.only in name for name in WAYS):
        parser.error(f"--only {asked.only!r}: the ways are {'; '.join(WAYS)}")
    return asked


def _table(console: Console, done: list[Step]) -> None:
    table = Table("way", "step", "events", "seconds", "result")
    for one in done:
        events = f"{one.events:,}" if one.events else ""
        table.add_row(one.way, one.name, events, f"{one.seconds:.1f}", outcome(one))
    console.print(table)


if __name__ == "__main__":
    main()
