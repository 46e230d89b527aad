"""How far the inbox is, and whether its topics are the same in all processes."""

from contextlib import AsyncExitStack

from aggregator.completeness import InboxDrained
from meterline.backends.kafka.inbox_readers import AgreedInbox, InboxReaders
from meterline.runtime.settings.reading import Settings
from meterline.runtime.wiring.adapters import INBOX_GROUP_SUFFIX, inbox_watch
from meterline.runtime.wiring.connections import kafka_security


async def agreed_inbox(settings: Settings, stack: AsyncExitStack) -> InboxDrained | None:
    """For completeness; None where the log is not on Kafka. Raises `Unsuitable` where a topic is
    read that the settings of this process do not have.
    """
    if not settings.kafka_servers:
        return None
    readers = InboxReaders(
        settings.kafka_servers,
        settings.consumer_group + INBOX_GROUP_SUFFIX,
        settings.inbox_topics,
        kafka_security(settings),
        timeout_s=settings.log_timeout_s,
    )
    stack.push_async_callback(readers.close)
    watch = inbox_watch(settings, stack)
    agreed = AgreedInbox(readers.unknown, None if watch is None else watch.drained_until)
    await agreed.check()
    return agreed.drained_until
