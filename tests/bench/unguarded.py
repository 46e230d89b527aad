"""`python -m tests.bench.unguarded aggregate`: the aggregator with every guard of exactness taken
out, to see what they cost. Kills, copies and lost writes would make its numbers wrong.

No seen store and no verdicts, no `seen` rows, no hashes of rows, no account, no count-back, no seal
row, no seen store to write at a border. Reading, decoding, folding and inserting are as they are.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import aggregator.slice.open_slice
import aggregator.slice.partition
from aggregator.slice.open_slice import OpenSlice
from aggregator.slice.partition import Partition
from aggregator.slice.verdict import Seen
from aggregator.step import Aggregator
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.event import Event, Record, Unreadable, position
from meterline.runtime import cli
from meterline.runtime.wiring import adapters, counting
from meterline.usage import Counted, Flush

_NOTHING: Final = Counted(0, 0)


class Forgetful:
    """A seen store that knows nothing and keeps nothing."""

    applied = 0

    def __init__(self, *_: Any) -> None:
        """Without a folder."""

    def get_many(self, keys: Sequence[bytes]) -> list[Seen | None]:
        return [None] * len(keys)

    def apply(self, keys: bytes, applied: int) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class Unjudged(OpenSlice):
    """A slice in which every event is new."""

    def unknown_keys(self, items: Sequence[Event | Unreadable]) -> list[bytes]:
        del items
        return []

    def absorb(
        self,
        record: Record,
        append_ms: int,
        items: Sequence[Event | Unreadable],
        stored: dict[bytes, Seen],
        horizon_ms: int,
    ) -> None:
        del stored, horizon_ms
        base = position(record.offset, 0)
        for place, item in enumerate(items):
            assert isinstance(item, Event), "the log was filled with good ones"
            self._count(record.offset, place, append_ms, item)
            self._fold.add(item, base + place)
        self._version = position(record.offset, max(len(items) - 1, 0))
        self.end = record.offset + 1
        self.border = self.border.grown(len(items))


class Bare(ClickHouseUsageStore):
    """Writes what is asked for later, and nothing that guards it."""

    async def write(self, flush: Flush) -> None:
        await super().write(replace(flush, seen=[], accounts=[]))


class Unasked(Aggregator):
    """Goes on behind a border without asking or telling anybody."""

    async def _sealed(self, partition: Partition) -> None:
        await self.flush()
        if partition.ended is not None:
            partition.seal_slice()

    async def settle_seals(self, *, soon: bool = True) -> None:  # noqa: ARG002 - at once anyway
        for partition in self.partitions.values():
            if partition.is_ended_durable:
                partition.seal_slice()


def _unhashed(*_: object) -> Counted:
    return _NOTHING


def prepare() -> None:
    """Take the guards out of this process."""
    substitutes = {
        "RocksSeenStore": Forgetful,
        "ClickHouseUsageStore": Bare,
        "Aggregator": Unasked,
    }
    roots = [adapters.__dict__, counting.__dict__]
    assert substitutes.keys() <= {name for root in roots for name in root}, "named otherwise now"
    for root in roots:
        root.update({name: it for name, it in substitutes.items() if name in root})
    aggregator.slice.partition.__dict__["OpenSlice"] = Unjudged
    aggregator.slice.open_slice.__dict__["counted"] = _unhashed


if __name__ == "__main__":
    prepare()
    cli.main(prog_name="meterline")
