"""`python -m tests.faults.process ROLE ...`: the command `meterline`, with traps in its adapters.

The adapters of the composition root are put behind classes that do the same and then look whether
this is the step to die at. Everything else is the product as it is; only slices and leases are
shorter, so that borders are passed every few seconds, and whoever stands still loses what it held.
None of this is reachable from production.
"""

import os
import signal
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import aggregator.blocks
import aggregator.erasure
import aggregator.slice.border
import meterline.usage.erasure
from aggregator.blocks import BlockMaker
from aggregator.drivers import block_loop
from aggregator.drivers.block_loop import BesideCounting, Driver, WithBlocks
from dispatcher.runs.planner import PlanTerms
from dispatcher.sending.attempt import SendTerms
from meterline.backends.clickhouse.blocks.erasure import ClickHouseErasedRows
from meterline.backends.clickhouse.blocks.store import ClickHouseBlockRows
from meterline.backends.clickhouse.connection import Connection, Rows
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.control_store.progress.blocks import SqlBlockLedger
from meterline.backends.control_store.progress.erasures import SqlErasureStore
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.backends.control_store.report_store import SqlReportStore
from meterline.backends.kafka.record import kafka_record
from meterline.backends.rocksdb import RocksSeenStore, Seen
from meterline.backends.webhook.sender import HttpWebhookSender
from meterline.delivery import Answer, AttemptEnd, DeliveryDraft, EndpointChange, HealthTerms
from meterline.event import Record
from meterline.report import Claim, Manifest
from meterline.runtime import cli
from meterline.runtime.wiring import adapters, counting, reports, sending
from meterline.usage import Block, Counted, Erasure, Renewal, Seal, SliceId, TallyRow
from tests.faults.labels import (
    DROPPED_MARK,
    LEASE_VARIABLE,
    SLICE_VARIABLE,
    Act,
    Label,
    Trap,
    Without,
    told_without,
)

AFTER_INSERT: Final = {
    "events": Label.EVENTS,
    "tallies": Label.TALLIES,
    "accounts": Label.ACCOUNT,
}
HALVED: Final = {"events", "tallies", "members"}
TALLIES: Final = {"tallies", "late_tallies"}  # blocks are made of one of both
# By the order in which slices are written first. They are sealed long before the end, and are begun
# long after the meters were made: nothing is filled in there later.
LIED_ABOUT: Final = range(8, 14)
FAN: Final = 3  # blocks that are merged
_SIGNALS: Final = {Act.KILL: signal.SIGKILL, Act.FREEZE: signal.SIGSTOP}


def _uncounted(row: TallyRow) -> TallyRow:
    """A row that is there, so that no number of rows tells that what it said is lost."""
    return row._replace(version=0, total=0, counted=0)


class Snare:
    """The trap of this process, if it has one, and how often its label was passed."""

    def __init__(self) -> None:
        self.trap: Trap | None = None
        self._times = 0

    def reaches(self, label: Label) -> bool:
        """Whether this is the time to die."""
        if self.trap is None or self.trap.label is not label:
            return False
        self._times += 1
        return self._times == self.trap.at

    def passed(self, label: Label) -> None:
        """Die, if it is time."""
        if self.reaches(label):
            self.spring()

    def spring(self) -> None:
        """Say so, and die; or stand still until somebody else lets this process go on."""
        assert self.trap is not None, "only a trap springs"
        os.write(2, f"{self.trap.mark}\n".encode())
        os.kill(os.getpid(), _SIGNALS[self.trap.act])


class Liar:
    """An ill store: it acknowledges all tallies of some slices and loses what they say, each the
    first time. What is written again is kept.
    """

    def __init__(self) -> None:
        self._slices: dict[tuple[int, int], int] = {}  # as they are written first, from 0
        self._told: set[tuple[str, TallyRow]] = set()

    def kept(self, table: str, row: TallyRow) -> TallyRow:
        """What the store holds of a row that it was given."""
        order = self._slices.setdefault((row.partition, row.slice), len(self._slices))
        if order not in LIED_ABOUT or (table, row) in self._told:
            return row
        self._told.add((table, row))
        return _uncounted(row)


SNARE: Final = Snare()
LIAR: Final = Liar()
TAKEN: Final[set[Without]] = set()


class SnaredConnection(Connection):
    """Dies after, or in the middle of, an insert."""

    async def insert(self, table: str, columns: Sequence[str], rows: Rows) -> None:
        if table in HALVED and len(rows) > 1 and SNARE.reaches(Label.HALF):
            await super().insert(table, columns, rows[: len(rows) // 2])
            SNARE.spring()
        if table in TALLIES and Without.LOSSLESS_STORE in TAKEN:
            given = [TallyRow._make(row) for row in rows]
            rows = [LIAR.kept(table, row) for row in given]
            if rows != given:
                os.write(2, f"{DROPPED_MARK}\n".encode())
        await super().insert(table, columns, rows)
        if table in AFTER_INSERT:
            SNARE.passed(AFTER_INSERT[table])

    async def insert_packed(
        self, table: str, columns: Sequence[str], rows: Iterable[bytes]
    ) -> None:
        packed = list(rows)
        if len(packed) > 1 and SNARE.reaches(Label.HALF_SEEN):
            await super().insert_packed(table, columns, packed[: len(packed) // 2])
            SNARE.spring()
        await super().insert_packed(table, columns, packed)


class SnaredUsageStore(ClickHouseUsageStore):
    """Dies once a slice was counted back."""

    async def count_back(self, slice_id: SliceId, revisions: Sequence[int]) -> dict[str, Counted]:
        found = await super().count_back(slice_id, revisions)
        SNARE.passed(Label.COUNTED_BACK)
        return found


class SnaredProgressStore(SqlProgressStore):
    """Dies once something is recorded."""

    async def flushed(self, log: int, catalogue: int, offset_ends: Mapping[int, int]) -> None:
        await super().flushed(log, catalogue, offset_ends)
        SNARE.passed(Label.PROGRESS)

    async def seal(self, seal: Seal) -> None:
        await super().seal(seal)
        SNARE.passed(Label.SEALED)

    async def complete(self, log: int, catalogue: int, until_ms: Mapping[int, int]) -> None:
        await super().complete(log, catalogue, until_ms)
        SNARE.passed(Label.CLAIMED)

    async def mark_filled(self, *told: Any) -> None:
        await super().mark_filled(*told)
        SNARE.passed(Label.FILLED)


class SnaredSeenStore(RocksSeenStore):
    """Dies once the keys of a slice are in; or forgets them."""

    def apply(self, keys: bytes, applied: int) -> None:
        super().apply(keys, applied)
        SNARE.passed(Label.SEEN)

    def get_many(self, keys: Sequence[bytes]) -> list[Seen | None]:
        if Without.SEEN in TAKEN:
            return [None] * len(keys)
        return super().get_many(keys)


class SnaredBlockRows(ClickHouseBlockRows):
    """Dies once a table of a block, or all of it, is written, or dropped."""

    async def _write(self, name: str, statement: str, parameters: dict[str, Any]) -> None:
        await super()._write(name, statement, parameters)
        SNARE.passed(Label.BLOCK_TABLE)

    async def make(self, block: Block, sources: Sequence[int]) -> None:
        await super().make(block, sources)
        SNARE.passed(Label.BLOCK_MADE)

    async def drop(self, numbers: Collection[int]) -> None:
        await super().drop(numbers)
        if numbers:
            SNARE.passed(Label.BLOCK_DROPPED)


class SnaredBlockLedger(SqlBlockLedger):
    """Dies once something of a block is recorded."""

    async def begin(self, block: Block) -> None:
        await super().begin(block)
        SNARE.passed(Label.BLOCK_BEGUN)

    async def publish(
        self, block: Block, rows: Mapping[str, int], sources: Collection[int], now_ms: int
    ) -> bool:
        readable = await super().publish(block, rows, sources, now_ms)
        if readable:
            SNARE.passed(Label.BLOCK_MERGED if sources else Label.BLOCK_READABLE)
        return readable


class SnaredErasedRows(ClickHouseErasedRows):
    """Dies once rows of a subject are copied, redacted or deleted."""

    async def copy(self, erasure: Erasure) -> None:
        await super().copy(erasure)
        SNARE.passed(Label.ERASURE_COPIED)

    async def redact(self, erasure: Erasure) -> None:
        await super().redact(erasure)
        SNARE.passed(Label.ERASURE_REDACTED)

    async def delete(self, erasure: Erasure) -> None:
        await super().delete(erasure)
        SNARE.passed(Label.ERASURE_DELETED)


class SnaredErasureStore(SqlErasureStore):
    """Dies once an erasure is recorded as switched or settled."""

    async def switch(self, erasure_id: str, renewals: Sequence[Renewal], now_ms: int) -> None:
        await super().switch(erasure_id, renewals, now_ms)
        SNARE.passed(Label.ERASURE_SWITCHED)

    async def settle(self, erasure_id: str, now_ms: int) -> None:
        await super().settle(erasure_id, now_ms)
        SNARE.passed(Label.ERASURE_SETTLED)


class BusyMaker(WithBlocks):
    """Every worker makes blocks, not only one, hardly ever rests, and waits for no seals: slices of
    400 events end all the time.
    """

    def __init__(self, driver: Driver, maker: BlockMaker, counted: BesideCounting) -> None:
        always = replace(counted, holds=lambda: True, rests=lambda: 0, is_sealing=lambda: False)
        super().__init__(driver, maker, always)


def _hurry_blocks() -> None:
    """Merge, drop and forget within seconds what else takes minutes or hours."""
    block_loop.__dict__["BLOCK_LOOK_S"] = 0.3
    block_loop.__dict__["BLOCK_SWEEP_S"] = 1
    aggregator.blocks.__dict__["BLOCK_KEPT_MS"] = 5_000
    # of a maker that was killed: longer than one that is frozen stands still
    aggregator.blocks.__dict__["BLOCK_MAKING_MS"] = 100_000
    aggregator.erasure.__dict__["ERASURE_AGAIN_S"] = 1
    aggregator.erasure.__dict__["CLOCK_SKEW_MS"] = 1_000
    meterline.usage.erasure.__dict__["ERASURE_PARTS_MS"] = 2_000
    counting.__dict__["BlockMaker"] = partial(BlockMaker, fan=FAN)


class SnaredReportStore(SqlReportStore):
    """Dies once something of a run is recorded."""

    async def stage(
        self, claim: Claim, drafts: Sequence[DeliveryDraft], lease_until_ms: int | None = None
    ) -> bool:
        held = await super().stage(claim, drafts, lease_until_ms)
        SNARE.passed(Label.STAGED)
        return held

    async def decide(
        self, claim: Claim, meter_revision: int, manifest: Manifest, now_ms: int
    ) -> bool:
        decided = await super().decide(claim, meter_revision, manifest, now_ms)
        SNARE.passed(Label.DECIDED)
        return decided

    async def record(
        self, ends: Sequence[AttemptEnd], now_ms: int, terms: HealthTerms | None = None
    ) -> list[EndpointChange]:
        changes = await super().record(ends, now_ms, terms)
        SNARE.passed(Label.RECORDED)
        return changes


class SnaredSender(HttpWebhookSender):
    """Dies before or after a POST."""

    async def send(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        SNARE.passed(Label.SIGNED)
        answer = await super().send(url, body, headers)
        SNARE.passed(Label.SENT)
        return answer


def snared_record(*parts: Any) -> Record:
    """A record that Faust has brought."""
    record = kafka_record(*parts)
    SNARE.passed(Label.POLLED)
    return record


def _snare_commits() -> None:
    """Faust commits in a thread of its own: there is no port between it and the broker."""
    from faust.transport.drivers import aiokafka as driver  # noqa: PLC0415 - a second to import

    class SnaredThread(driver.AIOKafkaConsumerThread):
        async def _commit(self, offsets: Any) -> bool:
            done: bool = await super()._commit(offsets)
            if offsets and done:
                SNARE.passed(Label.COMMITTED)
            return done

    driver.__dict__["AIOKafkaConsumerThread"] = SnaredThread


def prepare(environment: Mapping[str, str]) -> None:
    """Set the trap, and put the adapters behind theirs."""
    SNARE.trap = Trap.told(environment)
    TAKEN.update(told_without(environment))
    if slice_events := environment.get(SLICE_VARIABLE):
        aggregator.slice.border.__dict__["SLICE_EVENTS_MAX"] = int(slice_events)
    substitutes: dict[str, Any] = {
        "Connection": SnaredConnection,
        "ClickHouseUsageStore": SnaredUsageStore,
        "SqlProgressStore": SnaredProgressStore,
        "RocksSeenStore": SnaredSeenStore,
        "ClickHouseBlockRows": SnaredBlockRows,
        "SqlBlockLedger": SnaredBlockLedger,
        "ClickHouseErasedRows": SnaredErasedRows,
        "SqlErasureStore": SnaredErasureStore,
        "WithBlocks": BusyMaker,
        "SqlReportStore": SnaredReportStore,
        "HttpWebhookSender": SnaredSender,
        "kafka_record": snared_record,
    }
    if lease_s := environment.get(LEASE_VARIABLE):
        lease_ms = int(lease_s) * 1_000
        reports.__dict__["PlanTerms"] = partial(PlanTerms, lease_ms=lease_ms)
        sending.__dict__["SendTerms"] = partial(SendTerms, lease_ms=lease_ms)
    if Without.COUNT_BACK in TAKEN:
        from tests.simulation.defences import WithoutCountBack  # noqa: PLC0415 - the simulation

        substitutes["Aggregator"] = WithoutCountBack
    _hurry_blocks()
    roots = [adapters.__dict__, counting.__dict__, reports.__dict__]
    missing = substitutes.keys() - {name for root in roots for name in root}
    assert not missing, f"the composition root names them otherwise now: {missing}"
    for root in roots:
        root.update({name: it for name, it in substitutes.items() if name in root})
    if SNARE.trap is not None and SNARE.trap.label is Label.COMMITTED:
        _snare_commits()


def main(arguments: Sequence[str]) -> None:
    """Be `meterline` with these arguments, as the environment says."""
    prepare(os.environ)
    cli.main(list(arguments), prog_name="meterline")


if __name__ == "__main__":
    main(sys.argv[1:])
