"""Answers about usage while subjects are erased: at every moment what they would be without, but
for the name.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from meterline.backends.clickhouse.usage.snapshot import BlockSnapshot
from meterline.meter import Meter, dimensions_ever, timeline
from meterline.ports import Unavailable
from meterline.problem import Problem
from meterline.usage import Coverage, UsageQuery, columns_of, concerning
from tests.simulation.block_makers import SimulatedBlockLedger
from tests.simulation.blocks import values_of
from tests.simulation.erasing.records import ErasuresState
from tests.simulation.erasing.rows import renamed
from tests.simulation.fates import Fates, Rates
from tests.simulation.network import Net
from tests.simulation.usage import UsageState
from tests.simulation.world import World

SLOWLY: Final = Rates(0, 0, 0, 0, 0, slow=300, zombie=0, twice=0)


def due(state: ErasuresState, usage: UsageState) -> UsageState:
    """The rows that answers are to be read from: none is erased, and each has the name that it is
    found under now.
    """
    made = UsageState()
    for table in ("tallies", "members"):
        rows = [it for row in usage.whole.tables[table].values() for it in _shown(state, row)]
        made.tables[table] = dict(enumerate(rows))  # type: ignore[arg-type]
    return made


def _shown(state: ErasuresState, row: Any) -> Iterator[Any]:
    shown = state.shown_as(row.subject, row.partition, row.slice)
    if shown == row.subject:
        yield row
    elif not state.erased_for(row.revision, shown):  # younger: somebody late had counted it
        yield renamed(row, row.subject, shown)


def queries(meter: Meter) -> Iterator[UsageQuery]:
    """The grand total; and by subject and group."""
    yield UsageQuery(meter)
    yield UsageQuery(meter, group_by=("subject", *dimensions_ever(meter)))


def look_at_erased(world: World) -> None:
    """What every meter says now, by its tallies; where minutes are not kept, by blocks, too."""
    if not world.profile.erases_s or world.binding.lost is not None:
        return
    real = due(world.erasures, world.usage)
    for meter in world.catalogue.meters:
        for query in queries(meter):
            said = _said(world, query)
            if said is not None and said != (must := values_of(real.usage(query))):
                world.fail(f"erased, revision {meter.revision}: {_unlike(said, must)}")
                return


def _said(world: World, query: UsageQuery) -> list[Any] | None:
    """None where it is refused, as it may be."""
    revisions, hidden = {part.revision for part in timeline(query.meter)}, world.erasures.hidden()
    if not world.minutes.on:
        return values_of(world.usage.usage(query, hidden=hidden))
    if world.blocks.damaged():
        return None
    log = world.log.number
    columns = columns_of(it for it in world.blocks.records.values() if it.log == log)
    coverage = world.blocks.coverage(log, columns, revisions)
    hidden = concerning(hidden, revisions)
    return _read(world, query, replace(coverage, hidden=hidden, dropped=world.minutes.dropped()))


def _read(world: World, query: UsageQuery, coverage: Coverage) -> list[Any] | None:
    """What is said through blocks at this instant; None where it is refused, as it may be."""
    if world.minutes.is_partial(coverage.log):
        return None
    try:
        said = values_of(world.blocks.through(query, coverage, coverage.hidden))
    except (Problem, Unavailable) as refusal:
        if not world.minutes.is_fair(query, coverage.dropped, refusal):
            world.fail(f"refused, revision {query.meter.revision}: {refusal}")
        return None
    switched = any(it.erased for it in coverage.hidden)
    world.minutes.met["answers without minutes and names"] += bool(coverage.dropped) and switched
    return said


def _unlike(said: Sequence[Any], must: Sequence[Any]) -> str:
    more, less = [it for it in said if it not in must], [it for it in must if it not in said]
    return f"says {more[:4]}, and not {less[:4]}"


class Reader:
    """Whoever reads usage as the product does, through blocks, and takes his time."""

    def __init__(self, world: World, net: Net) -> None:
        self._world = world
        self._net = net
        ledger = SimulatedBlockLedger(world.blocks, net)
        self._snapshot = BlockSnapshot(ledger, world.log.number, world.masks(net))

    async def ask(self, query: UsageQuery) -> None:
        """An answer, or none for the moment."""
        world = self._world
        revisions = {part.revision for part in timeline(query.meter)}
        try:
            coverage = await self._snapshot.coverage(revisions)
            act = partial(self._read, query, coverage)
            said, must = await self._net.call("usage.usage", act)
            await self._snapshot.confirm(coverage, revisions)
        except Unavailable:
            world.fates.note("answer refused to a reader: ask again")
            return
        if said is not None and said != must:
            words = _unlike(said, must)
            world.fail(f"a reader, revision {query.meter.revision}: {words}")

    def _read(self, query: UsageQuery, coverage: Coverage) -> tuple[Any, Any]:
        """What is said at this instant, and what is to be."""
        world = self._world
        gone = query.meter not in world.catalogue.meters  # nobody is answered about it any more
        if gone or world.binding.lost is not None or world.blocks.damaged():
            return None, None
        must = due(world.erasures, world.usage).usage(query)
        return _read(world, query, coverage), values_of(must)


def reader_of(world: World) -> Reader:
    """One whom nothing befalls, but that answers take their time."""
    return Reader(world, world.net(world.process("reader"), Fates(world.rng, SLOWLY)))


async def read_for_ever(world: World) -> None:
    """Usage is read, again and again."""
    reader = reader_of(world)
    while not world.over:
        for meter in world.catalogue.meters:
            for query in queries(meter):
                await reader.ask(query)
        await asyncio.sleep(world.rng.random() * 0.6)
