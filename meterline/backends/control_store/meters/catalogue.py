"""CatalogueStore over SQL.

Every change first takes its turn, or the next version, in the same transaction: so changes happen
one after the other, and whoever sees a version sees every change up to it.
"""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Select, case, func, insert, select, update
from ulid import ULID

from meterline.access import AGGREGATOR, COMMAND, SETTINGS, Action
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.meters import revision_rows as revisions
from meterline.backends.control_store.meters import rows, settings_file
from meterline.backends.control_store.meters import update as updates
from meterline.backends.control_store.meters.rate import mind_rate
from meterline.backends.control_store.meters.update import Asked
from meterline.backends.control_store.store import (
    SqlStore,
    fetch_int,
    reads,
    row_of,
    writes,
)
from meterline.backends.control_store.tables.meters import (
    catalogue_version,
    meter_revisions,
    meters,
)
from meterline.limits import METERS_MAX
from meterline.meter import (
    Aggregation,
    Catalogue,
    FoldedRevisions,
    ListedMeter,
    Meter,
    MeterChange,
    MeterDraft,
    NewestRevisions,
    RevisionState,
)
from meterline.problem import conflict


async def _create(
    connection: Connection,
    namespace: str,
    draft: MeterDraft,
    now_ms: int,
    meters_max: int,
    *,
    author: str = COMMAND,
    from_settings: bool = False,
) -> Meter:
    """Raises `Problem` (conflict) also for a namespace that has all meters it may have."""
    version = await rows.next_version(connection)
    if not from_settings:
        await mind_rate(connection, namespace, now_ms)
    if await rows.with_key(connection, namespace, draft.key) is not None:
        raise conflict(f"There is a meter with the key {draft.key!r} already; choose another key.")
    live = meters.c.namespace == namespace, meters.c.deleted_at_ms.is_(None)
    if await fetch_int(connection, select(func.count()).where(*live)) >= meters_max:
        raise conflict(
            f"There are {meters_max} meters, and there can be no more: delete one first. The"
            " operator may allow more by the setting `meters_max`."
        )
    meter_id = str(ULID.from_timestamp(now_ms))
    row = row_of(
        draft,
        meters,
        id=meter_id,
        namespace=namespace,
        labels=rows.pairs_text(draft.labels),
        from_settings=from_settings,
        created_version=version,
        created_at_ms=now_ms,
        updated_at_ms=now_ms,
    )
    await connection.execute(insert(meters).values(row))
    await rows.put_revision(
        connection, version, meter_id, draft, now_ms, state=RevisionState.IN_FORCE
    )
    made = await rows.found(connection, namespace, meter_id)
    assert made is not None, "it was just written"
    await updates.record(connection, made, Action.CREATE, Asked(author, now_ms))
    return made


def _with_version(asked: Select[Any]) -> Select[Any]:
    """Revisions in order, each with the version; one row of the version where there is none. One
    statement, so that both are of one moment.
    """
    live = asked.subquery("live")
    return (
        select(catalogue_version.c.version, live)
        .select_from(catalogue_version.outerjoin(live, catalogue_version.c.one == 1))
        .order_by(live.c.revision)
    )


class SqlCatalogueStore(SqlStore):
    """See `ports.CatalogueStore`."""

    def __init__(self, database: Database, meters_max: int = METERS_MAX) -> None:
        super().__init__(database)
        self._meters_max = meters_max

    @writes
    async def create_meter(
        self,
        connection: Connection,
        namespace: str,
        draft: MeterDraft,
        now_ms: int,
        *,
        author: str = COMMAND,
        from_settings: bool = False,
    ) -> Meter:
        """See the port."""
        bound = self._meters_max
        return await _create(
            connection, namespace, draft, now_ms, bound, author=author, from_settings=from_settings
        )

    @reads
    async def catalogue(self, connection: Connection) -> Catalogue:
        """See the port."""
        answered = (await connection.execute(_with_version(rows.folded))).all()
        found = rows.meters_of(row for row in answered if row.id is not None)
        return Catalogue(int(answered[0].version), tuple(found))

    @reads
    async def catalogue_version(self, connection: Connection) -> int:
        """See the port."""
        return await fetch_int(connection, select(catalogue_version.c.version))

    @reads
    async def folded_revisions(self, connection: Connection) -> FoldedRevisions:
        """See the port."""
        numbers = rows.folded.with_only_columns(meter_revisions.c.revision)
        found = (await connection.execute(_with_version(numbers))).all()
        return FoldedRevisions(found[0][0], tuple(row[1] for row in found if row[1] is not None))

    @reads
    async def newest_revisions(self, connection: Connection) -> NewestRevisions:
        """See the port."""
        number, version = meter_revisions.c.revision, select(catalogue_version.c.version)
        in_force = case((meter_revisions.c.state == RevisionState.IN_FORCE.value, number))
        question = rows.folded.with_only_columns(
            version.scalar_subquery(), func.max(number), func.max(in_force)
        )
        found = (await connection.execute(question)).one()
        return NewestRevisions(int(found[0]), int(found[1] or 0), int(found[2] or 0))

    @reads
    async def newest_in_force(self, connection: Connection, made_until_ms: int) -> int:
        """See the port."""
        newest = func.coalesce(func.max(meter_revisions.c.revision), 0)
        question = rows.folded.with_only_columns(newest).where(
            meter_revisions.c.state == RevisionState.IN_FORCE.value,
            meter_revisions.c.made_at_ms <= made_until_ms,
        )
        return await fetch_int(connection, question)

    @writes
    async def update_meter(
        self,
        connection: Connection,
        namespace: str,
        id_or_key: str,
        change: MeterChange,
        now_ms: int,
        *,
        author: str = COMMAND,
    ) -> Meter:
        """See the port."""
        there = await updates.in_turn(connection, namespace, id_or_key)
        waiting = await revisions.waiting(connection, there)
        # Changes add up, also where the one before is not switched yet.
        draft = updates.judged(there if waiting is None else waiting.meter, change)
        asked, from_ms = Asked(author, now_ms), change.effective_from_ms
        return await updates.revise(connection, there, draft, asked, effective_from_ms=from_ms)

    @writes
    async def put_settings_meters(
        self, connection: Connection, namespace: str, drafts: Sequence[MeterDraft], now_ms: int
    ) -> list[Meter]:
        """See the port."""
        await rows.take_turn(connection)
        return [await self._put(connection, namespace, draft, now_ms) for draft in drafts]

    async def _put(
        self, connection: Connection, namespace: str, draft: MeterDraft, now_ms: int
    ) -> Meter:
        there = await rows.with_key(connection, namespace, draft.key)
        if there is None:
            bound = self._meters_max
            return await _create(
                connection, namespace, draft, now_ms, bound, author=SETTINGS, from_settings=True
            )
        asked = Asked(SETTINGS, now_ms)
        return await updates.revise(connection, there, draft, asked, from_settings=True)

    @writes
    async def release_settings_meters(
        self, connection: Connection, namespace: str, named: Collection[str], now_ms: int
    ) -> list[Meter]:
        """See the port."""
        return await settings_file.release(connection, namespace, named, now_ms)

    @writes
    async def delete_meter(
        self,
        connection: Connection,
        namespace: str,
        id_or_key: str,
        now_ms: int,
        *,
        author: str = COMMAND,
    ) -> None:
        """See the port."""
        await rows.next_version(connection)
        there = await updates.found(connection, namespace, id_or_key)
        await rows.lock(connection, there)
        for slug, _ in await rows.reports_on(connection, there):
            raise conflict(
                f"Meter {there.key!r} is used by the report {slug!r}; delete the report first."
            )
        asked = Asked(author, now_ms)
        await updates.end_pending(connection, there, asked)
        # Logically: rows of its usage may still be written.
        marked = update(meters).where(meters.c.id == there.id).values(deleted_at_ms=now_ms)
        await connection.execute(marked)
        await updates.record(connection, there, Action.DELETE, asked)

    @reads
    async def meter(self, connection: Connection, namespace: str, id_or_key: str) -> Meter | None:
        """See the port."""
        return await rows.found(connection, namespace, id_or_key)

    @reads
    async def meters(
        self,
        connection: Connection,
        namespace: str,
        *,
        ids: Collection[str] | None = None,
        event_types: Collection[str] | None = None,
    ) -> list[Meter]:
        """See the port."""
        question = rows.folded.where(meters.c.namespace == namespace)
        if ids is not None:
            question = question.where(meters.c.id.in_(ids))
        if event_types is not None:
            counting = meter_revisions.alias()
            of_types = select(counting.c.meter_id).where(counting.c.event_type.in_(event_types))
            question = question.where(meters.c.id.in_(of_types))
        by_creation = question.order_by(meters.c.created_version, meters.c.id)
        return rows.in_force_of(await connection.execute(by_creation))

    @reads
    async def listed_meters(self, connection: Connection, namespace: str) -> list[ListedMeter]:
        """See the port."""
        question = rows.folded.with_only_columns(
            meters.c.id,
            meters.c.key,
            meters.c.name,
            meter_revisions.c.aggregation,
            meters.c.created_at_ms,
            meters.c.updated_at_ms,
        ).where(
            meters.c.namespace == namespace, meter_revisions.c.state == RevisionState.IN_FORCE.value
        )
        by_creation = question.order_by(meters.c.created_version, meters.c.id)
        return [
            ListedMeter(row.id, row.key, row.name, Aggregation(row.aggregation), *row[4:])
            for row in await connection.execute(by_creation)
        ]

    @reads
    async def deleted_meters(
        self, connection: Connection, namespace: str, limit: int
    ) -> list[Meter]:
        """See the port."""
        by_end = (meters.c.deleted_at_ms.desc(), meters.c.created_version.desc(), meters.c.id)
        last = (
            select(meters.c.id)
            .where(meters.c.namespace == namespace, meters.c.deleted_at_ms.is_not(None))
            .order_by(*by_end)
            .limit(limit)
        )
        question = rows.with_revisions.where(meters.c.id.in_(last)).order_by(*by_end)
        return rows.in_force_of(await connection.execute(question))

    @reads
    async def filling(self, connection: Connection) -> list[int]:
        """See the port."""
        return list((await connection.execute(revisions.filling())).scalars())

    @writes
    async def switch_filled(
        self, connection: Connection, revision: int, now_ms: int, *, author: str = AGGREGATOR
    ) -> Meter | None:
        """See the port."""
        await rows.take_turn(connection)
        return await updates.switch(connection, revision, Asked(author, now_ms))

    async def retire(self, now_ms: int) -> set[int]:
        """See the port."""

        async def ask(connection: Connection) -> bool:
            return (await connection.execute(revisions.kept().limit(1))).first() is not None

        async def act(connection: Connection) -> set[int]:
            await rows.take_turn(connection)
            gone: set[int] = set()
            for row in (await connection.execute(revisions.kept())).all():
                kept = await revisions.with_number(connection, int(row.revision))
                assert kept is not None, "it was just found"
                await rows.lock(connection, kept.meter)
                gone |= await revisions.leave(connection, kept.meter, now_ms)
            if gone:
                await rows.next_version(connection)
            return gone

        return await self.database.write(act) if await self.database.read(ask) else set()
