"""What a meter's usage is split by, as it occurs: a page of texts, and how many there are."""

from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.usage_answer import folded_cuts, pieces_of
from meterline.backends.clickhouse.usage_sql import Minutes, values_statement
from meterline.usage import UsageQuery


async def values(
    connection: Connection, query: UsageQuery, limit: int, offset: int
) -> tuple[list[str], int]:
    """See `ports.UsageStore.usage_values`."""
    assert query.window is None, "no row is a window"
    parts, cuts = await pieces_of(connection, query)
    minutes = Minutes(tuple(parts))
    at = 1 if query.by_subject else 2  # of a key: bucket, subject, dimensions
    folded = folded_cuts(query, minutes, cuts)
    cut = sorted({str(key[at]) for key, aggregate in folded.items() if aggregate.count})
    sql, bound = values_statement(query, minutes, cut)
    ((total,),) = await connection.query(f"SELECT count() FROM ({sql})", bound)  # noqa: S608
    if offset >= total:
        return [], int(total)
    paged = f"{sql} ORDER BY v LIMIT {int(limit)} OFFSET {int(offset)}"
    return [text for (text,) in await connection.query(paged, bound)], int(total)
