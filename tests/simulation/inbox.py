"""The simulated inbox: topics of producers without HTTP, their readers, and who watches them."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from ingest.admission import AdmissionRules
from ingest.inbox.admission import InboxRecord
from ingest.inbox.consumer import take
from ingest.publisher import Publisher
from meterline.backends.kafka.inbox import InboxWatch
from meterline.ports import Clock, Unavailable
from meterline.problem import Problem
from tests.simulation.log import SimulatedLog
from tests.simulation.network import Net, Process
from tests.simulation.workers import LAG_MS

TAKEN_MAX: Final = 5  # records of one turn


@dataclass(slots=True)
class InboxState:
    """Partitions of one topic, and what the group of its readers committed."""

    clock: Clock
    partitions: list[list[InboxRecord]] = field(default_factory=lambda: [[], []])
    committed: dict[int, int] = field(default_factory=dict)

    def append(self, number: int, value: bytes) -> int:
        """The instant of the append."""
        records, at_ms = self.partitions[number], self.clock.now_ms()
        records.append(InboxRecord("inbox", number, len(records), at_ms, (), value))
        return at_ms

    def send(self, number: int, event: Mapping[str, Any]) -> int:
        """An event as its producer writes it."""
        return self.append(number, json.dumps(event).encode())

    def read(self, number: int, start: int) -> list[InboxRecord]:
        return self.partitions[number][start : start + TAKEN_MAX]

    def commit(self, number: int, end: int) -> None:
        """Never back: Kafka refuses who is of an older generation of the group."""
        self.committed[number] = max(end, self.committed.get(number, 0))

    def ends(self) -> dict[int, int]:
        return {n: len(records) for n, records in enumerate(self.partitions) if records}


class SimulatedWatch(InboxWatch):
    """The production rule of what is drained, over the simulated topics."""

    def __init__(self, state: InboxState, net: Net) -> None:
        super().__init__("simulated", "group", ("inbox",), margin_ms=LAG_MS)
        self._state = state
        self._net = net

    async def _borders(self) -> tuple[Any, Any]:
        ends = await self._net.call("inbox.ends", self._state.ends)
        return ends, dict.fromkeys(ends, -1)

    async def _topic_ids(self) -> Mapping[str, str]:
        return {"inbox": "the only one of its name"}

    async def _committed(self, ends: Mapping[Any, int]) -> Any:
        committed = await self._net.call("inbox.committed", lambda: dict(self._state.committed))
        return {number: committed.get(number, -1) for number in ends}


async def read_for_ever(state: InboxState, log: SimulatedLog, net: Net, process: Process) -> None:
    """The life of a reader: take records, and commit once they are durable in the log."""
    rules = AdmissionRules(partitions=log.routes)
    publisher = Publisher(log, process)
    position = dict(state.committed)
    while True:
        await asyncio.sleep(0.1)
        for number in range(len(state.partitions)):
            start = position.get(number, 0)
            try:
                found = await net.call(
                    f"inbox.read {number} {start}",
                    partial(state.read, number, start),
                )
                if not found:
                    continue
                await take(found, "default", publisher, log, rules)
                end = start + len(found)
                await net.call(
                    f"inbox.commit {number} {end}",
                    partial(state.commit, number, end),
                    writes=True,
                )
            except (Problem, Unavailable):
                continue
            position[number] = end
