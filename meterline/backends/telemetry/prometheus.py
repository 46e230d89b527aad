"""Metrics for Prometheus: `Recorder`, and the text of a scrape.

Sums are kept here, in plain lists, and handed to the client's registry when it is scraped. A
request has six measurements, and the client's own classes take a lock for each. What each request
tells adds to a list that was found before (`counter`, `observer`). Each composition has its own
registry: two installations in one process do not mix.
"""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate, product
from threading import Lock, get_ident
from typing import Final, cast

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from meterline.ports import OTHER, Kind, Label, Metric, Tell, metrics

EVERYTHING: Final = "up"  # the role that exports all
Labels = tuple[str, ...]
# By the values of its labels: the value; of a histogram a count for each bucket, one for what is
# above them all, and the sum.
Cells = dict[Labels, list[float]]
Bucket = tuple[str, float] | tuple[str, float, Exemplar]
# By name, values of labels and bucket: a value that was observed, and its trace.
Exemplars = dict[tuple[str, Labels, int], Exemplar]


class PrometheusRecorder(Collector):
    """See `meterline.ports.Recorder`. Exports the metrics of its role; what it is told of others is
    dropped.

    May be told from any thread. The thread that made it is the one that tells most, and waits for
    no lock: what others tell is kept apart, and added when it is scraped.
    """

    def __init__(
        self, role: str = EVERYTHING, declared: Sequence[Metric] = metrics.DECLARED
    ) -> None:
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self._metrics = [it for it in declared if role in (EVERYTHING, *it.roles)]
        self._known: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._thread = get_ident()
        self._lock = Lock()
        self._own: dict[str, Cells] = {it.name: _begun(it) for it in self._metrics}
        self._others: dict[str, Cells] = {it.name: {} for it in self._metrics}
        self._exemplars: Exemplars = {}  # no more than there are buckets
        self.registry.register(self)

    def count(self, metric: Metric, amount: float, *labels: str) -> None:
        """See the port."""
        if get_ident() == self._thread:
            self._cell(self._own, metric, labels)[0] += amount
            return
        with self._lock:
            self._cell(self._others, metric, labels)[0] += amount

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """See the port."""
        if get_ident() == self._thread:
            _observed(self._cell(self._own, metric, labels), metric, value)
            return
        with self._lock:
            _observed(self._cell(self._others, metric, labels), metric, value)

    def counter(self, metric: Metric, *labels: str) -> Tell:
        """See the port. Told by the thread that made this, it costs an addition."""
        cell, thread = self._cell(self._own, metric, labels), self._thread

        def tell(amount: float) -> None:
            if get_ident() == thread:
                cell[0] += amount
            else:
                self.count(metric, amount, *labels)

        return tell

    def observer(self, metric: Metric, *labels: str) -> Tell:
        """See the port, and `counter`."""
        cell, thread = self._cell(self._own, metric, labels), self._thread
        bounds = metric.buckets

        def tell(value: float) -> None:
            if get_ident() == thread:
                cell[bisect_left(bounds, value)] += 1
                cell[-1] += value
            else:
                self.observe(metric, value, *labels)

        return tell

    def timer(self, counted: Metric, timed: Metric, *labels: str) -> Tell:
        """See the port, and `counter`."""
        counts, thread = self._cell(self._own, counted, labels), self._thread
        cell, bounds = self._cell(self._own, timed, labels[: len(timed.labels)]), timed.buckets

        def tell(value: float) -> None:
            if get_ident() == thread:
                counts[0] += 1
                cell[bisect_left(bounds, value)] += 1
                cell[-1] += value
            else:
                self.count(counted, 1, *labels)
                self.observe(timed, value, *labels[: len(timed.labels)])

        return tell

    def exemplify(self, metric: Metric, value: float, trace_id: str, *labels: str) -> None:
        """See the port. Each bucket keeps its latest; OpenMetrics alone shows them."""
        shown = labels if labels in self._own.get(metric.name, {}) else None
        if shown is not None:
            bucket = bisect_left(metric.buckets, value)
            self._exemplars[metric.name, shown, bucket] = Exemplar({"trace_id": trace_id}, value)

    def set(self, metric: Metric, value: float | None, *labels: str) -> None:
        """See the port. What is not known is NaN, which no alert takes for a number."""
        self._cell(self._own, metric, labels)[0] = math.nan if value is None else value

    def _cell(self, store: dict[str, Cells], metric: Metric, labels: Labels) -> list[float]:
        cells = store.get(metric.name)
        if cells is None:
            return _empty(metric)  # of another role: written to and forgotten
        cell = cells.get(labels)
        if cell is not None:
            return cell
        named = zip(metric.labels, labels, strict=True)
        shown = tuple(self._value(metric, label, value) for label, value in named)
        return cells.setdefault(shown, _empty(metric))

    def _value(self, metric: Metric, label: Label, value: str) -> str:
        """The value as it is exported: `other` beyond what is declared."""
        if label.values:
            return value if value in label.values else OTHER
        known = self._known[metric.name, label.name]
        if value not in known:
            if len(known) >= label.most:
                return OTHER
            known.add(value)
        return value

    def collect(self) -> Iterator[Family]:
        """What the registry asks for, in whichever thread."""
        for metric in self._metrics:
            cells = {labels: cell.copy() for labels, cell in list(self._own[metric.name].items())}
            with self._lock:
                for labels, cell in self._others[metric.name].items():
                    mine = cells.get(labels, _empty(metric))
                    cells[labels] = [a + b for a, b in zip(mine, cell, strict=True)]
            yield _family(metric, cells, self._exemplars)

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """All metrics in the format that an `Accept` header asks for, and its media type."""
        encode, media = choose_encoder(accept)
        return encode(self.registry), media


def _empty(metric: Metric) -> list[float]:
    if metric.kind is Kind.HISTOGRAM:
        return [0.0] * (len(metric.buckets) + 2)
    return [0.0]


def _begun(metric: Metric) -> Cells:
    """Series whose labels are listed are there from the start: a rate needs a 0 to rise from. Of a
    gauge nothing is known yet: 0 would be a claim.
    """
    if metric.kind is Kind.GAUGE:
        return {} if metric.labels else {(): [math.nan]}
    if not all(label.values for label in metric.labels):
        return {}
    return {labels: _empty(metric) for labels in product(*(it.values for it in metric.labels))}


def _observed(cell: list[float], metric: Metric, value: float) -> None:
    cell[bisect_left(metric.buckets, value)] += 1
    cell[-1] += value


def _family(metric: Metric, cells: Cells, exemplars: Exemplars) -> Family:
    names = [label.name for label in metric.labels]
    if metric.kind is not Kind.HISTOGRAM:
        kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
        single = kind(metric.name, metric.meaning, labels=names)
        for labels, cell in cells.items():
            single.add_metric(labels, cell[0])
        return cast("Family", single)
    histogram = HistogramMetricFamily(metric.name, metric.meaning, labels=names)
    bounds = [*(f"{bound:g}" for bound in metric.buckets), "+Inf"]
    for labels, (*counts, total) in cells.items():
        buckets: list[Bucket] = []
        for place, (bound, count) in enumerate(zip(bounds, accumulate(counts), strict=True)):
            example = exemplars.get((metric.name, labels, place))
            buckets.append((bound, count) if example is None else (bound, count, example))
        histogram.add_metric(labels, buckets, total)
    return cast("Family", histogram)
