"""All series of a run, as a Prometheus that scraped it would have them."""

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.unit.observe.promql import STALE, Labels, Recorded, Samples

SAMPLES_MAX: Final = 1_440  # of a series: two hours of a scrape every five seconds
KEPT: Final = ("meterline_", "process_", "up")  # names begin so
JOB: Final = "meterline"
Span = tuple[str, float, float]  # a fault, and the seconds in which it began and ended
Named = Mapping[str, str]


@dataclass(slots=True)
class Recording:
    """Samples by series, and the faults of the run. A series that a scrape lacks, or whose process
    was not scraped, has ended there: `STALE`. Of each series the last `SAMPLES_MAX` are kept.
    """

    spans: list[Span] = field(default_factory=list)
    _series: dict[Labels, deque[tuple[float, float]]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=SAMPLES_MAX))
    )
    _shown: dict[str, set[Labels]] = field(default_factory=lambda: defaultdict(set))

    def scraped(self, instance: str, at_s: float, samples: Iterable[tuple[Named, float]]) -> None:
        """What a process told at a second, nothing where it did not answer: labels with the name
        among them, and a value.
        """
        who = {"instance": instance, "job": JOB}
        found = {
            frozenset({**labels, **who}.items()): value
            for labels, value in samples
            if labels["__name__"].startswith(KEPT)
        }
        ended = self._shown[instance] - found.keys()
        for labels, value in (*found.items(), *((it, STALE) for it in ended)):
            self._series[labels].append((at_s, value))
        self._shown[instance] = set(found)

    def recorded(self) -> Recorded:
        """What is known so far."""
        return Recorded({labels: list(of) for labels, of in list(self._series.items())})


def write(place: Path, recorded: Recorded, spans: Iterable[Span]) -> None:
    """A file that `read` reads: a line of JSON for the faults, then one for each series, in the
    form of an answer of Prometheus. No value: the series ended.
    """
    lines = [json.dumps({"faults": list(spans)})]
    for labels, samples in sorted(recorded.series.items(), key=lambda it: sorted(it[0])):
        values = [[round(at, 1), None if value is STALE else repr(value)] for at, value in samples]
        lines.append(json.dumps({"metric": dict(sorted(labels)), "values": values}))
    place.write_text("\n".join([*lines, ""]))


def read(place: Path) -> tuple[Recorded, list[Span]]:
    """The series of a file, and its faults."""
    first, *lines = place.read_text().splitlines()
    spans = [(str(name), float(began), float(ended)) for name, began, ended in _faults(first)]
    return Recorded(dict(map(_series, lines))), spans


def _faults(line: str) -> Iterator[tuple[Any, Any, Any]]:
    yield from json.loads(line)["faults"]


def _series(line: str) -> tuple[Labels, Samples]:
    found = json.loads(line)
    samples = [(at, STALE if value is None else float(value)) for at, value in found["values"]]
    return frozenset(found["metric"].items()), samples
