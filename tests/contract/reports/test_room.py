"""The bound of reports of a namespace, for every control store."""

import asyncio
from dataclasses import replace

from sqlalchemy import insert, select

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.tables.reports import reports as reports_table
from meterline.limits import REPORTS_MAX
from meterline.problem import Problem, ProblemType
from meterline.report import Report, ReportStore
from tests.contract.reports.conftest import NOW, START


async def fill(database: Database, count: int) -> None:
    """Copies of the report that is there, so that there are so many more."""

    async def act(connection: Connection) -> None:
        row = dict((await connection.execute(select(reports_table))).mappings().one())
        rows = [{**row, "id": f"F{n:04}", "slug": f"filled-{n}"} for n in range(count)]
        await connection.execute(insert(reports_table), rows)

    await database.write(act)


async def test_a_namespace_has_a_bound_of_reports(
    store: ReportStore, report: Report, control_database: Database
) -> None:
    await fill(control_database, REPORTS_MAX - 2)
    last, more = (replace(report, id=f"0{n}R", slug=f"s{n}") for n in (2, 3))
    # Two at once, and one place: one of them has it.
    made = await asyncio.gather(
        store.create_report(last, START), store.create_report(more, START), return_exceptions=True
    )
    (problem,) = [it for it in made if it is not None]
    assert isinstance(problem, Problem)
    assert problem.type is ProblemType.CONFLICT
    assert f"has {REPORTS_MAX} reports" in problem.detail
    assert len(await store.reports("default")) == REPORTS_MAX
    await store.create_report(report, START)  # repeated: it is there
    assert len(await store.reports("default")) == REPORTS_MAX
    await store.delete_report(report.id, NOW)
    refused = last if made[0] is problem else more
    await store.create_report(refused, START)
    assert len(await store.reports("default")) == REPORTS_MAX
