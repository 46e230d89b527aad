"""Taking a partition on: where to start, and the seen store brought up to that place
(docs/architecture.md, "Verdicts").
"""

from collections.abc import Mapping

from meterline.event import Log, Record, offset_of, record_digest
from meterline.ports import Unsuitable
from meterline.usage import Seal, SeenStore, SliceId, UsageStore


class LogTruncated(Unsuitable):
    """The log no longer holds records that were never counted. Nothing more is done, so nothing
    more is lost.
    """


async def check_same_log(log: Log, number: int, seal: Seal | None, counted: int) -> None:
    """Raise `LogTruncated` where the log ends before what was counted, or where the last record
    that was sealed is another one now.

    A record that the log has dropped since, and a seal without a digest, say nothing.
    """
    end = await log.end(number)
    if end < counted:
        raise ends_early(number, end, counted)
    if seal is None or seal.digest is None:
        return
    last = seal.end - 1
    found = await log.read(number, last, 1)
    if found and found[0].offset == last:
        if record_digest(found[0]) != seal.digest:
            raise another_past(number, last, "is not the one that was counted")
    elif await log.begin(number) <= last:  # asked after the read: it may expire in between
        raise another_past(number, last, "is missing, although older records exist")


async def start_of(
    log: Log, usage: UsageStore, number: int, reached: int, losses_accepted: Mapping[int, int]
) -> int:
    """Offset of the first record to read: the border after the last sealed slice, `reached`.

    Raises `LogTruncated` where the log begins behind it and the records between held events.
    """
    begin = await log.begin(number)
    if begin > reached:
        await check_nothing_lost(log, usage, number, reached, begin, losses_accepted)
    return max(reached, begin)


def ends_early(number: int, end: int, counted: int) -> LogTruncated:
    """The log lost its end: what comes now would lie at offsets that were counted."""
    return LogTruncated(
        f"partition {number}: the log ends at offset {end}, but everything below {counted} was"
        " counted. The log was created again, or restored to an older state. Correct log_url,"
        " log_topic or data_dir; or restore all stores from the same moment."
    )


def another_log(record: Record, log_id: str) -> LogTruncated:
    """A record that was written to another log lies in this one."""
    return LogTruncated(
        f"partition {record.partition}: the record at offset {record.offset} belongs to log"
        f" {record.log_id}, but this log is {log_id}. The log was copied or created again. Correct"
        " log_url, log_topic or data_dir; or continue with a new log under another name."
    )


def another_past(number: int, offset: int, what: str) -> LogTruncated:
    """The log was restored to an older state and grew again, or is a copy that went its own way."""
    return LogTruncated(
        f"partition {number}: the record at offset {offset}, the last one of a slice that was"
        f" counted, {what}. The log was restored to an older state and has grown since, or it is"
        " another log. Nothing more is counted, and counts stay as they are. Stop the gateways."
        " Restore the newest state of the log. If it is lost, continue with a new log under"
        " another name, and send again everything that was sent since the restore"
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
            " were not counted: they expired first. Restore the log from a copy that has them. If"
            f' they are lost for good, set losses_accepted to {{"{number}": {begin}}}: counting'
            " then continues without them. Set log_retention_days above your longest outage"
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
