"""Taking a partition on: where to start, and the seen store brought up to that place (design.md
sections 4.1, 4.2).
"""

from collections.abc import Mapping

from meterline.pack import Record, offset_of
from meterline.ports import Log, SeenStore, Unsuitable, UsageStore
from meterline.rows import Seal, SliceId


class LogTruncated(Unsuitable):
    """The log no longer holds records that were never counted. Nothing more is done, so nothing
    more is lost.
    """


async def start_of(
    log: Log,
    usage: UsageStore,
    number: int,
    seal: Seal | None,
    applied: int,
    losses_accepted: Mapping[int, int],
) -> int:
    """Offset of the first record to read: the border after the last sealed slice.

    Raises `LogTruncated` where the log ends before it, or begins behind it and the records between
    held events.
    """
    begin = await log.begin(number)
    start = max(0 if seal is None else seal.end, applied)
    end = await log.end(number)
    if end < start:
        raise ends_early(number, end, start)
    if begin > start:
        await check_nothing_lost(log, usage, number, start, begin, losses_accepted)
    return max(start, begin)


def ends_early(number: int, end: int, counted: int) -> LogTruncated:
    """The log lost its end: what comes now would lie at offsets that were counted."""
    return LogTruncated(
        f"partition {number}: the log ends at offset {end}, but everything below {counted} was"
        " counted. The log was made anew or restored to an older state. Point this set-up at the"
        " right log, or start a new one under another name."
    )


def another_log(record: Record, log_id: str) -> LogTruncated:
    """A record that was written to another log lies in this one."""
    return LogTruncated(
        f"partition {record.partition}: the record at offset {record.offset} belongs to log"
        f" {record.log_id}, this is {log_id}. The log was copied or made anew. Point this set-up at"
        " the right log, or start a new one under another name."
    )


async def check_nothing_lost(
    log: Log,
    usage: UsageStore,
    number: int,
    start: int,
    begin: int,
    losses_accepted: Mapping[int, int],
) -> None:
    """Raise `LogTruncated` unless what is gone was an empty slice, or its loss was accepted.

    An idle partition is closed by an empty pack, which may then expire.
    """
    if losses_accepted.get(number) == begin:
        return
    account = await usage.account(SliceId(log.number, number, start))
    if account is None or account.received or offset_of(account.version) + 1 < begin:
        raise LogTruncated(
            f"partition {number}: the log begins at offset {begin}, but records from {start} on"
            " were never counted whole: they expired first. Keep the log longer than the longest"
            " outage (log_retention_days) and restore it. If they are gone for good, set"
            f' losses_accepted to {{"{number}": {begin}}}: counting goes on from there'
        )


async def caught_up_seen(
    usage: UsageStore, log: int, number: int, seen: SeenStore, start: int
) -> None:
    """Apply the first positions between what the seen store has and `start`: it was lost, or is an
    older copy.
    """
    if seen.applied >= start:
        return
    async for rows in usage.seen_between(log, number, seen.applied, start):
        seen.apply(rows, rows[-1].offset)
    seen.apply([], start)
