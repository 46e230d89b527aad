"""Nobody claims completeness beside a reader of inbox topics that it does not know."""

import asyncio

import pytest

from meterline.backends.kafka.inbox_readers import AgreedInbox, InboxReaders
from meterline.limits import INBOX_READERS_LOOK_MS
from meterline.ports import Unsuitable

NONE: frozenset[str] = frozenset()
OTHERS = frozenset({"orders", "calls"})


class Kafka:
    """What it tells of the readers, look by look; the last for ever."""

    def __init__(self, *told: frozenset[str] | None) -> None:
        self.told = list(told)
        self.asked = 0

    async def unknown(self) -> frozenset[str] | None:
        self.asked += 1
        return self.told.pop(0) if len(self.told) > 1 else self.told[0]


async def drained(now_ms: int) -> int | None:
    return now_ms - 7


async def test_a_start_beside_readers_of_other_topics_is_refused() -> None:
    with pytest.raises(Unsuitable) as caught:
        await AgreedInbox(Kafka(OTHERS).unknown, None).check()
    assert "reads the inbox topics calls, orders, which inbox_topics of this" in str(caught.value)
    assert "Set the same inbox_topics" in str(caught.value)
    for told in (NONE, None):
        await AgreedInbox(Kafka(told).unknown, drained).check()


@pytest.mark.parametrize(("known", "drained_ms"), [(drained, 93), (None, 100)])
async def test_an_inbox_that_all_know_is_as_far_as_it_is(known: object, drained_ms: int) -> None:
    agreed = AgreedInbox(Kafka(NONE).unknown, drained if known is drained else None)
    assert await agreed.drained_until(100) == drained_ms


async def test_nothing_is_known_while_somebody_reads_another_topic() -> None:
    kafka = Kafka(NONE, OTHERS, None, NONE)
    agreed = AgreedInbox(kafka.unknown, drained)
    looks = [100 + number * INBOX_READERS_LOOK_MS for number in range(4)]
    found = [await agreed.drained_until(at_ms) for at_ms in looks]
    assert found == [93, None, None, looks[3] - 7], "what is not told changes nothing"
    assert kafka.asked == 4


async def test_readers_are_asked_once_in_a_while() -> None:
    kafka = Kafka(NONE)
    agreed = AgreedInbox(kafka.unknown, drained)
    for at_ms in range(100, 100 + INBOX_READERS_LOOK_MS, 1_000):
        assert await agreed.drained_until(at_ms) == at_ms - 7
    assert kafka.asked == 1


async def test_a_broker_that_takes_connections_and_never_answers_tells_nothing() -> None:
    left = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()
        left.set()

    async with await asyncio.start_server(hang, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()[:2]
        readers = InboxReaders(f"{host}:{port}", "group", [], look_timeout_s=0.1)
        assert await readers.unknown() is None
        await left.wait()  # nothing of the look is left open
