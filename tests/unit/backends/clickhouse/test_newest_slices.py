"""Whether the control store is older is asked at each start: years of slices must not make it cost
more.
"""

from collections.abc import Iterator
from typing import Any, cast

from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.holdings import ClickHouseHoldings
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.ports import SILENT, Metric, Recorder, metrics

SLICES = 100_000
LAST = SLICES - 2
GRANULE = 8_192  # rows that are read at once


class RowsRead:
    """A recorder that adds up what statements have read."""

    rows = 0

    def count(self, metric: Metric, amount: float, *_labels: str) -> None:
        if metric is metrics.ROWS_READ:
            self.rows += int(amount)

    def __getattr__(self, name: str) -> Any:
        return getattr(SILENT, name)


async def test_only_what_lies_behind_the_last_seal_is_read(
    usage_store: ClickHouseUsageStore, chdb_url: str, fresh_numbers: Iterator[int]
) -> None:
    log, read = next(fresh_numbers), RowsRead()
    rows = f"SELECT {log}, number % 2, intDiv(number, 2), 0, 0, 0, 0, 0, 0"
    await usage_store.connection.execute(
        f"INSERT INTO accounts {rows} FROM numbers({2 * SLICES}) ORDER BY number % 2, number"
    )
    connection = Connection(chdb_url, recorder=cast("Recorder", read))
    newest = await ClickHouseHoldings(connection).newest(log, {0: LAST, 1: LAST})
    assert newest == {0: [LAST + 1], 1: [LAST + 1]}
    assert 0 < read.rows <= 4 * GRANULE
    await usage_store.connection.execute("TRUNCATE TABLE accounts")
    await connection.close()
