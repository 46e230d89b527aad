"""Claims that are undone, in SQL. Functions over a connection of one transaction."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import delete, select, tuple_
from sqlalchemy.sql import ColumnElement

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.deliveries.attempts import end_open
from meterline.backends.control_store.deliveries.endpoints import give_probe_back
from meterline.backends.control_store.one_step import Change
from meterline.backends.control_store.tables.reports import report_attempts, report_deliveries
from meterline.delivery import AttemptOutcome, ClaimedDelivery, DeliveryState

_NOT_SENT: Final = "not sent: its turn had not come when that was stopped"
_UNDO: Final = Change(report_deliveries, ("id",), ("state", "attempts", "due_at_ms"))


async def give_back(
    connection: Connection, claimed_deliveries: Sequence[ClaimedDelivery], now_ms: int
) -> None:
    """Undo the claims of deliveries that were never sent."""
    deliveries = report_deliveries.c
    question = (
        select(deliveries.id, deliveries.attempts)
        .where(
            deliveries.id.in_({it.delivery_id for it in claimed_deliveries}),
            deliveries.state == DeliveryState.SENDING.value,
        )
        .order_by(deliveries.id)
        .with_for_update()
    )
    sending = {row.id: int(row.attempts) for row in await connection.execute(question)}
    held = [it for it in claimed_deliveries if sending.get(it.delivery_id) == it.attempt]
    if held:
        await _undo(connection, held)
    others = [it for it in claimed_deliveries if sending.get(it.delivery_id) != it.attempt]
    if others:
        await end_open(connection, _attempts_of(others), AttemptOutcome.UNREACHED, _NOT_SENT)
    for address in sorted({it.address for it in held if it.probe}):
        await give_probe_back(connection, address, now_ms)


async def _undo(connection: Connection, claimed_deliveries: Sequence[ClaimedDelivery]) -> None:
    rows = []
    for claimed in sorted(claimed_deliveries, key=lambda it: it.delivery_id):
        before = claimed.attempt - 1
        state = DeliveryState.PENDING
        if before != claimed.attempts_before:
            state = DeliveryState.RETRYING
        rows.append((claimed.delivery_id, state.value, before, claimed.due_at_ms))
    await _UNDO.make(connection, rows)
    await connection.execute(delete(report_attempts).where(_attempts_of(claimed_deliveries)))


def _attempts_of(claimed_deliveries: Sequence[ClaimedDelivery]) -> ColumnElement[bool]:
    attempts = report_attempts.c
    names = [(it.delivery_id, it.attempt) for it in claimed_deliveries]
    return tuple_(attempts.delivery_id, attempts.number).in_(names)
