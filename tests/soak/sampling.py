"""What every process holds, and how far the whole is, every few seconds of a run."""

import csv
import os
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Final

import psutil
from prometheus_client.parser import text_string_to_metric_families

from tests.beside import beside
from tests.journey.setups import SetUp
from tests.services.local import LocalService
from tests.soak.judging import Points

EVERY_S: Final = 5.0
SCRAPED_WITHIN_S: Final = 4.0
DISK_EVERY_S: Final = 60.0  # a walk over many files
OF_PROCESSES: Final = (
    "resident bytes", "handles", "store files", "threads", "cpu seconds", "disk bytes"
)  # fmt: skip
RESIDENT, HANDLES, STORE_FILES, THREADS, CPU_S, DISK = OF_PROCESSES
STORE_SUFFIX: Final = ".sst"  # of seen stores: how many there are follows from how they are merged
SEEN_CACHE: Final = "seen cache bytes"  # of those that have seen stores, as they export it
LAG, LAG_S, FRESHNESS = "lag records", "lag seconds", "freshness seconds"
SENT, COUNTED = "sent", "counted"
WHOLE: Final = "all"
_SUMMED: Final = {"meterline_log_lag_records": LAG, "meterline_seen_cache_bytes": SEEN_CACHE}
_GREATEST: Final = {"meterline_log_lag_seconds": LAG_S, "meterline_freshness_seconds": FRESHNESS}
_TELLS: Final = ("control", "up")  # these export how far the whole is


@dataclass(slots=True)
class Series:
    """Values by what they are and of which process."""

    of: dict[tuple[str, str], list[tuple[float, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def add(self, what: str, process: str, at_s: float, value: float) -> None:
        """One more value."""
        self.of[what, process].append((at_s, value))

    def all(self, what: str) -> dict[str, Points]:
        """This of every process that has it."""
        return {process: points for (it, process), points in self.of.items() if it == what}

    def last(self, what: str, process: str = WHOLE) -> float:
        """The last value; 0 where there is none."""
        points = self.of.get((what, process))
        return points[-1][1] if points else 0.0

    def write(self, path: Path) -> None:
        """As a table of seconds, what, process and value."""
        with path.open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["seconds", "what", "process", "value"])
            for (what, process), points in self.of.items():
                table.writerows((f"{at_s:.1f}", what, process, value) for at_s, value in points)


@dataclass(slots=True)
class Sampler:
    """Samples while the block of `sampling` lasts. Who ends meanwhile is told in `failure`."""

    setup: SetUp
    series: Series
    told: Callable[[], Mapping[str, float]]  # of the whole, besides what processes export
    failure: str = ""
    _began_s: float = field(default_factory=time.monotonic)
    _disk_s: float = float("-inf")
    _ends: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Until it ends."""
        while not self._ends.wait(EVERY_S):
            self.sample()

    def end(self) -> None:
        """No more samples."""
        self._ends.set()

    def sample(self) -> None:
        """One value of each series."""
        at_s = time.monotonic() - self._began_s
        walks = at_s - self._disk_s >= DISK_EVERY_S
        self._disk_s = at_s if walks else self._disk_s
        for name, process in self.setup.processes.items():
            if (code := process.ended()) is not None:
                self.failure = self.failure or f"{name} ended with code {code}"
                continue
            try:
                self._of_process(name, process, at_s, walks=walks)
            except (psutil.NoSuchProcess, FileNotFoundError):
                continue  # just now: the next look tells its code
        for what, value in self.told().items():
            self.series.add(what, WHOLE, at_s, value)

    def _of_process(self, name: str, process: LocalService, at_s: float, *, walks: bool) -> None:
        it = psutil.Process(process.pid)
        with it.oneshot():
            used = it.cpu_times()
            files = store_files(process.pid)
            values = (
                it.memory_info().rss, it.num_fds() - files, files, it.num_threads(),
                used.user + used.system,
            )  # fmt: skip
        for what, value in zip(OF_PROCESSES, values, strict=False):
            self.series.add(what, name, at_s, value)
        if walks:
            alone = len(self.setup.processes) == 1  # its data is beside its folder
            folder = self.setup.folder if alone else process.folder
            self.series.add(DISK, name, at_s, bytes_of(folder))
        exported = _scraped(process.url)  # of every process, as Prometheus does
        for what, value in exported.items():
            if what == SEEN_CACHE:
                self.series.add(what, name, at_s, value)
            elif name in _TELLS:
                self.series.add(what, WHOLE, at_s, value)


def store_files(pid: int) -> int:
    """How many open files of a process are of a seen store."""
    found = 0
    for handle in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # it was closed just now
            found += handle.readlink().name.endswith(STORE_SUFFIX)
    return found


def bytes_of(folder: Path) -> int:
    """What the files below a folder take on disk; those that go meanwhile are none."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(place, name).lstat().st_blocks * 512
            except FileNotFoundError:
                continue
    return total


def _scraped(url: str) -> dict[str, float]:
    """What a process exports of itself and of the whole; nothing while it does not answer."""
    try:
        with urllib.request.urlopen(f"{url}/metrics", timeout=SCRAPED_WITHIN_S) as answer:
            text = answer.read().decode()
    except (OSError, HTTPException):
        return {}
    return progress_of(text)


def progress_of(exposition: str) -> dict[str, float]:
    """Lag and freshness of the whole, and the cache of seen stores, from what a process exports."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            if what := _SUMMED.get(sample.name):
                found[what] = found.get(what, 0.0) + sample.value
            elif what := _GREATEST.get(sample.name):
                found[what] = max(found.get(what, 0.0), sample.value)
    return found


@contextmanager
def sampling(sampler: Sampler) -> Iterator[Sampler]:
    """Sample until the block ends."""
    with beside("sampler", sampler.run, sampler.end):
        yield sampler
