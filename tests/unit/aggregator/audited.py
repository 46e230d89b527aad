"""A world that is audited, and the ways in which someone may touch what it stores."""

from collections.abc import Awaitable, Callable

import msgspec
from sqlalchemy import delete

from aggregator.audit.auditor import AuditTerms, StoreAuditor
from aggregator.audit.blocks import BlockAudit
from aggregator.step import Aggregator
from meterline.audit import (
    AuditSpan,
    AuditStep,
    CellRows,
    Chunk,
    Finding,
    Recount,
    SlicePlace,
)
from meterline.backends.clickhouse.audit.evidence import ClickHouseEvidence
from meterline.backends.clickhouse.blocks.store import ClickHouseBlockRows
from meterline.backends.clickhouse.connection import Connection as UsageConnection
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.progress.blocks import SqlBlockLedger
from meterline.backends.control_store.progress.dropped_revisions import SqlRevisionLedger
from meterline.backends.control_store.progress.evidence import SqlEvidence
from meterline.backends.control_store.tables.meters import seals
from meterline.event import decode_event
from meterline.meter import Meter
from meterline.number import UNIT
from meterline.usage import EventRow, Flush, SliceId, TallyRow, Unsealed
from tests.unit.aggregator.world import HORIZON_MS, Meters, World


class Recounting(ClickHouseEvidence):
    """Knows the revisions that were recounted."""

    def __init__(self, connection: UsageConnection) -> None:
        super().__init__(connection)
        self.recounted: list[int] = []

    async def recount(self, chunk: Chunk, meter: Meter, limit: int) -> Recount:
        self.recounted.append(meter.revision)
        return await super().recount(chunk, meter, limit)


class Audited:
    """A world with sealed and open slices of two meters, and of one that no event is of; and who
    audits it.
    """

    def __init__(
        self,
        world: World,
        meters: Meters,
        worker: Aggregator,
        block_rows: ClickHouseBlockRows | None = None,
    ) -> None:
        self.world = world
        self.meters = meters
        self.worker = worker
        self.evidence = Recounting(world.usage.connection)
        self.auditor = StoreAuditor(
            world.log, world.usage, world.progress, meters,  # type: ignore[arg-type]
            self.evidence, SqlEvidence(world.database),
            BlockAudit(
                SqlBlockLedger(world.database),
                block_rows or ClickHouseBlockRows(world.usage.connection),
                world.clock,
                Unsealed(SqlRevisionLedger(world.database)),
            ),
            AuditTerms(HORIZON_MS),
        )  # fmt: skip

    async def sealed(self, partition: int = 0) -> SliceId:
        """The first slice that is sealed, and has events."""
        place = SlicePlace(self.world.log.number, partition, 0)
        seals = await SqlEvidence(self.world.database).seals(place, AuditSpan(), 9)
        return SliceId(*next(seal for seal in seals if seal.events)[:3])

    async def sql(self, table: str, change: str, slice_id: SliceId) -> None:
        log, partition, slice_ = slice_id
        where = f"log = {log} AND partition = {partition} AND slice = {slice_}"
        sql = f"ALTER TABLE {table} {change.format(where=where)} SETTINGS mutations_sync = 2"
        await self.world.usage.connection.execute(sql)

    async def steps(
        self, span: AuditSpan | None = None, within: str = "", begin: str | None = None
    ) -> list[AuditStep]:
        """The whole audit, or that of a part: from a cursor on, while cursors begin like this."""
        made = []
        cursor = begin
        while True:
            made.append(await self.auditor.step(span or AuditSpan(), cursor))
            cursor = made[-1].next
            if cursor is None or not cursor.startswith(within):
                return made

    async def findings(self, span: AuditSpan | None = None) -> list[Finding]:
        """What the first partition has."""
        steps = await self.steps(span, f"slices.{self.world.log.number}.0.")
        assert not any(step.omitted for step in steps)
        return [one for step in steps for one in step.findings]

    async def event(self, slice_id: SliceId) -> EventRow:
        """An event of a slice."""
        return (await self.world.usage.slice_events(slice_id))[3]

    async def cells(self, slice_id: SliceId, meter: int = 0) -> CellRows:
        """What is stored of a meter."""
        evidence = ClickHouseEvidence(self.world.usage.connection)
        return await evidence.cells(slice_id, self.meters.meters[meter].revision)

    async def tally(self, slice_id: SliceId) -> TallyRow:
        """A tally of the first meter."""
        return (await self.cells(slice_id)).tallies[0]

    async def write(self, flush: Flush) -> None:
        """Put rows into the store past everybody."""
        await self.world.usage.write(flush)


Touch = Callable[[Audited, SliceId], Awaitable[None]]


async def tally_deleted(it: Audited, slice_id: SliceId) -> None:
    tally = await it.tally(slice_id)
    where = f"subject = '{tally.subject}' AND window = {tally.window}"
    await it.sql("tallies", f"DELETE WHERE {{where}} AND {where}", slice_id)


async def tally_changed(it: Audited, slice_id: SliceId) -> None:
    tally = await it.tally(slice_id)
    changed = tally._replace(total=tally.total + UNIT, version=tally.version + 1)
    await it.write(Flush(tallies=[changed]))


async def tally_added(it: Audited, slice_id: SliceId) -> None:
    await it.write(Flush(tallies=[(await it.tally(slice_id))._replace(subject="nobody")]))


async def slice_invented(it: Audited, slice_id: SliceId) -> None:
    await it.write(Flush(tallies=[(await it.tally(slice_id))._replace(slice=10**9)]))


async def member_added(it: Audited, slice_id: SliceId) -> None:
    cells = await it.cells(slice_id, meter=1)
    await it.write(Flush(members=[cells.members[0]._replace(member=bytes(16))]))


async def members_deleted(it: Audited, slice_id: SliceId) -> None:
    await it.sql("members", "DELETE WHERE {where}", slice_id)


async def event_deleted(it: Audited, slice_id: SliceId) -> None:
    one = await it.event(slice_id)
    where = f"place = {one.place} AND offset = {one.offset}"
    await it.sql("events", f"DELETE WHERE {{where}} AND {where}", slice_id)


async def event_and_log_gone(it: Audited, slice_id: SliceId) -> None:
    await it.world.log.trim(slice_id.partition, 2, it.world.clock.now_ms() + 1)
    await event_deleted(it, slice_id)


async def event_changed(it: Audited, slice_id: SliceId) -> None:
    one = await it.event(slice_id)
    document = {**msgspec.json.decode(one.text), "data": {"v": 1_000_000}}
    told = msgspec.json.encode(document).decode().replace("{", "{{").replace("}", "}}")
    where = f"{{where}} AND place = {one.place} AND offset = {one.offset}"
    await it.sql("events", f"UPDATE text = '{told}' WHERE {where}", slice_id)


async def event_added(it: Audited, slice_id: SliceId) -> None:
    one = await it.event(slice_id)
    event = decode_event(msgspec.json.encode({**msgspec.json.decode(one.text), "id": "invented"}))
    invented = one._replace(place=400, key=event.key, id=event.id, text=event.text)
    await it.write(Flush(events=[invented]))


async def trace_deleted(it: Audited, slice_id: SliceId) -> None:
    one = await it.event(slice_id)
    where = f"place = {one.place} AND offset = {one.offset}"
    await it.sql("seen", f"DELETE WHERE {{where}} AND {where}", slice_id)


async def reject_deleted(it: Audited, slice_id: SliceId) -> None:
    await it.sql("rejects", "DELETE WHERE {where}", slice_id)


async def account_deleted(it: Audited, slice_id: SliceId) -> None:
    await it.sql("accounts", "DELETE WHERE {where}", slice_id)


async def account_changed(it: Audited, slice_id: SliceId) -> None:
    account = await it.world.usage.account(slice_id)
    assert account is not None
    changed = account._replace(
        version=account.version + 1,
        received=account.received + 5,
        duplicate=account.duplicate + 5,
    )
    await it.write(Flush(accounts=[changed]))


async def account_impossible(it: Audited, slice_id: SliceId) -> None:
    account = await it.world.usage.account(slice_id)
    assert account is not None
    changed = account._replace(version=account.version + 1, received=account.received + 5)
    await it.write(Flush(accounts=[changed]))


async def seal_deleted(it: Audited, slice_id: SliceId) -> None:
    log, partition, slice_ = slice_id

    async def forget(connection: Connection) -> None:
        await connection.execute(
            delete(seals).where(
                seals.c.log == log, seals.c.partition == partition, seals.c.slice == slice_
            )
        )

    await it.world.database.write(forget)


TOUCHES: dict[str, Touch] = {
    "tally deleted": tally_deleted,
    "tally changed": tally_changed,
    "tally added": tally_added,
    "slice invented": slice_invented,
    "member added": member_added,
    "members deleted": members_deleted,
    "event deleted": event_deleted,
    "event deleted, log gone": event_and_log_gone,
    "event changed": event_changed,
    "event added": event_added,
    "trace deleted": trace_deleted,
    "reject deleted": reject_deleted,
    "account deleted": account_deleted,
    "account changed": account_changed,
    "account impossible": account_impossible,
    "seal deleted": seal_deleted,
}
