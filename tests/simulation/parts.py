"""Values of a world: what a control run substitutes, what was claimed and shown, and the places
that processes live in.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aggregator.completeness import Completeness
from aggregator.erasure import Eraser
from aggregator.slice.sealing import Sealer
from aggregator.step import Aggregator
from meterline.meter import Meter
from meterline.usage import UsageIntegrity
from tests.simulation.network import Process
from tests.simulation.workers import Disk


def same(port: Any) -> Any:
    """The port as it is."""
    return port


class Lying:
    """A port as it is, but for what a subclass says instead."""

    def __init__(self, port: Any) -> None:
        self._port = port

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


class SealedOtherwise(Aggregator):
    """Its slices are sealed by what a subclass names."""

    sealed_by: type[Sealer]

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.sealer = self.sealed_by(self.usage, self.progress, self._meters)


@dataclass(frozen=True, slots=True)
class Substitutes:
    """What a control run puts in the place of the real thing."""

    aggregator: type[Aggregator] = Aggregator
    log: Callable[[Any], Any] = same
    usage: Callable[[Any], Any] = same
    progress: Callable[[Any], Any] = same
    seen: Callable[[Any], Any] = same
    completeness: type[Completeness] = Completeness
    reports: Callable[[Any], Any] = same
    late: Callable[[Any], Any] = same
    sender: Callable[[Any], Any] = same
    publisher: Callable[[Any], Any] = same
    clock: Callable[[Any], Any] = same
    blocks: Callable[[Any], Any] = same  # told of their state once, to change what it does
    sums: Callable[[Any], Any] = same  # so are those of seals
    erasures: Callable[[Any], Any] = same  # and those of erasures
    erasure_ledger: Callable[[Any], Any] = same
    erased_rows: Callable[[Any], Any] = same
    masks: Callable[[Any], Any] = same  # what readers ask for what is hidden
    eraser: type[Eraser] = Eraser
    erased_compared: bool = True
    drops: Callable[[Any], Any] = same  # and those of revisions that are dropped
    minutes: Callable[[Any], Any] = same  # and those of usage by minute that is dropped
    claims: Callable[[Any], Any] = same  # told of the state of progress once
    growth_waits: float = 1.0  # how long an operator waits, in times of what is due
    inbox_watched: bool = True
    usage_compared: bool = True
    life_demanded: bool = True  # by an answer that trusts what was compared a moment ago
    profile: Mapping[str, Any] = field(default_factory=dict)  # what is not drawn from the seed


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claim, and how much had been written when it was made."""

    catalogue: int
    partition: int
    until_ms: int
    writes: int


@dataclass(frozen=True, slots=True)
class Shown:
    """An answer that said up to when it is complete."""

    meter: Meter
    until_ms: int
    units: int  # the sum of all values, times 10**18
    counted: int


@dataclass(slots=True)
class Slot:
    """A place for the lives of a process, one after the other."""

    name: str
    process: Process
    disk: Disk = field(default_factory=Disk)
    lives: int = 0
    integrity: UsageIntegrity | None = None  # of this life, where stores are compared
    aggregator: Aggregator | None = None  # of this life, where it is a worker's
