"""AccessStore over SQL.

Every change first takes the next version of all keys, in the same transaction: so changes happen
one after the other, and whoever has seen all places up to a version misses none.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from sqlalchemy import BindParameter, Row, bindparam, func, or_, select, tuple_, update

from meterline.access import (
    COMMAND,
    Action,
    ApiKey,
    Change,
    KeyUpdate,
    Kind,
    Rotation,
    Scope,
    members_text,
)
from meterline.backends.control_store.access.change_members import of_key
from meterline.backends.control_store.access.changes import read_changes, record_change
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database, insert, next_version
from meterline.backends.control_store.store import (
    SqlStore,
    fetch_int,
    fetch_one,
    json_text,
    read_by,
    reads,
    row_of,
    value_of,
    writes,
)
from meterline.backends.control_store.tables.access import api_keys, keys_version
from meterline.limits import KEYS_HELD_MAX, KEYS_MAX
from meterline.problem import conflict, not_found


class SqlAccessStore(SqlStore):
    """See `meterline.access.AccessStore`."""

    def __init__(
        self, database: Database, keys_max: int = KEYS_MAX, held_max: int = KEYS_HELD_MAX
    ) -> None:
        super().__init__(database)
        self._keys_max = keys_max
        self._held_max = held_max

    @writes
    async def create_key(
        self, connection: Connection, key: ApiKey, *, author: str = COMMAND
    ) -> None:
        """See the port."""
        version = await next_version(connection, keys_version)
        there = await _found(connection, key.namespace, key.id)
        if there is not None and there.secret_hash == key.secret_hash:
            return
        await self._check_room(connection, key)
        row = row_of(key, api_keys, scopes=_scopes_text(key.scopes), version=version)
        await connection.execute(insert(connection, api_keys).values(row))
        await _record(connection, key, Action.CREATE, key.created_at_ms, author)

    @reads
    async def keys(
        self, connection: Connection, namespace: str, limit: int, after: str | None = None
    ) -> list[ApiKey]:
        """See the port."""
        question = select(api_keys).where(api_keys.c.namespace == namespace)
        if after is not None:
            question = question.where(api_keys.c.id > after)
        rows = await connection.execute(question.order_by(api_keys.c.id).limit(limit))
        return [_key(row) for row in rows]

    @reads
    async def key(self, connection: Connection, namespace: str, key_id: str) -> ApiKey | None:
        """See the port."""
        return await _found(connection, namespace, key_id)

    @writes
    async def update_key(
        self,
        connection: Connection,
        namespace: str,
        key_id: str,
        update: KeyUpdate,
        now_ms: int,
        *,
        author: str = COMMAND,
    ) -> ApiKey:
        """See the port."""
        version = await next_version(connection, keys_version)
        key = await _live(connection, namespace, key_id)
        values: dict[str, object] = {}
        if update.name is not None and update.name != key.name:
            values["name"] = update.name
        if update.scopes is not None and update.scopes != key.scopes:
            values["scopes"] = _scopes_text(update.scopes)
        if update.plan is not None and (update.plan or None) != key.plan:
            values["plan"] = update.plan or None
        if not values:
            return key
        changed = await _change(connection, key.id, version, values)
        members = members_text(of_key(key), of_key(changed))
        summary = ", ".join(values)
        await _record(connection, changed, Action.UPDATE, now_ms, author, summary, members)
        return changed

    @writes
    async def rotate_key(
        self,
        connection: Connection,
        namespace: str,
        key_id: str,
        rotation: Rotation,
        now_ms: int,
        *,
        author: str = COMMAND,
    ) -> ApiKey:
        """See the port."""
        version = await next_version(connection, keys_version)
        key = await _live(connection, namespace, key_id)
        if key.secret_hash == rotation.secret_hash:
            return key
        values = {
            "secret_hash": rotation.secret_hash,
            "previous_hash": key.secret_hash,
            "previous_until_ms": rotation.overlap_until_ms,
            "rotated_at_ms": now_ms,
        }
        changed = await _change(connection, key.id, version, values)
        await _record(connection, changed, Action.ROTATE, now_ms, author)
        return changed

    @writes
    async def revoke_key(
        self,
        connection: Connection,
        namespace: str,
        key_id: str,
        now_ms: int,
        *,
        author: str = COMMAND,
    ) -> ApiKey:
        """See the port."""
        version = await next_version(connection, keys_version)
        key = await _there(connection, namespace, key_id)
        if key.revoked_at_ms is not None:
            return key
        changed = await _change(connection, key.id, version, {"revoked_at_ms": now_ms})
        await _record(connection, changed, Action.REVOKE, now_ms, author)
        return changed

    @reads
    async def keys_version(self, connection: Connection) -> int:
        """See the port."""
        return await fetch_int(connection, select(keys_version.c.version))

    @reads
    async def keys_changed(
        self, connection: Connection, after: tuple[int, str], limit: int
    ) -> list[tuple[tuple[int, str], ApiKey]]:
        """See the port."""
        place = (api_keys.c.version, api_keys.c.id)
        question = select(api_keys).where(tuple_(*place) > after).order_by(*place).limit(limit)
        rows = await connection.execute(question)
        return [((int(row.version), row.id), _key(row)) for row in rows]

    @writes
    async def note_used(self, connection: Connection, used_at_ms: Mapping[str, int]) -> None:
        """See the port."""
        if not used_at_ms:
            return
        last = api_keys.c.last_used_at_ms
        at_ms: BindParameter[int] = bindparam("at_ms")
        statement = (
            update(api_keys)
            .where(api_keys.c.id == bindparam("key_id"), or_(last.is_(None), last < at_ms))
            .values(last_used_at_ms=at_ms)
        )
        # by id: two processes that write the same keys must lock them in one order
        rows = [{"key_id": key_id, "at_ms": used_at_ms[key_id]} for key_id in sorted(used_at_ms)]
        await connection.execute(statement, rows)

    changes = read_by(read_changes)

    async def _check_room(self, connection: Connection, key: ApiKey) -> None:
        live = (
            select(func.count())
            .select_from(api_keys)
            .where(
                api_keys.c.revoked_at_ms.is_(None),
                or_(
                    api_keys.c.expires_at_ms.is_(None),
                    api_keys.c.expires_at_ms > key.created_at_ms,
                ),
            )
        )
        mine = live.where(api_keys.c.namespace == key.namespace)
        if await fetch_int(connection, mine) >= self._keys_max:
            raise conflict(f"There are {self._keys_max} API keys here already; revoke one first.")
        if await fetch_int(connection, live) >= self._held_max:
            raise conflict(
                f"This installation has {self._held_max} API keys already, which is the most."
            )


async def _found(connection: Connection, namespace: str, key_id: str) -> ApiKey | None:
    mine = api_keys.c.namespace == namespace, api_keys.c.id == key_id.upper()
    return await fetch_one(connection, select(api_keys).where(*mine), _key)


async def _there(connection: Connection, namespace: str, key_id: str) -> ApiKey:
    key = await _found(connection, namespace, key_id)
    if key is None:
        raise not_found("API key", key_id)
    return key


async def _live(connection: Connection, namespace: str, key_id: str) -> ApiKey:
    """A key that can be changed."""
    key = await _there(connection, namespace, key_id)
    if key.revoked_at_ms is not None:
        raise conflict(
            f"API key {key.name!r} is revoked and cannot be used again; create another one."
        )
    return key


async def _change(
    connection: Connection, key_id: str, version: int, values: Mapping[str, object]
) -> ApiKey:
    statement = (
        update(api_keys)
        .where(api_keys.c.id == key_id)
        .values({**values, "version": version})
        .returning(*api_keys.c)
    )
    return _key((await connection.execute(statement)).one())


async def _record(
    connection: Connection,
    key: ApiKey,
    action: Action,
    at_ms: int,
    author: str,
    detail: str = "",
    members: str = "",
) -> None:
    of = (key.namespace, at_ms, author, action, Kind.API_KEY, key.id, key.name)
    await record_change(connection, Change(*of, detail, members))


def _key(row: Row[tuple[object, ...]]) -> ApiKey:
    """As it is known here: a scope that a newer release has added gives nothing."""
    known = [name for name in msgspec.json.decode(row.scopes, type=list[str]) if name in _KNOWN]
    return value_of(ApiKey, row, scopes=known)


def _scopes_text(scopes: frozenset[Scope]) -> str:
    return json_text(sorted(scopes))


_KNOWN: Final = frozenset(scope.value for scope in Scope)
