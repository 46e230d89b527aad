"""A watcher of `make faults`: it scrapes every process as Prometheus would, and tells when the
alert that names a fault fired, and when it was silent again. Rules and times are the real ones.
"""

import re
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Final

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.beside import beside
from tests.faults.alarms import FIRES_WITHIN_S, Alarm, alarm_of
from tests.faults.bench import Bench
from tests.faults.installation import STAND_INS
from tests.faults.pictures.recording import Recording
from tests.faults.slot import Slot
from tests.unit.observe.promql import STALE, Labels, Recorded
from tests.unit.observe.rules import RULES, evaluated

SCRAPED_EVERY_S: Final = 5.0  # as deploy/compose has it, or more often than that
SCRAPED_WITHIN_S: Final = 4.0
EVALUATED_EVERY_S: Final = 5
BEFORE_S: Final = 150.0  # as far as rules look back that are watched
AFTER_S: Final = 900.0  # no alert is looked at for longer
ASKED: Final = frozenset(re.findall(r"[a-z_]{2,}", " ".join(it["expr"] for it in RULES.values())))


@dataclass(frozen=True, slots=True)
class Alarmed:
    """What became of the alert of a fault: seconds from its begin; None: it did not happen.

    `watched_s`: so long it was looked at, from its begin; nothing is known of later.
    """

    fault: str
    alarm: Alarm
    lasted_s: float
    fired_s: float | None
    cleared_s: float | None
    before: bool = False  # it fired already when the fault began
    watched_s: float = FIRES_WITHIN_S

    @property
    def words(self) -> str:
        """For a person."""
        return f"{self.fault}: {self.alarm.alert} {self._became()}"

    def _became(self) -> str:
        if self.before:
            return "fired already, by a fault before"
        if self.fired_s is None:
            needs_s = self.alarm.lasts_s
            if needs_s is not None and self.lasted_s < needs_s:
                return (
                    f"did not fire: the fault lasted {self.lasted_s:.0f} s, and the rule"
                    f" needs {needs_s:g} s"
                )
            if self.watched_s < FIRES_WITHIN_S:
                return (
                    f"was not watched long enough: {self.watched_s:.0f} s, and it may take"
                    f" {FIRES_WITHIN_S:g} s"
                )
            return f"DID NOT FIRE within {FIRES_WITHIN_S:g} s"
        if self.cleared_s is None:
            return f"fired after {self.fired_s:.0f} s, and was not watched until it was silent"
        return f"fired after {self.fired_s:.0f} s, silent after {self.cleared_s:.0f} s"


@dataclass(slots=True)
class Watch:
    """Scrapes of all processes that should run, while the block of `watching` lasts. It keeps what
    rules ask for; `recording` is given everything.
    """

    slots: Sequence[Slot]
    recording: Recording | None = None
    series: dict[Labels, list[tuple[float, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    spans: list[tuple[str, float, float]] = field(default_factory=list)
    _ends: threading.Event = field(default_factory=threading.Event)

    def spanned(self, name: str, fault: Callable[[Bench], None]) -> Callable[[Bench], None]:
        """The fault, of which it is kept when it began and ended."""

        def kept(bench: Bench) -> None:
            began_s = time.monotonic()
            try:
                fault(bench)
            finally:
                self.spans.append((name, began_s, time.monotonic()))

        return kept

    def run(self) -> None:
        """Scrape until it ends."""
        while not self._ends.wait(SCRAPED_EVERY_S):
            for slot in self.slots:
                self._scrape(slot)

    def end(self) -> None:
        """No more scrapes."""
        self._ends.set()

    def knows_all(self) -> bool:
        """Whether each process that should run was scraped: else nothing is known of before."""
        scraped = {dict(labels)["instance"] for labels, _ in list(self.series.items())}
        return all(slot.name in scraped for slot in self.slots if slot.name not in STAND_INS)

    def _scrape(self, slot: Slot) -> None:
        at_s = time.monotonic()
        who = {"instance": slot.name, "job": "meterline"}
        try:
            with urllib.request.urlopen(f"{slot.url}/metrics", timeout=SCRAPED_WITHIN_S) as answer:
                text = answer.read().decode()
        except (OSError, HTTPException):
            if slot.name not in STAND_INS:  # these run only now and then
                self._add("up", who, at_s, 0.0)
            for labels in list(self.series):  # stale from now on
                named = dict(labels)
                if named["instance"] == slot.name and named["__name__"] != "up":
                    self.series[labels].append((at_s, STALE))
            self._record(slot.name, at_s, None)
            return
        self._add("up", who, at_s, 1.0)
        families = text_string_to_metric_families(text)
        samples = [sample for family in families for sample in family.samples]
        for sample in samples:
            if sample.name in ASKED:
                self._add(sample.name, {**sample.labels, **who}, at_s, sample.value)
        self._record(slot.name, at_s, samples)

    def _record(self, instance: str, at_s: float, samples: Sequence[Sample] | None) -> None:
        if self.recording is None:
            return
        told = [({**it.labels, "__name__": it.name}, it.value) for it in samples or ()]
        if samples is not None or instance not in STAND_INS:
            told.append(({"__name__": "up"}, float(samples is not None)))
        self.recording.scraped(instance, at_s, told)

    def _add(self, name: str, labels: dict[str, str], at_s: float, value: float) -> None:
        key = frozenset({("__name__", name), *labels.items()})
        self.series[key].append((at_s, value))

    def alarmed(self, span: tuple[str, float, float], until_s: float | None = None) -> Alarmed:
        """What became of the alert of a fault, as far as it was watched: until then, or now."""
        fault, began_s, ended_s = span
        alarm = alarm_of(fault)
        now_s = min(until_s or time.monotonic(), ended_s + AFTER_S)
        from_s = began_s - BEFORE_S
        recorded = {
            labels: [(at - from_s, value) for at, value in list(samples) if from_s <= at <= now_s]
            for labels, samples in list(self.series.items())
        }
        shown = evaluated(
            RULES[alarm.alert], Recorded(recorded), 0, int(now_s - from_s), EVALUATED_EVERY_S
        )
        fires = [(at_s - BEFORE_S, bool(found)) for at_s, found in shown]
        before = any(found for at_s, found in fires if -EVALUATED_EVERY_S < at_s <= 0)
        within_s = max(FIRES_WITHIN_S, ended_s - began_s)
        fired_s = next((at_s for at_s, found in fires if found and 0 < at_s <= within_s), None)
        cleared_s = None
        if fired_s is not None:
            after = (at_s for at_s, found in fires if not found and at_s > fired_s)
            cleared_s = next(after, None)
        lasted_s, watched_s = ended_s - began_s, now_s - began_s
        return Alarmed(fault, alarm, lasted_s, fired_s, cleared_s, before, watched_s)


@contextmanager
def watching(slots: Sequence[Slot], recording: Recording | None = None) -> Iterator[Watch]:
    """Watch until the block ends."""
    watch = Watch(slots, recording)
    with beside("watch", watch.run, watch.end):
        yield watch
