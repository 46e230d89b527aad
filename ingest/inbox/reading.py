"""Reading past a record that the client cannot decode.

aiokafka decodes the names of headers as UTF-8 while it unpacks a fetch, and raises where one is
not: without a word about the record, and with the loss of what it unpacked before (of other
partitions, too). So whoever sees that begins anew from what is committed, and reads carefully.
"""

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from meterline.limits import INBOX_READ_RECORDS_MAX, READ_BYTES_MAX


async def read_carefully(
    consumer: AIOKafkaConsumer, where: TopicPartition, wait_ms: int
) -> tuple[list[ConsumerRecord[bytes, bytes]], int | None]:
    """Records of one partition, and the offset of the one behind them that cannot be decoded.

    None: there was none so far as it read, which is no less than what one turn reads. To get past
    the one that was found, seek to the offset after it.
    """
    found: list[ConsumerRecord[bytes, bytes]] = []
    size = 0
    while len(found) < INBOX_READ_RECORDS_MAX and size < READ_BYTES_MAX:
        try:  # one by one, so that none is unpacked and lost with the one behind it
            some = await consumer.getmany(where, timeout_ms=wait_ms, max_records=1)
        except UnicodeDecodeError:
            fetched = consumer._fetcher._records[where]  # noqa: SLF001 - told nowhere else
            return found, int(fetched._partition_records.next_fetch_offset)  # noqa: SLF001
        if where not in some:
            break
        found += some[where]
        size += len(some[where][0].value or b"")
    return found, None
