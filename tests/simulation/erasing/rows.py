"""Rows of an erased subject in the simulated usage store: copied, redacted, deleted.

Every statement may land late, in part, or twice, as those of everybody do.
"""

import json
import random
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from meterline.event import ERASED_START
from meterline.meter import decode_groups, encode_groups
from meterline.ports import Unavailable
from meterline.usage import Erasure
from tests.simulation.blocks import BlockRow, BlocksState
from tests.simulation.network import Net
from tests.simulation.usage import UsageState

CELLS: Final = ("tallies", "members", "late_tallies", "late_members")
REDACTED: Final = ("events", "rejects", "rejected")
_Place = tuple[int, int, int, int]


def copies(state: UsageState, table: str, erasure: Erasure) -> list[Any]:
    """The rows that a table must have under the pseudonym."""
    mine = [it for it in state.tables[table].values() if _is_copied(it, erasure, erasure.name)]
    return [renamed(it, erasure.name, erasure.pseudonym) for it in mine]


def _is_copied(row: Any, erasure: Erasure, subject: str) -> bool:
    if row.revision in erasure.unfilled or row.revision not in erasure.revisions:
        return False
    first = erasure.firsts.get(row.partition, 0)
    return _is_below(row, erasure) and row.slice >= first and row.subject == subject


def _is_below(row: Any, erasure: Erasure) -> bool:
    return bool(row.log == erasure.log and row.slice < erasure.ends.get(row.partition, 0))


def renamed(row: Any, name: str, pseudonym: str) -> Any:
    """A row of cells under another name, in its groups, too."""
    values = [pseudonym if it == name else it for it in decode_groups(row.groups)]
    return row._replace(subject=pseudonym, groups=encode_groups(values))


def differing(state: UsageState, table: str, erasure: Erasure) -> bool:
    """Whether what is under the pseudonym is not what is under the name."""
    rows = state.tables[table].values()
    there = {it for it in rows if _is_copied(it, erasure, erasure.pseudonym)}
    return there != set(copies(state, table, erasure))


def redactions(state: UsageState, table: str, erasure: Erasure) -> list[tuple[Any, Any]]:
    """The rows of a table that have the name, and what is to be left of each."""
    named = (it for it in state.tables[table].values() if _is_named(table, it, erasure))
    return [(it, redacted(table, it, erasure)) for it in named if _is_below(it, erasure)]


def _is_named(table: str, row: Any, erasure: Erasure) -> bool:
    if row.subject == erasure.name:
        return True
    unreadable = table == "rejects" and row.kind == "invalid" and row.subject == ""
    return unreadable and erasure.name.encode() in row.text


def redacted(table: str, row: Any, erasure: Erasure) -> Any:
    """What is left of a row."""
    if table == "rejected":
        return renamed(row, erasure.name, erasure.pseudonym)._replace(value="")
    source = "erased" if erasure.name in row.source else row.source
    left = row._replace(id=f"erased-{row.key.hex()}", source=source, subject=erasure.pseudonym)
    if table == "rejects":
        return left._replace(text=b"" if row.kind == "invalid" else _text(left), reason="")
    return left._replace(text=_text(left))


def _text(row: Any) -> bytes:
    members = {
        "namespace": row.namespace, "specversion": "1.0", "type": row.type, "source": row.source,
        "id": row.id, "subject": row.subject, "time": _instant(row.time_ms),
    }  # fmt: skip
    rest = json.dumps(members, separators=(",", ":"))[1:]
    return f'{ERASED_START}"{_instant(row.recorded_ms)}",{rest}'.encode()


def _instant(at_ms: int) -> str:
    moment = datetime.fromtimestamp(at_ms // 1_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ms % 1_000:03d}Z"


class SimulatedErasedRows:
    """`ErasedRows` as one process reaches it."""

    def __init__(self, usage: UsageState, blocks: BlocksState, net: Net) -> None:
        self._usage = usage
        self._blocks = blocks
        self._net = net

    async def copy(self, erasure: Erasure) -> None:
        for table in CELLS:
            await self._change(f"copy_{table}", partial(self._copied, table, erasure))
        for table in CELLS:
            act = partial(differing, self._usage, table, erasure)
            if await self._net.call(f"usage.compare_{table}", act):
                raise Unavailable(f"usage store: {table} has other copies than rows")

    def _copied(self, table: str, erasure: Erasure, chosen: Callable[[], bool]) -> None:
        rows, forgets = copies(self._usage, table, erasure), self._usage.forgets
        if forgets is not None and forgets.random() < self._usage.forgets_share:
            rows = [it for it in rows if forgets.random() < 0.5]
        self._usage.copy(table, [it for it in rows if chosen()])

    async def refusals_of(
        self, erasure: Erasure, redriven: Sequence[tuple[_Place, str, str]]
    ) -> list[_Place]:
        del erasure
        assert not redriven, "nothing is sent anew here"
        return []

    async def redact(self, erasure: Erasure) -> None:
        for table in REDACTED:
            await self._change(f"redact_{table}", partial(self._redacted, table, erasure))

    def _redacted(self, table: str, erasure: Erasure, chosen: Callable[[], bool]) -> None:
        pairs = redactions(self._usage, table, erasure)
        self._usage.rewrite(table, [pair for pair in pairs if chosen()])

    async def delete(self, erasure: Erasure) -> None:
        for table in CELLS:
            await self._change(f"delete_{table}", partial(self._deleted, table, erasure))

    def _deleted(self, table: str, erasure: Erasure, chosen: Callable[[], bool]) -> None:
        rows = self._usage.tables[table].values()
        mine = [it for it in rows if it.subject == erasure.name and _is_below(it, erasure)]
        of_revisions = [it for it in mine if it.revision in erasure.revisions]
        self._usage.delete(table, [it for it in of_revisions if chosen()])

    async def blocks_with(self, erasure: Erasure) -> Collection[int]:
        def find() -> set[int]:
            return {
                number
                for number, rows in self._blocks.rows.items()
                if any(row.cell.subject == erasure.name for row in rows)
            }

        return await self._net.call("usage.blocks_with", find)

    async def forget(self) -> None:
        await self._net.call("usage.forget", lambda: None, writes=True)

    async def _change(self, what: str, act: Callable[[Callable[[], bool]], None]) -> None:
        def some(rng: random.Random) -> None:
            share = rng.choice((0.0, 0.5, 1.0))
            act(lambda: rng.random() < share)

        await self._net.call(f"usage.{what}", lambda: act(lambda: True), part=some, writes=True)


def under_pseudonym(erasure: Erasure) -> Callable[[BlockRow], BlockRow]:
    """How a renewed block names a row."""

    def rename(row: BlockRow) -> BlockRow:
        cell = row.cell
        if cell.subject != erasure.name or cell.revision not in erasure.revisions:
            return row
        return row._replace(cell=renamed(cell, erasure.name, erasure.pseudonym))

    return rename
