"""What a metric is, and the port that measurements are told to (pure)."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol, final

OTHER: Final = "other"  # the value of a label that is not one of those declared
Tell = Callable[[float], None]


class Kind(Enum):
    """What is done with the numbers of a metric, in Prometheus' words."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Label:
    """A label and what bounds its values: either they are listed, or there are at most so many.
    Further ones are told as `other`. Never a subject, an id, an address or a namespace.
    """

    name: str
    values: tuple[str, ...] = ()
    most: int = 0

    def __post_init__(self) -> None:
        assert bool(self.values) != bool(self.most), f"{self.name}: listed, or bounded in number"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric as it is exported. Its name ends with its unit; that of a counter with `_total`.
    `roles` are the processes that export it, besides `up`, which exports all.
    """

    name: str
    kind: Kind
    meaning: str
    roles: tuple[str, ...]
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        assert bool(self.buckets) == (self.kind is Kind.HISTOGRAM), f"{self.name}: buckets"
        assert self.name.endswith("_total") == (self.kind is Kind.COUNTER), f"{self.name}: _total"


class Recorder(Protocol):
    """Where measurements go. Nothing here waits, raises for the world, or may be told once for
    every event: what happens often is summed up first. Labels are told in the order of the metric.
    """

    def count(self, metric: Metric, amount: float, *labels: str) -> None:
        """So much more of a counter."""
        ...

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """A value of a histogram."""
        ...

    def counter(self, metric: Metric, *labels: str) -> Tell:
        """`count` of one series. For what each request tells: its labels are looked up once."""
        ...

    def observer(self, metric: Metric, *labels: str) -> Tell:
        """`observe` of one series, as `counter` is `count`."""
        ...

    def timer(self, counted: Metric, timed: Metric, *labels: str) -> Tell:
        """Both at once, for what each request tells: 1 of a counter and a value of a histogram. The
        labels are the counter's; the histogram has the first of them.
        """
        ...

    def exemplify(self, metric: Metric, value: float, trace_id: str, *labels: str) -> None:
        """A value of a histogram that was observed was that of a trace: it is an example of its
        bucket.
        """
        ...

    def set(self, metric: Metric, value: float | None, *labels: str) -> None:
        """What a gauge shows from now on; None: nothing is known."""
        ...


@final
class _Silent:
    """Where nobody measures."""

    def count(self, metric: Metric, amount: float, *labels: str) -> None:
        """See `Recorder`."""

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """See `Recorder`."""

    def counter(self, metric: Metric, *labels: str) -> Tell:  # noqa: ARG002 - the port's
        """See `Recorder`."""
        return _to_nobody

    def observer(self, metric: Metric, *labels: str) -> Tell:  # noqa: ARG002 - the port's
        """See `Recorder`."""
        return _to_nobody

    def timer(self, counted: Metric, timed: Metric, *labels: str) -> Tell:  # noqa: ARG002 - the port's
        """See `Recorder`."""
        return _to_nobody

    def exemplify(self, metric: Metric, value: float, trace_id: str, *labels: str) -> None:
        """See `Recorder`."""

    def set(self, metric: Metric, value: float | None, *labels: str) -> None:
        """See `Recorder`."""


def _to_nobody(_amount: float) -> None:
    """What is told where nobody measures."""


SILENT: Final[Recorder] = _Silent()
