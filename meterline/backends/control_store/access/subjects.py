"""SubjectStore over SQL."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, replace

from sqlalchemy import Row, bindparam, delete, func, or_, select, update
from ulid import ULID

from meterline.access import COMMAND, Action, Change, Kind, Subject, SubjectDraft, described
from meterline.backends.control_store.access.changes import record_change
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import insert
from meterline.backends.control_store.store import (
    SqlStore,
    fetch_int,
    fetch_one,
    reads,
    value_of,
    writes,
)
from meterline.backends.control_store.tables.access import subjects
from meterline.limits import SUBJECTS_MAX
from meterline.problem import conflict, not_found


class SqlSubjectStore(SqlStore):
    """See `subject_ports.SubjectStore`."""

    @writes
    async def upsert_subjects(
        self,
        connection: Connection,
        namespace: str,
        drafts: Sequence[SubjectDraft],
        now_ms: int,
        *,
        author: str = COMMAND,
    ) -> list[Subject]:
        """See the port. Two requests at once may each see the last free place, and both take it."""
        keys = sorted({draft.key for draft in drafts})  # one order for all, so none waits in a ring
        there = await _locked(connection, namespace, keys)
        missing = set(keys) - there.keys()
        made = await _make(connection, namespace, missing, now_ms)
        there |= await _locked(connection, namespace, missing)
        after = dict(there)
        for draft in drafts:
            after[draft.key] = described(after[draft.key], draft)
        differing = [after[key] for key in keys if after[key] != there[key]]
        if differing:
            after |= {one.key: replace(one, updated_at_ms=now_ms) for one in differing}
            await _rewrite(connection, [after[one.key] for one in differing])
        for key in keys:
            if after[key].id in made:  # others may have been made at once, by somebody else
                await _record(connection, after[key], Action.CREATE, author, now_ms)
            elif after[key] != there[key]:
                summary = _differences(there[key], after[key])
                await _record(connection, after[key], Action.UPDATE, author, now_ms, summary)
        return [after[draft.key] for draft in drafts]

    @reads
    async def subjects(self, connection: Connection, namespace: str) -> list[Subject]:
        """See the port."""
        question = (
            select(subjects)
            .where(subjects.c.namespace == namespace)
            .order_by(subjects.c.created_at_ms, subjects.c.key)
        )
        return [_subject(row) for row in await connection.execute(question)]

    @reads
    async def subject(
        self, connection: Connection, namespace: str, id_or_key: str
    ) -> Subject | None:
        """See the port."""
        return await _found(connection, namespace, id_or_key)

    @writes
    async def delete_subject(
        self,
        connection: Connection,
        namespace: str,
        id_or_key: str,
        now_ms: int,
        *,
        author: str = COMMAND,
    ) -> None:
        """See the port."""
        there = await _found(connection, namespace, id_or_key)
        if there is None:
            raise not_found("subject", id_or_key)
        gone = await connection.execute(delete(subjects).where(subjects.c.id == there.id))
        if not gone.rowcount:  # by another one, since it was found
            raise not_found("subject", id_or_key)
        await _record(connection, there, Action.DELETE, author, now_ms)


async def _locked(
    connection: Connection, namespace: str, keys: Collection[str]
) -> dict[str, Subject]:
    """The subjects that are there, by key; nobody else changes them until the transaction ends."""
    if not keys:
        return {}
    question = (
        select(subjects)
        .where(subjects.c.namespace == namespace, subjects.c.key.in_(keys))
        .order_by(subjects.c.key)
        .with_for_update()
    )
    return {row.key: _subject(row) for row in await connection.execute(question)}


async def _make(
    connection: Connection, namespace: str, keys: Collection[str], now_ms: int
) -> set[str]:
    """Make subjects without a description. Their ids; not in use where another transaction has just
    made one.
    """
    if not keys:
        return set()
    fresh = [
        Subject(str(ULID.from_timestamp(now_ms)), namespace, key, now_ms, now_ms)
        for key in sorted(keys)
    ]
    statement = insert(connection, subjects)
    # An update that changes nothing locks the row, so that it is still there when it is read
    statement = statement.on_conflict_do_update(
        index_elements=[subjects.c.namespace, subjects.c.key],
        set_={"key": statement.excluded.key},
    )
    await connection.execute(statement, [asdict(one) for one in fresh])
    count = select(func.count()).where(subjects.c.namespace == namespace)
    if await fetch_int(connection, count) > SUBJECTS_MAX:
        raise conflict(f"There can be {SUBJECTS_MAX} subjects, and no more; delete others first.")
    return {one.id for one in fresh}


async def _rewrite(connection: Connection, described_ones: Iterable[Subject]) -> None:
    members = [column.name for column in subjects.c if column.name not in ("id", "namespace")]
    statement = (
        update(subjects)
        .where(subjects.c.id == bindparam("its_id"))
        .values({name: bindparam(f"new_{name}") for name in members})
    )
    rows = [
        {"its_id": one.id, **{f"new_{name}": getattr(one, name) for name in members}}
        for one in described_ones
    ]
    await connection.execute(statement, rows)


async def _found(connection: Connection, namespace: str, id_or_key: str) -> Subject | None:
    # as for meters: ids read alike in both cases, and an id wins over a key that looks like it
    is_id = subjects.c.id == id_or_key.upper()
    question = (
        select(subjects)
        .where(subjects.c.namespace == namespace, or_(is_id, subjects.c.key == id_or_key))
        .order_by(is_id.desc())
        .limit(1)
    )
    return await fetch_one(connection, question, _subject)


async def _record(
    connection: Connection,
    subject: Subject,
    action: Action,
    author: str,
    now_ms: int,
    detail: str = "",
) -> None:
    of = (subject.namespace, now_ms, author, action, Kind.SUBJECT, subject.id, subject.key)
    await record_change(connection, Change(*of, detail))


def _differences(before: Subject, after: Subject) -> str:
    """Which members differ, by their v1 names; not what they say, which may be about a person."""
    named = {
        "displayName": (before.display_name, after.display_name),
        "metadata": (before.metadata, after.metadata),
        "currentPeriodStart": (before.current_period_start_ms, after.current_period_start_ms),
        "currentPeriodEnd": (before.current_period_end_ms, after.current_period_end_ms),
        "stripeCustomerId": (before.stripe_customer_id, after.stripe_customer_id),
    }
    return ", ".join(name for name, (own, new) in named.items() if own != new)


def _subject(row: Row[tuple[object, ...]]) -> Subject:
    return value_of(Subject, row)
