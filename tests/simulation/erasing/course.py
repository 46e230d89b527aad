"""Who asks for erasures in a world, who carries them out, and how they come to their end."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from aggregator.erasure import ErasedStores, Eraser
from meterline.limits import ERASURE_AGAIN_S
from meterline.ports import StoreLost, Unavailable
from meterline.usage import BlockRows, CheckedBlockRows, CheckedErasedRows, Erasure, ErasureState
from tests.simulation.asking import look_through_blocks
from tests.simulation.block_makers import SimulatedBlockLedger, SimulatedBlockRows
from tests.simulation.erasing.judging import left
from tests.simulation.erasing.looking import due, look_at_erased, read_for_ever
from tests.simulation.erasing.records import SimulatedErasureLedger
from tests.simulation.erasing.rows import SimulatedErasedRows, under_pseudonym
from tests.simulation.log import SimulatedLog
from tests.simulation.misfortunes import assign, paused
from tests.simulation.network import Net
from tests.simulation.parts import Lying, Slot
from tests.simulation.progress import SimulatedProgress
from tests.simulation.senders import SUBJECTS
from tests.simulation.usage import UsageState
from tests.simulation.world import World

DONE_S_MAX: Final = 60.0
READ_S_MAX: Final = 20.0
ASKED_MAX: Final = 6


def eraser_of(world: World, slot: Slot, net: Net) -> Eraser:
    """The production eraser over simulated ports."""

    def renewed(erasure: Erasure) -> BlockRows:
        rows = SimulatedBlockRows(world.blocks, net, named=under_pseudonym(erasure))
        return rows if slot.integrity is None else CheckedBlockRows(rows, slot.integrity)

    erased = world.substitutes.erased_rows(SimulatedErasedRows(world.usage, world.blocks, net))
    if slot.integrity is not None and world.substitutes.erased_compared:
        erased = CheckedErasedRows(erased, slot.integrity, world.loop.time)
    stores = ErasedStores(
        world.substitutes.erasure_ledger(SimulatedErasureLedger(world.erasures, net)),
        erased,
        SimulatedBlockLedger(world.blocks, net),
        renewed,
        SimulatedLog(world.log, net),
        _nothing,
        world.profile.retention_ms,
        SimulatedProgress(world.progress, net).layout,
    )
    chance = random.Random(world.rng.getrandbits(32))
    if world.profile.copies_take_s:
        stores = replace(
            stores,
            ledger=_Unhurried(stores.ledger, world.profile.copies_take_s),
            rows=_Unhurried(stores.rows, world.profile.copies_take_s),
        )
    return world.substitutes.eraser(stores, slot.process, chance)


class _Unhurried(Lying):
    """A port of whoever copies rows: he takes his time."""

    def __init__(self, port: Any, seconds: float) -> None:
        super().__init__(port)
        self._seconds = seconds

    async def unfilled(self, erasure: Erasure) -> Sequence[int]:
        await asyncio.sleep(self._seconds)
        asked: Sequence[int] = await self._port.unfilled(erasure)
        return asked

    async def copy(self, erasure: Erasure) -> None:
        await asyncio.sleep(self._seconds)
        await self._port.copy(erasure)


async def _nothing() -> None:
    """There are no files."""


async def erase_for_ever(turn: Callable[[], Awaitable[None]], rng: random.Random) -> None:
    """Every worker does it here, not only one: they must do each other no harm."""
    while True:
        await asyncio.sleep(rng.random() * 0.6)
        try:
            await turn()
        except (Unavailable, StoreLost):
            await asyncio.sleep(rng.random())


async def asked(world: World) -> None:
    """Subjects are to be erased, some of them again and again."""
    while world.profile.erases_s and await paused(world, world.profile.erases_s):
        _ask(world)


def _ask(world: World) -> None:
    if len(world.erasures.records) < ASKED_MAX:
        subject = world.rng.choice(SUBJECTS)
        told = world.erasures.ask(subject, world.time.now_ms())
        world.say(f"asked to erase {subject}: {told}")
        if told is not None and told.subject is not None:
            for state in (world.usage, world.usage.unerased, world.usage.undropped):
                if state is not None:
                    state.pseudonyms.add((told.subject, told.pseudonym))


def settled(world: World) -> bool:
    """Whether nothing is left of all erasures but what the log has."""
    over = (ErasureState.SETTLED, ErasureState.DONE)
    return all(it.state in over for it in world.erasures.records.values())


async def finished(world: World, workers: list[Slot]) -> None:
    """The log drops what is old, and every erasure is done."""
    if not world.profile.erases_s or world.lost():
        return
    await _nobody_behind(world, workers)
    world.time.jumped_ms += world.profile.retention_ms
    ends_s = world.loop.time() + DONE_S_MAX
    while world.erasures.open:
        world.time.jumped_ms += ERASURE_AGAIN_S * 1_000
        if world.profile.faust:
            await assign(world, workers, keep=True)
        await asyncio.sleep(1)
        if world.loop.time() > ends_s:
            states = [f"{int(it.id)} {it.state}" for it in world.erasures.open]
            world.fail(f"erasures come to no end: {states}")
            return
    for name in world.erasures.done:
        _judge_done(world, name)
    if world.minutes.on:
        look_at_erased(world)
        look_through_blocks(world)


async def _nobody_behind(world: World, workers: list[Slot]) -> None:
    """Days pass once no worker holds records that it has not written: one that does so for as long
    as the log keeps them is beyond what is promised (docs/guarantees.md, erasures, "Ends").
    """
    ends_s = world.loop.time() + READ_S_MAX
    while behind := [slot for slot in workers if _is_behind(world, slot)]:
        if world.loop.time() > ends_s:
            for slot in behind:
                slot.process.die()
        await asyncio.sleep(0.5)


def _is_behind(world: World, slot: Slot) -> bool:
    if slot.aggregator is None or slot.process.dead:
        return False
    there = slot.aggregator.partitions
    return any(it.flushed_end < world.log.end(number) for number, it in there.items())


def _judge_done(world: World, name: str) -> None:
    for words in left(world, name):
        world.fail(f"erasure {int(name)} is told as done, and {words}")


def begin(world: World) -> None:
    """From now on workers erase what they are asked to, somebody reads, and all is looked at."""
    if not world.profile.erases_s:
        return
    world.usage.unerased, world.progress.erases = UsageState(), True
    if world.minutes.on:
        world.usage.undropped = None
        world.blocks.real = lambda query: due(world.erasures, world.usage).usage(query)
    world.senders.name_themselves = True
    world.erase = lambda slot, net: [erase_for_ever(eraser_of(world, slot, net).turn, world.rng)]
    world.erasures.told = lambda name: _judge_done(world, name)
    world.loop.create_task(read_for_ever(world))
