"""How many reports a namespace may have, in SQL. Functions over a connection of one transaction."""

from sqlalchemy import func, select

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.meters.rows import take_turn
from meterline.backends.control_store.tables.reports import reports
from meterline.limits import REPORTS_MAX
from meterline.problem import Problem, ProblemType
from meterline.report import Report


async def check_room(connection: Connection, report: Report) -> None:
    """Raise `Problem` (conflict) where the namespace has all the reports that it may have besides
    this one. Two that are created at once take turns, so that the bound holds.
    """
    # The turn of the catalogue comes before any row of it, as where meters are changed.
    await take_turn(connection)
    others = select(func.count()).where(
        reports.c.namespace == report.namespace,
        reports.c.deleted_at_ms.is_(None),
        reports.c.id != report.id,  # this very report, repeated
    )
    if int((await connection.execute(others)).scalar_one()) >= REPORTS_MAX:
        detail = (
            f"The namespace has {REPORTS_MAX} reports, and can have no more: delete one first. One"
            " report covers all subjects of a meter; a filter of usage and subjects narrows it."
        )
        raise Problem(ProblemType.CONFLICT, detail)
