"""Attempts that nobody makes any more, in SQL. Functions over a connection of one transaction."""

from collections.abc import Sequence

from sqlalchemy import update
from sqlalchemy.sql import ColumnElement

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.tables.reports import report_attempts
from meterline.delivery import AttemptOutcome, DeliveryState


def in_hand(state: DeliveryState, due_at_ms: int | None, now_ms: int) -> bool:
    """Whether a dispatcher has a delivery: what is being sent is due again when its lease ends."""
    return state is DeliveryState.SENDING and due_at_ms is not None and due_at_ms > now_ms


async def write_lost(connection: Connection, ids: Sequence[str]) -> None:
    """An attempt that is still open under an ended lease: its dispatcher died, before or after
    sending.
    """
    reason = "the dispatcher ended before it recorded an answer; it may have arrived"
    of_them = report_attempts.c.delivery_id.in_(ids)
    await end_open(connection, of_them, AttemptOutcome.LOST, reason)


async def end_open(
    connection: Connection, which: ColumnElement[bool], outcome: AttemptOutcome, reason: str
) -> None:
    """Those of some attempts that are still open end so."""
    await connection.execute(
        update(report_attempts)
        .where(which, report_attempts.c.outcome == AttemptOutcome.SENDING.value)
        .values(outcome=outcome.value, reason=reason)
    )
