"""Usage by subject in portions: one statement whose rows come as they are asked for, so that
nobody holds all of a large answer.
"""

from collections.abc import AsyncIterator
from contextlib import aclosing

from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.usage.answer import answer, pieces_of
from meterline.backends.clickhouse.usage.sql import Minutes, sum_statement
from meterline.limits import RUN_ROWS_READ
from meterline.usage import UsageQuery, UsageRow


async def portions(
    connection: Connection, query: UsageQuery, rows_max: int
) -> AsyncIterator[list[UsageRow]]:
    """See `run_ports.SubjectUsageStore.usage_by_subject`."""
    assert query.from_ms is not None, "both ends are given"
    assert query.to_ms is not None
    assert query.window is None
    assert query.group_by[:1] == ("subject",), "ordered by it"
    waiting: list[UsageRow] = []
    async with aclosing(answer(connection, query, rows_max=None)) as blocks:
        async for block in blocks:
            waiting += block
            whole = len(waiting) - len(waiting) % rows_max
            for start in range(0, whole, rows_max):
                yield waiting[start : start + rows_max]
            waiting = waiting[whole:]
    if waiting:
        yield waiting


async def total(connection: Connection, query: UsageQuery) -> tuple[int, int]:
    """See `run_ports.SubjectUsageStore.usage_sum`: by the store, where it can tell exactly."""
    parts, cuts = await pieces_of(connection, query)
    statement = sum_statement(query, Minutes(tuple(parts))) if parts else None
    if statement is not None and not any(events for _, events in cuts):
        ((count, value),) = await connection.query(*statement)
        return int(count), int(value)
    count = value = 0
    async for rows in portions(connection, query, RUN_ROWS_READ):
        count += len(rows)
        value += sum(row.value for row in rows)
    return count, value
