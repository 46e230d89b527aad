"""Claims and records find their rows by an index, however many deliveries are kept."""

from typing import Any, Final

import pytest
from sqlalchemy import create_engine

from meterline.backends.control_store.deliveries import claims, results
from meterline.backends.control_store.one_step import Question
from meterline.backends.control_store.reports import listing
from meterline.backends.control_store.tables.reports import reports

STATEMENTS: Final[dict[str, Any]] = {
    "take": claims._TAKE,  # noqa: SLF001 - their plans are asked for
    "open attempts": claims._OPEN_ATTEMPTS,  # noqa: SLF001
    "bodies": listing._BODIES,  # noqa: SLF001
    "senders": claims._SENDERS,  # noqa: SLF001
    "sent": results._SENT,  # noqa: SLF001
    "end": results._END,  # noqa: SLF001
    "counts": results._COUNTS,  # noqa: SLF001
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_rows_of_ids_are_found_by_an_index(name: str) -> None:
    statement = STATEMENTS[name]
    if isinstance(statement, Question):
        statement = statement._question  # noqa: SLF001
    engine = create_engine("sqlite://")
    reports.metadata.create_all(engine)
    compiled = statement.compile(engine)
    given = tuple('["a"]' if it.startswith("ids") else 1 for it in compiled.positiontup or ())
    with engine.begin() as connection:
        question = f"EXPLAIN QUERY PLAN {compiled}"
        plan = [str(row[3]) for row in connection.exec_driver_sql(question, given)]
    assert any(step.startswith("SEARCH") for step in plan), plan
    assert not [step for step in plan if step.startswith("SCAN") and "json_each" not in step], plan
