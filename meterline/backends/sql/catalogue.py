"""CatalogueStore over SQL.

Every change first takes its turn, or the next version, in the same transaction: so changes happen
one after the other, and whoever sees a version sees every change up to it.
"""

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection
from ulid import ULID

from meterline.backends.sql import catalogue_rows as rows
from meterline.backends.sql.changes import record_change
from meterline.backends.sql.engine import Database
from meterline.backends.sql.schema import catalogue_version, meters
from meterline.change import COMMAND, SETTINGS, Action, Change, Kind
from meterline.limits import METERS_MAX
from meterline.meter import (
    Catalogue,
    Meter,
    MeterChange,
    MeterDraft,
    changed,
    differences,
    faults_of,
    measures_alike,
)
from meterline.problem import Problem, ProblemType, invalid, not_found


class SqlCatalogueStore:
    """See `ports.CatalogueStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def catalogue(self) -> Catalogue:
        """See the port."""
        live = rows.live.subquery("live")
        # One statement, so that version and meters are of one moment.
        question = (
            select(catalogue_version.c.version, live)
            .select_from(catalogue_version.outerjoin(live, catalogue_version.c.one == 1))
            .order_by(live.c.revision)
        )

        async def ask(connection: AsyncConnection) -> Catalogue:
            answered = (await connection.execute(question)).all()
            found = tuple(rows.meter_of(row) for row in answered if row.id is not None)
            return Catalogue(int(answered[0].version), found)

        return await self._database.read(ask)

    async def catalogue_version(self) -> int:
        """See the port."""

        async def ask(connection: AsyncConnection) -> int:
            return int((await connection.execute(select(catalogue_version.c.version))).scalar_one())

        return await self._database.read(ask)

    async def create_meter(
        self,
        namespace: str,
        draft: MeterDraft,
        now_ms: int,
        *,
        author: str = COMMAND,
        from_settings: bool = False,
    ) -> Meter:
        """See the port. A namespace that has all meters it may have is a conflict too."""

        async def act(connection: AsyncConnection) -> Meter:
            return await _create(
                connection, namespace, draft, now_ms, author, from_settings=from_settings
            )

        return await self._database.write(act)

    async def update_meter(
        self,
        namespace: str,
        id_or_key: str,
        change: MeterChange,
        now_ms: int,
        *,
        author: str = COMMAND,
    ) -> Meter:
        """See the port."""

        async def act(connection: AsyncConnection) -> Meter:
            await rows.take_turn(connection)
            there = await rows.found(connection, namespace, id_or_key)
            if there is None:
                raise not_found("meter", id_or_key)
            if there.from_settings:
                raise _defined_in_settings(there)
            draft = changed(there, change)
            differing = differences(there, draft)
            if not differing:
                return there
            if faults := faults_of(draft):
                raise invalid(*faults)
            await _keep_reports(connection, there, draft)
            return await _update(
                connection, there, draft, differing, now_ms, author, from_settings=False
            )

        return await self._database.write(act)

    async def put_settings_meter(self, namespace: str, draft: MeterDraft, now_ms: int) -> Meter:
        """See the port."""

        async def act(connection: AsyncConnection) -> Meter:
            await rows.take_turn(connection)
            there = await rows.with_key(connection, namespace, draft.key)
            if there is None:
                return await _create(
                    connection, namespace, draft, now_ms, SETTINGS, from_settings=True
                )
            differing = differences(there, draft)
            if there.from_settings and not differing:
                return there
            return await _update(
                connection, there, draft, differing, now_ms, SETTINGS, from_settings=True
            )

        return await self._database.write(act)

    async def delete_meter(
        self, namespace: str, id_or_key: str, now_ms: int, *, author: str = COMMAND
    ) -> None:
        """See the port."""

        async def act(connection: AsyncConnection) -> None:
            await rows.next_version(connection)
            there = await rows.found(connection, namespace, id_or_key)
            if there is None:
                raise not_found("meter", id_or_key)
            if there.from_settings:
                raise _defined_in_settings(there)
            await rows.lock(connection, there)
            for slug, _ in await rows.reports_on(connection, there):
                raise _in_use(there, slug)
            await rows.mark_deleted(connection, there, now_ms)
            await _record(connection, there, Action.DELETE, author, now_ms)

        await self._database.write(act)

    async def meter(self, namespace: str, id_or_key: str) -> Meter | None:
        """See the port."""

        async def ask(connection: AsyncConnection) -> Meter | None:
            return await rows.found(connection, namespace, id_or_key)

        return await self._database.read(ask)

    async def meters(self, namespace: str) -> list[Meter]:
        """See the port."""
        question = rows.live.where(meters.c.namespace == namespace).order_by(
            meters.c.created_version, meters.c.id
        )

        async def ask(connection: AsyncConnection) -> list[Meter]:
            return [rows.meter_of(row) for row in await connection.execute(question)]

        return await self._database.read(ask)

    async def deleted_meters(self, namespace: str, limit: int) -> list[Meter]:
        """See the port."""
        question = (
            rows.with_revision.where(
                meters.c.namespace == namespace, meters.c.deleted_at_ms.is_not(None)
            )
            .order_by(meters.c.deleted_at_ms.desc(), meters.c.created_version.desc(), meters.c.id)
            .limit(limit)
        )

        async def ask(connection: AsyncConnection) -> list[Meter]:
            return [rows.meter_of(row) for row in await connection.execute(question)]

        return await self._database.read(ask)


async def _create(
    connection: AsyncConnection,
    namespace: str,
    draft: MeterDraft,
    now_ms: int,
    author: str,
    *,
    from_settings: bool,
) -> Meter:
    version = await rows.next_version(connection)
    if await rows.with_key(connection, namespace, draft.key) is not None:
        detail = f"There is a meter with the key {draft.key!r} already; choose another key."
        raise Problem(ProblemType.CONFLICT, detail)
    if await rows.count_live(connection, namespace) >= METERS_MAX:
        detail = f"There are {METERS_MAX} meters, and there can be no more; delete one first."
        raise Problem(ProblemType.CONFLICT, detail)
    meter_id = str(ULID.from_timestamp(now_ms))
    await rows.put_meter(
        connection,
        meter_id,
        namespace,
        draft,
        now_ms,
        version=version,
        from_settings=from_settings,
    )
    await rows.put_revision(connection, version, meter_id, draft)
    made = await _written(connection, namespace, meter_id)
    await _record(connection, made, Action.CREATE, author, now_ms)
    return made


async def _update(
    connection: AsyncConnection,
    there: Meter,
    draft: MeterDraft,
    differing: tuple[str, ...],
    now_ms: int,
    author: str,
    *,
    from_settings: bool,
) -> Meter:
    """Write what differs. A version only for a new revision: it costs the aggregators their open
    slices.
    """
    await rows.set_words(connection, there, draft, now_ms, from_settings=from_settings)
    told = [*differing] or ["taken over by the settings file"]
    if not measures_alike(differing):
        version = await rows.next_version(connection)
        await rows.put_revision(connection, version, there.id, draft)
        told.append(f"revision {version}")
    after = await _written(connection, there.namespace, there.id)
    await _record(connection, after, Action.UPDATE, author, now_ms, ", ".join(told))
    return after


async def _written(connection: AsyncConnection, namespace: str, meter_id: str) -> Meter:
    meter = await rows.found(connection, namespace, meter_id)
    assert meter is not None, "it was just written"
    return meter


async def _keep_reports(connection: AsyncConnection, there: Meter, draft: MeterDraft) -> None:
    """Refuse to take a dimension away that a report groups by."""
    gone = set(there.dimension_names) - {name for name, _ in draft.dimensions}
    if not gone:
        return
    await rows.lock(connection, there)
    for slug, group_by in await rows.reports_on(connection, there):
        for name in group_by:
            if name in gone:
                raise _grouped_by(there, name, slug)


async def _record(
    connection: AsyncConnection,
    meter: Meter,
    action: Action,
    author: str,
    now_ms: int,
    detail: str = "",
) -> None:
    change = Change(
        namespace=meter.namespace,
        at_ms=now_ms,
        author=author,
        action=action,
        kind=Kind.METER,
        subject_id=meter.id,
        name=meter.key,
        detail=detail,
    )
    await record_change(connection, change)


def _in_use(meter: Meter, slug: str) -> Problem:
    detail = f"Meter {meter.key!r} is used by the report {slug!r}; delete the report first."
    return Problem(ProblemType.CONFLICT, detail)


def _grouped_by(meter: Meter, name: str, slug: str) -> Problem:
    detail = (
        f"The report {slug!r} groups by the dimension {name!r} of meter {meter.key!r}: keep the "
        "dimension, or delete the report first."
    )
    return Problem(ProblemType.CONFLICT, detail)


def _defined_in_settings(meter: Meter) -> Problem:
    detail = (
        f"Meter {meter.key!r} is defined in the settings file and can be changed only there, "
        "not by the API."
    )
    return Problem(ProblemType.CONFLICT, detail)
