"""A partition that has counted very much: its seen rows by SQL, and what says that they are sealed.
No event is there, and none is looked for: the seal tells of none.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from meterline.backends.clickhouse.connection import Connection
from meterline.backends.kafka.log import KafkaLog
from meterline.event import encode_pack, position
from meterline.meter import Catalogue
from meterline.usage import AccountRow, Flush, ProgressStore, Seal, UsageStore

RECORD_KEYS: Final = 1_000  # keys of one record
PORTION: Final = 2_000_000  # rows of one statement
IN_FLIGHT: Final = 256

_ROWS: Final = """INSERT INTO seen (log, partition, offset, place, slice, append_ms, key, check)
SELECT {log:UInt16}, {partition:UInt16}, intDiv(number, 1000), number % 1000, 0,
    {begin_ms:Int64} + intDiv(number * {span_ms:Int64}, {keys:UInt64}),
    substring(SHA256(concat(toString({partition:UInt16}), '/', toString(number))) AS hash, 1, 16),
    substring(hash, 17, 8)
FROM numbers({first:UInt64}, {rows:UInt64})"""


@dataclass(frozen=True, slots=True)
class SeenKeys:
    """So many keys of one partition, appended evenly within a span of time that has ended."""

    log: int
    partition: int
    keys: int
    begin_ms: int
    end_ms: int

    @property
    def records(self) -> int:
        """Records that held them."""
        return -(-self.keys // RECORD_KEYS)


async def rows_made(connection: Connection, of: SeenKeys) -> None:
    """The rows of the seen table: some ten seconds for ten million."""
    shared = {"log": of.log, "partition": of.partition, "keys": of.keys}
    shared |= {"begin_ms": of.begin_ms, "span_ms": of.end_ms - of.begin_ms}
    for first in range(0, of.keys, PORTION):
        rows = min(PORTION, of.keys - first)
        await connection.insert_selected(_ROWS, {**shared, "first": first, "rows": rows}, {})


async def sealed(
    usage: UsageStore, progress: ProgressStore, catalogue: Catalogue, of: SeenKeys
) -> None:
    """One slice that ends behind the last of them."""
    version = position(of.records - 1, 0)
    account = AccountRow(of.log, of.partition, 0, version, of.keys, of.keys, 0, 0, 0)
    await usage.write(Flush(accounts=[account]))
    seal = Seal(of.log, of.partition, 0, of.records, 0, catalogue.version, of.end_ms)
    await progress.seal(seal)


async def appended(log: KafkaLog, of: SeenKeys) -> None:
    """As many records as there were, without events: offsets go on behind them."""
    empty = encode_pack([])
    for first in range(0, of.records, IN_FLIGHT):
        count = min(IN_FLIGHT, of.records - first)
        await asyncio.gather(*(log.append(of.partition, empty) for _ in range(count)))
