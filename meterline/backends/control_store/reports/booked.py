"""What receivers hold of a window, in SQL. Functions over a connection of one transaction."""

from sqlalchemy import collate, select
from sqlalchemy.sql import ColumnElement

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.tables.reports import report_deliveries, report_runs
from meterline.report import Booked, Run

_deliveries = report_deliveries.c
_runs = report_runs.c


async def booked(
    connection: Connection, run: Run, after: str | None = None, until: str | None = None
) -> dict[str, Booked]:
    """By subject, what was last said by earlier revisions of the window: of subjects after one, up
    to another.
    """
    subject = _by_code_points(connection)
    question = (
        select(_deliveries.subject, _deliveries.id, _deliveries.usage_digest, _deliveries.failure)
        .join(report_runs, _runs.id == _deliveries.run_id)
        .where(
            _runs.report_id == run.report_id,
            _runs.from_ms == run.from_ms,
            _runs.to_ms == run.to_ms,
            _runs.revision < run.revision,
        )
        .order_by(_deliveries.revision)  # so that the last one stays
    )
    if after is not None:
        question = question.where(subject > after)
    if until is not None:
        question = question.where(subject <= until)
    held: dict[str, Booked] = {}
    for row in await connection.execute(question):
        name = row.id
        if row.failure is not None:  # it never arrives: the one before stands
            before = held.get(row.subject)
            name = None if before is None else before.delivery_id
        held[row.subject] = Booked(name, row.usage_digest)
    return held


def _by_code_points(connection: Connection) -> ColumnElement[str]:
    """The subject in the order that the usage store and Python have: SQLite has it by itself."""
    if connection.dialect.name == "postgresql":
        return collate(_deliveries.subject, "C")
    return _deliveries.subject
