"""How the usage store is worked on beside counting: the settings of such statements, and rows that
are rewritten where they lie.
"""

from collections.abc import Mapping
from typing import Any, Final

from meterline.backends.clickhouse.connection import QUERY_SETTINGS, Connection
from meterline.backends.clickhouse.several.replicated import replicas_of
from meterline.limits import BLOCK_MEMORY_BYTES, BLOCK_STEP_S_MAX
from meterline.ports import Unavailable

# A server that works says so, in a header each time, long before its client gives up waiting
# (USAGE_STORE_TIMEOUT_S). Python takes 100 headers, and an answer has up to twenty others. The
# client of ClickHouse raises that bound to 10,000, by a private name: that may end.
PROGRESS_HEADERS_MAX: Final = 80
PROGRESS_MS: Final = BLOCK_STEP_S_MAX * 1_000 // PROGRESS_HEADERS_MAX
# One thread, and what does not fit is put on disk meanwhile: counting and readers come first.
SETTINGS: Final[Mapping[str, Any]] = {
    **QUERY_SETTINGS,
    "max_threads": 1,
    "max_execution_time": BLOCK_STEP_S_MAX,
    "max_bytes_before_external_group_by": BLOCK_MEMORY_BYTES,
    "http_headers_progress_interval_ms": PROGRESS_MS,
}
_RUNNING: Final = """SELECT count() FROM system.mutations
WHERE database = currentDatabase() AND table = {table:String} AND NOT is_done"""


async def run(
    connection: Connection,
    statement: str,
    parameters: dict[str, Any],
    settings: Mapping[str, Any] = SETTINGS,
) -> None:
    """A statement without rows, to its end, on each server. Raises as `Connection.run` does."""
    for server in connection.servers:
        await server.run(
            lambda client: client.command(statement, parameters, settings=dict(settings))
        )


async def counted(connection: Connection, statement: str, parameters: dict[str, Any]) -> int:
    """The one number that a statement gives of each server, added up; where a server has replicas,
    of each of them.
    """
    total = 0
    for server in connection.servers:
        for replica in replicas_of(server):
            ((number,),) = await replica.query(statement, parameters, SETTINGS)
            total += int(number)
    return total


async def rewritten(
    connection: Connection,
    table: str,
    found: str,
    mutation: str,
    parameters: dict[str, Any],
) -> bool:
    """Whether a table had rows to be rewritten, as `found` counts them; they are, then. A mutation
    leaves alone the parts that have none. Raises `Unavailable` also where one still goes on.
    """
    rows = 0
    for replica in replicas_of(connection):  # one that was away when they went has them still
        ((number,),) = await replica.query(found, parameters, SETTINGS)
        rows += int(number)
    if not rows:
        return False
    if await counted(connection, _RUNNING, {"table": table}):  # begun before, and not waited for
        raise Unavailable(f"usage store: {table} is still being rewritten")
    await run(connection, mutation, parameters)
    return True
