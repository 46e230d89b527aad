"""Metrics for Prometheus: `Recorder` on a registry of its own, and the text of a scrape.

Each composition has its own registry: two installations in one process do not mix.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import product
from typing import Final, cast

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.exposition import choose_encoder

from meterline.ports import OTHER, Kind, Label, Metric, metrics

_KINDS: Final[dict[Kind, type[Counter | Gauge | Histogram]]] = {
    Kind.COUNTER: Counter,
    Kind.GAUGE: Gauge,
    Kind.HISTOGRAM: Histogram,
}
Family = Counter | Gauge | Histogram
EVERYTHING: Final = "up"  # the role that exports all


class PrometheusRecorder:
    """See `meterline.ports.Recorder`. May be told from any thread. Exports the metrics of its role;
    what it is told of others is dropped.
    """

    def __init__(
        self, role: str = EVERYTHING, declared: Sequence[Metric] = metrics.DECLARED
    ) -> None:
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self._families = {
            it.name: self._family(it) for it in declared if role in (EVERYTHING, *it.roles)
        }
        # By metric and labels as told: making a child anew costs ten times as much.
        self._children: dict[tuple[str, tuple[str, ...]], Family] = {}
        self._known: dict[tuple[str, str], set[str]] = defaultdict(set)

        for it in declared:
            if it.name in self._families:
                self._begin(it)

    def _begin(self, it: Metric) -> None:
        """Series whose labels are listed are there from the start, at 0: a rate needs a value to
        rise from.
        """
        if it.kind is not Kind.GAUGE and it.labels and all(label.values for label in it.labels):
            for labels in product(*(label.values for label in it.labels)):
                self._child(it, labels)

    def _family(self, it: Metric) -> Family:
        names = [label.name for label in it.labels]
        if it.kind is Kind.HISTOGRAM:
            buckets = it.buckets
            return Histogram(it.name, it.meaning, names, buckets=buckets, registry=self.registry)
        made: Family = _KINDS[it.kind](it.name, it.meaning, names, registry=self.registry)
        if not names and it.kind is Kind.GAUGE:
            cast("Gauge", made).set(float("nan"))  # nothing is known yet: 0 would be a claim
        return made

    def count(self, metric: Metric, amount: float, *labels: str) -> None:
        """See the port."""
        if child := self._child(metric, labels):
            cast("Counter", child).inc(amount)

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """See the port."""
        if child := self._child(metric, labels):
            cast("Histogram", child).observe(value)

    def set(self, metric: Metric, value: float | None, *labels: str) -> None:
        """See the port. What is not known is NaN, which no alert takes for a number."""
        if child := self._child(metric, labels):
            cast("Gauge", child).set(float("nan") if value is None else value)

    def _child(self, metric: Metric, labels: tuple[str, ...]) -> Family | None:
        key = metric.name, labels
        child = self._children.get(key)
        if child is not None:
            return child
        family = self._families.get(metric.name)
        if family is None:
            return None
        if not metric.labels:
            self._children[key] = family
            return family
        named = zip(metric.labels, labels, strict=True)
        shown = tuple(self._value(metric, label, value) for label, value in named)
        child = family.labels(*shown)
        if shown == labels:  # others would gather here without a bound
            self._children[key] = child
        return child

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

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """All metrics in the format that an `Accept` header asks for, and its media type."""
        encode, media = choose_encoder(accept)
        return encode(self.registry), media
