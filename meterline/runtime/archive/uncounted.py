"""What of the log is not counted yet is written into an archive."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import msgspec

from aggregator.catch_up import ends_early
from meterline.event import Log, Record
from meterline.limits import ARCHIVE_LOG_TRIES, ARCHIVE_LOOK_S, ARCHIVE_RECORDS
from meterline.ports import Unavailable, Unsuitable
from meterline.runtime.archive.files import Lines, NewArchive
from meterline.runtime.archive.manifest import (
    LOG,
    ArchivedLog,
    Stretch,
    empty_record,
    expired,
    first_of,
)

# Of a partition, where counting begins and where the log does: raises `Unsuitable` unless what lies
# between had no events, or its loss was accepted; `CountedMeanwhile` if it is counted by now.
NothingLost = Callable[[int, int, int], Awaitable[None]]
T = TypeVar("T")
_encoder: Final = msgspec.json.Encoder()


class ArchivedRecord(msgspec.Struct, frozen=True):
    """A record of the log, a line of an archive."""

    offset: int
    append_ms: int
    kind: str
    value: bytes


async def write_log(
    archive: NewArchive, log: Log, sealed: Mapping[int, int], nothing_lost: NothingLost, now_ms: int
) -> ArchivedLog:
    """Write of each partition what is not sealed yet, up to its end as it is now.

    Raises `Unavailable`, as `CountedMeanwhile` where some of it was counted and dropped since;
    `Unsuitable` where some of it expired.
    """
    found = []
    for partition in range(log.partitions):
        counted = sealed.get(partition, 0)
        end = await _asked(partial(log.end, partition))
        if end < counted:
            raise ends_early(partition, end, counted)
        begin = await _asked(partial(log.begin, partition))
        if begin > counted:
            await _check_gone(nothing_lost, partition, counted, begin)
        stretch = Stretch(first_of(begin, counted), end, counted)
        with archive.file(f"{LOG}/{partition}.ndjson.gz") as lines:
            found.append(await _partition(log, partition, stretch, lines, now_ms))
        begins = await _asked(partial(log.begin, partition))
        if begins > max(begin, counted):  # perhaps before it was read
            await _check_gone(nothing_lost, partition, counted, begins)
            raise expired(partition, begins, max(begin, counted))
    return ArchivedLog(log.id, log.number, found)


async def _asked(ask: Callable[[], Awaitable[T]]) -> T:
    """What the log answers. A busy one is asked again: all tables were written before."""
    for _ in range(ARCHIVE_LOG_TRIES - 1):
        try:
            return await ask()
        except Unavailable:
            await asyncio.sleep(ARCHIVE_LOOK_S)
    return await ask()


async def _check_gone(nothing_lost: NothingLost, partition: int, counted: int, begin: int) -> None:
    try:
        await nothing_lost(partition, counted, begin)
    except Unsuitable as error:
        raise expired(partition, begin, counted) from error


async def _partition(
    log: Log, partition: int, stretch: Stretch, lines: Lines, now_ms: int
) -> Stretch:
    first, end, counted = stretch.first, stretch.end, stretch.counted
    offset = first
    while offset < end:
        records = await _asked(partial(log.read, partition, offset, ARCHIVE_RECORDS))
        if not records:
            break
        if offset == stretch.first < counted <= records[0].offset:
            first = counted  # the log knows the last one that was counted no more
        offset = records[-1].offset + 1
        some = [one for one in records if one.offset < end]
        await asyncio.to_thread(_put, lines, some)
    if not lines.rows:
        first = counted
        if first < end:  # all of it expired, and had no events: one stands for them
            _put(lines, [empty_record(partition, first, now_ms, log.id)])
    return Stretch(first, end, counted)


def _put(lines: Lines, records: Sequence[Record]) -> None:
    for it in records:
        line = ArchivedRecord(it.offset, it.append_ms, it.kind.value, it.value)
        lines.write(_encoder.encode(line) + b"\n")
