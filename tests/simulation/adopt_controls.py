"""What a newer catalogue in open slices is defended by, taken away."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aggregator.slice import adoption
from aggregator.slice.partition import Partition
from aggregator.slice.sealing import Sealer
from aggregator.slice.verdict import Seen
from aggregator.step import Aggregator
from tests.simulation.parts import Substitutes


class _Impatient(adoption.Meters):
    """What open slices took in before is not waited for."""

    def is_ready(self, partitions: Mapping[int, Partition]) -> bool:
        for partition in partitions.values():
            if partition.slice is not None:
                partition.slice.lacks_before = None
        return super().is_ready(partitions)


class _AtOnce(adoption.Adoption):
    """What a slice lacks is read before all of it is durable."""

    def is_durable(self, partition: Partition, before: int) -> bool:  # noqa: ARG002
        return True


class _Early(adoption.Meters):
    async def look(self, partitions: Mapping[int, Partition]) -> bool:
        before = self.catalogue, self.measures, self._begun
        begun = await super().look(partitions)
        if self._begun is not None and self._begun is not before[2]:
            self._begun = _AtOnce(self._usage, before[0], before[1], self._begun.catalogue)
            for partition in partitions.values():
                partition.look_ahead(self._begun.ahead)
        return begun


class _Half(Aggregator):
    meters: type[adoption.Meters]

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._meters = self.meters(self.catalogue_store, self.usage)
        self.sealer = Sealer(self.usage, self.progress, self._meters)


class _Hasty(adoption.Meters):
    """What has ended is not sealed before."""

    def is_ready(self, partitions: Mapping[int, Partition]) -> bool:
        return self._begun is not None and not any(
            it.lacks_before is not None for it in partitions.values()
        )


class _Forgetful(Partition):
    """A slice does not know the keys of the one before it, until that is sealed."""

    def seen_before(self, keys: Sequence[bytes]) -> dict[bytes, Seen]:
        ended, self.ended = self.ended, None
        try:
            return super().seen_before(keys)
        finally:
            self.ended = ended


class _WithForgetful(Aggregator):
    async def prepared(self, number: int) -> Partition:
        partition = await super().prepared(number)
        partition.__class__ = _Forgetful
        return partition


class _WithHasty(_Half):
    meters = _Hasty


class _WithImpatient(_Half):
    meters = _Impatient


class _WithEarly(_Half):
    meters = _Early


# Meters change all the time, in slices that do not end.
OPEN: Final = {
    "meters_change_s": 0.7,
    "jump_ms_max": 2_000,
    "workers_die_s": 20.0,
    "wild_clocks": False,
    "lossy": 0.0,
}
# And in slices that end all the time.
OFTEN: Final = {"meters_change_s": 0.7, "workers_die_s": 20.0, "wild_clocks": False, "lossy": 0.0}
CONTROLS: Final[dict[str, Substitutes]] = {
    "what open slices took in before": Substitutes(aggregator=_WithImpatient, profile=OPEN),
    "keys of a slice that has ended": Substitutes(aggregator=_WithForgetful),
    "seals before newer meters": Substitutes(aggregator=_WithHasty, profile=OFTEN),
    "a reading of what is durable": Substitutes(aggregator=_WithEarly, profile=OPEN),
}
