"""A log that is restored: records lie where they lay, in both adapters. It goes on behind them."""

from collections.abc import Sequence

import pytest

from meterline.backends.kafka.log import KafkaLog
from meterline.backends.sqlite_log import SqliteLog
from meterline.event import Record, RecordKind, record_digest
from meterline.ports import Unsuitable
from tests.contract.log.test_log import PARTITIONS, Place, place, read_all

__all__ = ["place"]
FIRSTS = (40, 0, 7)
DAY_MS = 86_400_000
PUT_BACK = [
    Record(0, 40 + number, DAY_MS * number, kind, b"[%d]" % number, "before")
    for number, kind in enumerate([RecordKind.PACK, RecordKind.REFUSAL, RecordKind.PACK])
]


async def opened(place: Place, firsts: Sequence[int] = FIRSTS) -> SqliteLog | KafkaLog:
    """The log, with what the control store knows of it."""
    log = await place.open()
    assert isinstance(log, SqliteLog | KafkaLog)
    if isinstance(log, KafkaLog):
        log.firsts = firsts
    return log


async def test_records_lie_where_they_lay(place: Place) -> None:
    log = await opened(place)
    for partition, first in enumerate(FIRSTS):
        await log.put_back(partition, first, [])
    await log.put_back(0, 40, PUT_BACK[:2])
    await log.put_back(0, 42, PUT_BACK[2:])
    assert [await log.end(number) for number in range(PARTITIONS)] == [43, 0, 7]
    await log.append(0, b"next")
    await log.append(2, b"first")
    await log.close()

    log = await opened(place)
    try:
        assert [await log.begin(number) for number in range(PARTITIONS)] == [40, 0, 7]
        assert [await log.end(number) for number in range(PARTITIONS)] == [44, 0, 8]
        found = await read_all(log, 0)
        assert [record_digest(one) for one in found[:3]] == [record_digest(one) for one in PUT_BACK]
        assert {one.log_id for one in found} == {log.id}
        assert [(one.offset, one.value) for one in found[3:]] == [(43, b"next")]
        assert found[3].append_ms > PUT_BACK[2].append_ms
        assert await log.read(0, 42, 1) == found[2:3]
        assert await log.read(0, 44, 1) == []
        assert [one.offset for one in await log.read(2, 0, 9)] == [7]
    finally:
        await log.close()


async def test_who_else_writes_is_found(place: Place) -> None:
    log = await opened(place)
    try:
        if isinstance(log, KafkaLog):
            await log.append(0, b"of a gateway")
            with pytest.raises(Unsuitable, match=r"others write to Kafka topic .*: stop the"):
                await log.put_back(0, 40, PUT_BACK)
        else:  # one process holds its folder: nobody else can
            await log.put_back(0, 40, PUT_BACK)
            assert await log.end(0) == 43
    finally:
        await log.close()
