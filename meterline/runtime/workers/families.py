"""Metrics of several workers as one exposition: each series says whose it is.

They are not summed: a worker that is replaced begins at 0 again. A rate of its own series knows
that, a rate of a sum would take it for a fall of all of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar, Sample

LABEL: Final = "worker"
Families = Sequence[Sequence[Any]]


def plain(registry: CollectorRegistry) -> Families:
    """What a worker measures, as a message can carry it."""
    return [
        (it.name, it.documentation, it.type, it.unit, [_plain(sample) for sample in it.samples])
        for it in registry.collect()
    ]


def _plain(sample: Sample) -> Sequence[Any]:
    exemplar = None if sample.exemplar is None else tuple(sample.exemplar)
    return sample.name, dict(sample.labels), sample.value, exemplar


class _All(Collector):
    """The families of all, each once."""

    def __init__(self, measured: Mapping[int, Families]) -> None:
        self._measured = measured

    def collect(self) -> Iterator[Metric]:
        """As the client's registry asks for them."""
        together: dict[str, Metric] = {}
        for worker, families in sorted(self._measured.items()):
            for name, documentation, kind, unit, samples in families:
                family = together.get(name)
                if family is None:
                    family = together[name] = Metric(name, documentation, kind, unit)
                for sample, labels, value, exemplar in samples:
                    shown = None if exemplar is None else Exemplar(*exemplar)
                    labelled = {LABEL: str(worker), **labels}
                    family.samples.append(Sample(sample, labelled, value, None, shown))
        yield from together.values()


def exposition(measured: Mapping[int, Families], accept: str) -> tuple[bytes, str]:
    """All of them in the format that an `Accept` header asks for, and its media type."""
    encode, media = choose_encoder(accept)
    registry = CollectorRegistry()
    registry.register(_All(measured))
    return encode(registry), media
