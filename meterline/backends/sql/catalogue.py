"""CatalogueStore over SQL.

Every change first takes the next version, in the same transaction: so changes happen one after the
other, and whoever sees a version sees every change up to it.
"""

import msgspec
from sqlalchemy import Row, Select, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection
from ulid import ULID

from meterline.backends.sql.engine import Database
from meterline.backends.sql.schema import catalogue_version, meter_revisions, meters
from meterline.backends.sql.schema_reports import reports
from meterline.limits import METERS_MAX
from meterline.meter import Aggregation, Catalogue, Meter, MeterDraft
from meterline.problem import Problem, ProblemType, not_found

_newest = (
    select(meter_revisions.c.meter_id, func.max(meter_revisions.c.revision).label("revision"))
    .group_by(meter_revisions.c.meter_id)
    .subquery("newest")
)
_in_force = meters.join(_newest, _newest.c.meter_id == meters.c.id).join(
    meter_revisions, meter_revisions.c.revision == _newest.c.revision
)
_columns = (
    *(column for column in meters.c if column.name != "deleted_at_ms"),
    *(column for column in meter_revisions.c if column.name != "meter_id"),
)
_live = select(*_columns).select_from(_in_force).where(meters.c.deleted_at_ms.is_(None))


class SqlCatalogueStore:
    """See `ports.CatalogueStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def catalogue(self) -> Catalogue:
        """See the port."""
        live = _live.subquery("live")
        # One statement, so that version and meters are of one moment.
        question = (
            select(catalogue_version.c.version, live)
            .select_from(catalogue_version.outerjoin(live, catalogue_version.c.one == 1))
            .order_by(live.c.revision)
        )

        async def ask(connection: AsyncConnection) -> Catalogue:
            rows = (await connection.execute(question)).all()
            found = tuple(_meter(row) for row in rows if row.id is not None)
            return Catalogue(int(rows[0].version), found)

        return await self._database.read(ask)

    async def catalogue_version(self) -> int:
        """See the port."""

        async def ask(connection: AsyncConnection) -> int:
            return int((await connection.execute(select(catalogue_version.c.version))).scalar_one())

        return await self._database.read(ask)

    async def create_meter(
        self, namespace: str, draft: MeterDraft, now_ms: int, *, from_settings: bool = False
    ) -> Meter:
        """See the port. A namespace that has all meters it may have is a conflict too."""

        async def act(connection: AsyncConnection) -> Meter:
            version = await _next_version(connection)
            return await _create(
                connection, version, namespace, draft, now_ms, from_settings=from_settings
            )

        return await self._database.write(act)

    async def put_settings_meter(self, namespace: str, draft: MeterDraft, now_ms: int) -> Meter:
        """See the port. Other words (name, description, labels) make a version but no revision."""

        async def act(connection: AsyncConnection) -> Meter:
            there = await _with_key(connection, namespace, draft.key)
            if there is not None and there.from_settings and _same(there, draft):
                return there
            version = await _next_version(connection)
            # Asked again: only now nobody else can change it.
            there = await _with_key(connection, namespace, draft.key)
            if there is None:
                return await _create(
                    connection, version, namespace, draft, now_ms, from_settings=True
                )
            await _update(connection, version, there, draft, now_ms)
            changed = await _with_key(connection, namespace, draft.key)
            assert changed is not None, "it was just written"
            return changed

        return await self._database.write(act)

    async def delete_meter(self, namespace: str, id_or_key: str, now_ms: int) -> None:
        """See the port."""

        async def act(connection: AsyncConnection) -> None:
            await _next_version(connection)
            there = await _found(connection, namespace, id_or_key)
            if there is None:
                raise not_found("meter", id_or_key)
            if there.from_settings:
                raise _defined_in_settings(there)
            await _lock(connection, there)
            if (slug := await _report_on(connection, there)) is not None:
                raise _in_use(there, slug)
            await connection.execute(
                update(meters).where(meters.c.id == there.id).values(deleted_at_ms=now_ms)
            )

        await self._database.write(act)

    async def meter(self, namespace: str, id_or_key: str) -> Meter | None:
        """See the port."""

        async def ask(connection: AsyncConnection) -> Meter | None:
            return await _found(connection, namespace, id_or_key)

        return await self._database.read(ask)

    async def meters(self, namespace: str) -> list[Meter]:
        """See the port."""
        question = _live.where(meters.c.namespace == namespace).order_by(
            meters.c.created_version, meters.c.id
        )

        async def ask(connection: AsyncConnection) -> list[Meter]:
            return [_meter(row) for row in await connection.execute(question)]

        return await self._database.read(ask)


async def _next_version(connection: AsyncConnection) -> int:
    """Take the next version: the row stays locked until the transaction ends."""
    statement = (
        update(catalogue_version)
        .values(version=catalogue_version.c.version + 1)
        .returning(catalogue_version.c.version)
    )
    return int((await connection.execute(statement)).scalar_one())


async def _create(
    connection: AsyncConnection,
    version: int,
    namespace: str,
    draft: MeterDraft,
    now_ms: int,
    *,
    from_settings: bool,
) -> Meter:
    if await _with_key(connection, namespace, draft.key) is not None:
        detail = f"There is a meter with the key {draft.key!r} already; choose another key."
        raise Problem(ProblemType.CONFLICT, detail)
    live = select(func.count()).where(
        meters.c.namespace == namespace, meters.c.deleted_at_ms.is_(None)
    )
    if (await connection.execute(live)).scalar_one() >= METERS_MAX:
        detail = f"There are {METERS_MAX} meters, and there can be no more; delete one first."
        raise Problem(ProblemType.CONFLICT, detail)
    meter_id = str(ULID.from_timestamp(now_ms))
    row = {
        "id": meter_id,
        "namespace": namespace,
        "key": draft.key,
        **_words_of(draft),
        "from_settings": from_settings,
        "created_version": version,
        "created_at_ms": now_ms,
        "updated_at_ms": now_ms,
    }
    await connection.execute(insert(meters).values(row))
    await _revise(connection, version, meter_id, draft)
    made = await _found(connection, namespace, meter_id)
    assert made is not None, "it was just written"
    return made


async def _update(
    connection: AsyncConnection, version: int, there: Meter, draft: MeterDraft, now_ms: int
) -> None:
    await connection.execute(
        update(meters)
        .where(meters.c.id == there.id)
        .values(**_words_of(draft), from_settings=True, updated_at_ms=now_ms)
    )
    if _measured(draft) != _measured(there):
        await _revise(connection, version, there.id, draft)


async def _revise(
    connection: AsyncConnection, version: int, meter_id: str, draft: MeterDraft
) -> None:
    row = {
        "revision": version,
        "meter_id": meter_id,
        "aggregation": draft.aggregation.value,
        "event_type": draft.event_type,
        "value_property": draft.value_property,
        "dimensions": _pairs_text(draft.dimensions),
        "events_from_ms": draft.events_from_ms,
    }
    await connection.execute(insert(meter_revisions).values(row))


async def _found(connection: AsyncConnection, namespace: str, id_or_key: str) -> Meter | None:
    # ULIDs read alike in both cases; a key may look like another meter's id, and then the id wins
    is_id = meters.c.id == id_or_key.upper()
    question = (
        _live.where(meters.c.namespace == namespace, or_(is_id, meters.c.key == id_or_key))
        .order_by(is_id.desc())
        .limit(1)
    )
    return await _one(connection, question)


async def _lock(connection: AsyncConnection, meter: Meter) -> None:
    """Wait for those who make a report on this meter now: their foreign key holds its row."""
    await connection.execute(select(meters.c.id).where(meters.c.id == meter.id).with_for_update())


async def _report_on(connection: AsyncConnection, meter: Meter) -> str | None:
    question = (
        select(reports.c.slug)
        .where(reports.c.meter_id == meter.id, reports.c.deleted_at_ms.is_(None))
        .order_by(reports.c.slug)
        .limit(1)
    )
    return (await connection.execute(question)).scalar_one_or_none()


async def _with_key(connection: AsyncConnection, namespace: str, key: str) -> Meter | None:
    return await _one(connection, _live.where(meters.c.namespace == namespace, meters.c.key == key))


async def _one(connection: AsyncConnection, question: Select[tuple[object, ...]]) -> Meter | None:
    row = (await connection.execute(question)).one_or_none()
    return None if row is None else _meter(row)


def _meter(row: Row[tuple[object, ...]]) -> Meter:
    return Meter(
        id=row.id,
        revision=int(row.revision),
        namespace=row.namespace,
        key=row.key,
        name=row.name,
        description=row.description,
        aggregation=Aggregation(row.aggregation),
        event_type=row.event_type,
        value_property=row.value_property,
        dimensions=_pairs(row.dimensions),
        created_at_ms=int(row.created_at_ms),
        updated_at_ms=int(row.updated_at_ms),
        from_settings=bool(row.from_settings),
        events_from_ms=row.events_from_ms,
        labels=_pairs(row.labels),
    )


def _words_of(draft: MeterDraft) -> dict[str, str]:
    return {
        "name": draft.name,
        "description": draft.description,
        "labels": _pairs_text(draft.labels),
    }


def _measured(defined: MeterDraft | Meter) -> tuple[object, ...]:
    """What decides which rows a meter has: a change of it is a new revision."""
    return (
        defined.aggregation,
        defined.event_type,
        defined.value_property,
        tuple(sorted(defined.dimensions)),
        defined.events_from_ms,
    )


def _same(meter: Meter, draft: MeterDraft) -> bool:
    words = {
        "name": meter.name,
        "description": meter.description,
        "labels": _pairs_text(meter.labels),
    }
    return words == _words_of(draft) and _measured(meter) == _measured(draft)


def _pairs_text(pairs: tuple[tuple[str, str], ...]) -> str:
    return msgspec.json.encode(dict(sorted(pairs))).decode()


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(msgspec.json.decode(text, type=dict[str, str]).items()))


def _in_use(meter: Meter, slug: str) -> Problem:
    detail = f"Meter {meter.key!r} is used by the report {slug!r}; delete the report first."
    return Problem(ProblemType.CONFLICT, detail)


def _defined_in_settings(meter: Meter) -> Problem:
    detail = (
        f"Meter {meter.key!r} is defined in the settings file and can be changed only there, "
        "not by the API."
    )
    return Problem(ProblemType.CONFLICT, detail)
