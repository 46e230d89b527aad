"""Taking a partition on: where to start, and the seen store brought up to that place (design.md
sections 4.1, 4.2).
"""

from meterline.pack import offset_of
from meterline.ports import Log, SeenStore, Unsuitable, UsageStore
from meterline.rows import Seal, SliceId


class LogTruncated(Unsuitable):
    """The log no longer holds records that were never counted. Nothing more is done, so nothing
    more is lost.
    """


async def start_of(
    log: Log, usage: UsageStore, number: int, seal: Seal | None, applied: int
) -> int:
    """Offset of the first record to read: the border after the last sealed slice.

    Raises `LogTruncated` where the log begins behind it and the records between held events.
    """
    begin = await log.begin(number)
    if seal is None and applied == 0:
        return begin
    start = max(0 if seal is None else seal.end, applied)
    end = await log.end(number)
    if end < start:
        message = (
            f"partition {number}: the log ends at offset {end}, but everything below {start} was"
            " counted. The log was made anew or restored to an older state. Point this set-up at"
            " the right log, or start a new one under another name."
        )
        raise LogTruncated(message)
    if begin > start:
        await _check_nothing_lost(log, usage, number, start, begin)
    return max(start, begin)


async def _check_nothing_lost(
    log: Log, usage: UsageStore, number: int, start: int, begin: int
) -> None:
    """What is gone must be an empty slice: an idle partition is closed by an empty pack, which may
    then expire.
    """
    account = await usage.account(SliceId(log.number, number, start))
    if account is None or account.received or offset_of(account.version) + 1 < begin:
        message = (
            f"partition {number}: the log begins at offset {begin}, but records from {start} on"
            " were not sealed. They expired before they were finished. Keep the log longer than the"
            " longest outage (METERLINE_LOG_RETENTION_DAYS), and restore it or accept the loss by"
            " hand."
        )
        raise LogTruncated(message)


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
