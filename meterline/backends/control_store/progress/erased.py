"""What the control store has of a subject is erased, in one transaction. Functions over its
connection.

Names stand in columns of their own, and as values in JSON: in filters, and in what changes were
before and after.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Column, Table, and_, delete, exists, select, tuple_, update
from sqlalchemy.sql import ColumnElement

from meterline.access import Kind
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.deliveries.cancellation import failed_of_run
from meterline.backends.control_store.reports.run_rows import run_states
from meterline.backends.control_store.reports.runs import drop_staged
from meterline.backends.control_store.store import json_text
from meterline.backends.control_store.tables.access import changes, subjects
from meterline.backends.control_store.tables.erasures import erasures
from meterline.backends.control_store.tables.redrives import redrives
from meterline.backends.control_store.tables.reports import (
    replays,
    report_attempts,
    report_bodies,
    report_deliveries,
    report_last_errors,
    report_runs,
    reports,
    run_corrections,
)
from meterline.delivery import DeliveryMove, DeliveryState, delivery_sources
from meterline.report import RunMove, RunState, run_target
from meterline.usage import UNSETTLED, Erasure

FAILURE: Final = "Its subject was erased."
"""Why a delivery has no bytes, as `report_deliveries.failure` says it."""

_runs, _deliveries, _bodies = report_runs.c, report_deliveries.c, report_bodies.c
_GONE: Final = "erased"
_UNSETTLED: Final = tuple(state.value for state in UNSETTLED)


async def erase_rows(connection: Connection, erasure: Erasure, now_ms: int) -> None:
    """All of it. Runs that are being made are begun again: they read usage under the name."""
    await _begin_runs_again(connection, erasure.namespace)
    await _erase_deliveries(connection, erasure, now_ms)
    await _erase_corrections(connection, erasure)
    await _erase_changes(connection, erasure)
    await connection.execute(
        update(replays)
        .where(replays.c.namespace == erasure.namespace, replays.c.subject == erasure.name)
        .values(subject=erasure.pseudonym)
    )
    of_namespace = reports.c.namespace == erasure.namespace
    await _rename(connection, reports, reports.c.filter, of_namespace, erasure)
    of_namespace = _runs.namespace == erasure.namespace
    await _rename(connection, report_runs, _runs.filter, of_namespace, erasure)


async def is_unsettled(connection: Connection) -> bool:
    """Whether rows of cells are on their way because of an erasure: no block may be made."""
    question = select(exists().where(erasures.c.state.in_(_UNSETTLED)))
    return bool((await connection.execute(question)).scalar_one())


async def names_in_filters(connection: Connection, namespace: str, subject: str) -> list[str]:
    """Live reports whose filter names a subject."""
    question = select(reports.c.slug, reports.c.filter).where(
        reports.c.namespace == namespace, reports.c.deleted_at_ms.is_(None)
    )
    rows = await connection.execute(question)
    return [
        row.slug
        for row in rows
        if renamed(msgspec.json.decode(row.filter), subject, "") != msgspec.json.decode(row.filter)
    ]


async def erase_description(connection: Connection, namespace: str, subject: str) -> None:
    """What is said of a subject."""
    await connection.execute(
        delete(subjects).where(subjects.c.namespace == namespace, subjects.c.key == subject)
    )


def renamed(value: Any, subject: str, pseudonym: str) -> Any:
    """A JSON value with another text wherever one is the subject."""
    if isinstance(value, str):
        return pseudonym if value == subject else value
    if isinstance(value, list):
        return [renamed(it, subject, pseudonym) for it in value]
    if isinstance(value, dict):
        return {
            renamed(key, subject, pseudonym): renamed(it, subject, pseudonym)
            for key, it in value.items()
        }
    return value


def _runs_of(namespace: str) -> ColumnElement[Any]:
    return select(_runs.id).where(_runs.namespace == namespace).scalar_subquery()


async def _begin_runs_again(connection: Connection, namespace: str) -> None:
    making = and_(_runs.namespace == namespace, run_states((RunState.MATERIALIZING,)))
    half_made = (await connection.execute(select(_runs.id).where(making))).scalars().all()
    state = run_target(RunMove.RELEASE).value
    await connection.execute(
        update(report_runs)
        .where(making)
        .values(state=state, lease_holder=None, lease_until_ms=None)
    )
    for run_id in half_made:
        await drop_staged(connection, run_id)


async def _erase_deliveries(connection: Connection, erasure: Erasure, now_ms: int) -> None:
    """Bytes go, ids and digests stay; what is still owed is cancelled."""
    mine = and_(
        _deliveries.run_id.in_(_runs_of(erasure.namespace)), _deliveries.subject == erasure.name
    )
    ids = select(_deliveries.id).where(mine).scalar_subquery()
    run_ids = list(
        (await connection.execute(select(_deliveries.run_id).where(mine).distinct())).scalars()
    )
    await connection.execute(
        delete(report_bodies).where(
            _bodies.run_id.in_(_runs_of(erasure.namespace)), _bodies.subject == erasure.name
        )
    )
    await connection.execute(
        update(report_attempts)
        .where(report_attempts.c.delivery_id.in_(ids))
        .values(answer=b"", reason="")
    )
    await connection.execute(
        update(report_last_errors)
        .where(report_last_errors.c.delivery_id.in_(ids))
        .values(reason=FAILURE)
    )
    open_states = [state.value for state in delivery_sources(DeliveryMove.CANCEL)]
    await connection.execute(
        update(report_deliveries)
        .where(mine, _deliveries.state.in_(open_states))
        .values(state=DeliveryState.CANCELLED.value, due_at_ms=None, ended_at_ms=now_ms)
    )
    await connection.execute(
        update(report_deliveries).where(mine).values(subject=erasure.pseudonym, failure=FAILURE)
    )
    # A delivery that was too large is named in words, quoted as Python does.
    names_it = _runs.reason.contains(repr(erasure.name), autoescape=True)
    await connection.execute(
        update(report_runs)
        .where(_runs.namespace == erasure.namespace, names_it)
        .values(reason=FAILURE)
    )
    await _end_runs(connection, run_ids, now_ms)


async def _end_runs(connection: Connection, run_ids: Sequence[str], now_ms: int) -> None:
    """Runs that had nothing else to deliver have ended."""
    open_states = [state.value for state in delivery_sources(DeliveryMove.CANCEL)]
    for run_id in run_ids:
        delivering = and_(_runs.id == run_id, run_states((RunState.DELIVERING,)))
        row = (await connection.execute(select(report_runs).where(delivering))).one_or_none()
        if row is None:
            continue
        values: dict[str, object] = {"failed": failed_of_run()}
        left = select(_deliveries.id).where(
            _deliveries.run_id == run_id, _deliveries.state.in_(open_states)
        )
        if (await connection.execute(left.limit(1))).one_or_none() is None:
            some = RunMove.SOME_DELIVERED if row.delivered else RunMove.NONE_DELIVERED
            values |= {"state": run_target(some).value, "ended_at_ms": now_ms, "reason": FAILURE}
        await connection.execute(update(report_runs).where(delivering).values(values))


async def _erase_corrections(connection: Connection, erasure: Erasure) -> None:
    rows = run_corrections.c
    mine = and_(rows.run_id.in_(_runs_of(erasure.namespace)), rows.subject == erasure.name)
    await _rename(connection, run_corrections, rows.groups, mine, erasure)
    await connection.execute(update(run_corrections).where(mine).values(subject=erasure.pseudonym))


async def _erase_changes(connection: Connection, erasure: Erasure) -> None:
    """Of the subject itself its name; of reports what their filters were."""
    rows = changes.c
    mine = rows.namespace == erasure.namespace
    await connection.execute(
        update(changes)
        .where(mine, rows.kind == Kind.SUBJECT, rows.name == erasure.name)
        .values(name=erasure.pseudonym, members="")
    )
    filters = and_(mine, rows.kind == Kind.REPORT, rows.members != "")
    await _rename(connection, changes, rows.members, filters, erasure)


async def _rename(
    connection: Connection,
    table: Table,
    column: Column[str],
    which: ColumnElement[bool],
    erasure: Erasure,
) -> None:
    """Rename the subject in a column of JSON."""
    keys = list(table.primary_key.columns)
    spelled = json_text(erasure.name)[1:-1]
    question = select(*keys, column.label("text")).where(
        which, column.is_not(None), column.contains(spelled, autoescape=True)
    )
    for row in (await connection.execute(question)).all():
        before = msgspec.json.decode(row.text)
        after = renamed(before, erasure.name, erasure.pseudonym)
        if after != before:
            at = [key == getattr(row, key.name) for key in keys]
            await connection.execute(
                update(table).where(*at).values({column.name: json_text(after)})
            )


async def erase_redrives(
    connection: Connection, positions: Sequence[tuple[int, int, int, int]]
) -> None:
    """The notes on refusals, and the events that were sent anew for them."""
    rows = redrives.c
    place = tuple_(rows.log, rows.partition, rows.record_offset, rows.place)
    for one in positions:
        await connection.execute(
            update(redrives).where(place == one).values(note="", source=_GONE, id=_GONE, event=None)
        )
