"""Who makes the blocks of a world: the production maker over simulated ports."""

import asyncio
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final

from aggregator.blocks import BlockMaker
from aggregator.dropped_revisions import DroppedRevisions
from meterline.ports import Clock, StoreLost, Unavailable
from meterline.usage import (
    Block,
    BlockRows,
    CheckedBlockRows,
    Dropped,
    Due,
    Held,
    Masks,
    Seal,
    Stretches,
    UsageIntegrity,
)
from tests.simulation.blocks import BlockRow, BlocksState, Sight
from tests.simulation.network import Net
from tests.simulation.stores import CatalogueState, SimulatedCatalogue

FAN: Final = 3  # small, so that much is merged


class SimulatedBlockLedger:
    """`BlockLedger` as one process reaches it."""

    def __init__(self, state: BlocksState, net: Net) -> None:
        self.state = state
        self._net = net

    async def blocks(self, log: int) -> list[Block]:
        def read() -> list[Block]:
            return sorted(
                (it for it in self.state.records.values() if it.log == log),
                key=lambda it: it.number,
            )

        return await self._net.call("progress.blocks", read)

    async def alone(self, log: int) -> bool:
        def read() -> bool:
            return all(it.log == log for it in self.state.progress.seals.values())

        return await self._net.call("progress.alone", read)

    async def begin(self, block: Block) -> None:
        await self._net.call(
            f"progress.begin_block {block.number}", lambda: self.state.begin(block), writes=True
        )

    async def publish(
        self, block: Block, rows: Mapping[str, int], sources: Collection[int], now_ms: int
    ) -> bool:
        return await self._net.call(
            f"progress.publish_block {block.number}",
            lambda: self.state.publish(block, rows, sources, now_ms),
            writes=True,
        )

    async def give_up(self, numbers: Collection[int], now_ms: int) -> None:
        act = partial(self.state.give_up, numbers, now_ms)
        await self._net.call(f"progress.give_up_blocks {list(numbers)}", act, writes=True)

    async def kept(self, numbers: Collection[int], dropped_before: int = 0) -> bool:
        act = partial(self.state.kept, numbers, dropped_before)
        return await self._net.call("progress.kept_blocks", act)

    async def forget(self, numbers: Collection[int]) -> None:
        act = partial(self.state.forget, numbers)
        await self._net.call(f"progress.forget_blocks {sorted(numbers)}", act, writes=True)

    async def numbers(self) -> set[int]:
        return await self._net.call("progress.block_numbers", lambda: set(self.state.records))

    async def dropped_minutes(self) -> tuple[Dropped, ...]:
        return await self._net.call("progress.dropped_minutes", self.state.dropped)

    async def withdraw(self, log: int, numbers: Collection[int], now_ms: int) -> bool:
        del log
        act = partial(self.state.withdraw, numbers, now_ms)
        return await self._net.call(f"progress.withdraw_blocks {list(numbers)}", act, writes=True)

    async def sealed_after(self, log: int, partition: int, offset: int, limit: int) -> list[Seal]:
        return await self._net.call(
            "progress.sealed_after",
            lambda: self.state.sealed_after(log, partition, offset, limit),
        )

    async def late_kept_from(self, log: int, ends: Mapping[int, int]) -> int | None:
        return await self._net.call(
            "progress.late_kept_from", lambda: self.state.late_kept_from(log, ends)
        )

    async def events_within(self, log: int, stretches: Stretches) -> int:
        return await self._net.call(
            "progress.events_within", lambda: self.state.events_within(log, stretches)
        )

    async def lacking(self, log: int, stretches: Stretches, revisions: Sequence[int]) -> int | None:
        return await self._net.call(
            "progress.lacking", lambda: self.state.lacking(log, stretches, revisions)
        )


class SimulatedBlockRows:
    """`BlockRows` as one process reaches it. `named` says how rows of blocks that are taken
    together are named: for blocks that are made by an erasure.
    """

    def __init__(
        self,
        state: BlocksState,
        net: Net,
        masks: Masks | None = None,
        named: Callable[[BlockRow], BlockRow] | None = None,
    ) -> None:
        self.state = state
        self._net = net
        self._masks = masks
        self._named = named

    async def _sight(self) -> Sight:
        hidden = () if self._masks is None else await self._masks.all()
        return Sight(hidden) if self._named is None else Sight(hidden, self._named)

    async def make(self, block: Block, sources: Sequence[int]) -> None:
        sight = await self._sight()
        await self._net.call(
            f"usage.make_block {block.number} of {list(sources)}",
            lambda: self.state.make(block, sources, sight),
            part=lambda rng: self.state.make_part(block, sources, sight, rng),
            writes=True,
        )

    async def due(self, block: Block, sources: Sequence[int]) -> Due:
        sight = await self._sight()
        act = partial(self.state.due, block, sources, sight)
        return await self._net.call("usage.block_due", act)

    async def held(self, number: int) -> Mapping[str, Held]:
        return await self._net.call("usage.block_held", lambda: self.state.held(number))

    async def recount(self, block: Block) -> Mapping[str, int]:
        raise NotImplementedError("nobody audits here")

    async def drop(self, numbers: Collection[int]) -> None:
        await self._net.call(
            f"usage.drop_blocks {sorted(numbers)}", lambda: self.state.drop(numbers), writes=True
        )

    async def counts(self) -> Mapping[int, Mapping[str, int]]:
        return await self._net.call("usage.block_counts", self.state.counts)


async def make_for_ever(
    maker: BlockMaker,
    rng: random.Random,
    dropper: DroppedRevisions | None,
    partitions: Callable[[], int],
) -> None:
    """As the product's loop does, only that it hardly ever rests."""
    while True:
        await asyncio.sleep(rng.random() * 0.4)
        maker.partitions = partitions()
        try:
            if dropper is not None and rng.random() < 0.7:
                await dropper.step()
            if rng.random() < 0.3:
                await maker.sweep()
            await maker.step()
        except (Unavailable, StoreLost):
            await asyncio.sleep(rng.random())


def maker_of(
    ports: tuple[BlocksState, CatalogueState, Net],
    log: tuple[int, int],
    clock: Clock,
    rng: random.Random,
    integrity: UsageIntegrity | None,
    masks: Masks | None,
) -> BlockMaker:
    """The production maker over simulated ports."""
    state, catalogue, net = ports
    rows: BlockRows = SimulatedBlockRows(state, net, masks)
    return BlockMaker(
        *log,
        SimulatedBlockLedger(state, net),
        rows if integrity is None else CheckedBlockRows(rows, integrity),
        SimulatedCatalogue(catalogue, net),  # type: ignore[arg-type]
        clock,
        random.Random(rng.getrandbits(32)),
        FAN,
    )
