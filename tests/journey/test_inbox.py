"""Producers without HTTP: events in a topic of their own count like those that are posted."""

import json

from aiokafka import AIOKafkaProducer

from tests.journey.deadline import until
from tests.journey.journey import Journey
from tests.journey.later import FROM_THE_INBOX
from tests.journey.setups import Servers

EVENTS = 500
COUNTED_WITHIN_S = 180.0


def event(number: int) -> dict[str, object]:
    """An event whose value is its number; its identity does not say which door it took."""
    return {
        "specversion": "1.0",
        "id": f"inbox-{number}",
        "source": "journey",
        "type": FROM_THE_INBOX["event_type"],
        "subject": f"s{number % 3}",
        "time": "2026-01-01T00:00:00Z",
        "data": {"value": number},
    }


async def produce(servers: Servers, topic: str, values: list[bytes]) -> None:
    """As any producer would: no key, its own partitioner."""
    producer = AIOKafkaProducer(bootstrap_servers=servers.kafka)
    await producer.start()
    try:
        for value in values:
            await producer.send(topic, value)
        await producer.flush()
    finally:
        await producer.stop()


async def test_events_of_a_topic_and_of_the_gateway_count_once(
    distributed_journey: Journey, servers: Servers
) -> None:
    setup = distributed_journey.setup
    before = setup.status["account"]
    texts = [json.dumps(event(number)).encode() for number in range(EVENTS)]
    await produce(servers, setup.inbox_topic, [*texts, b"no event", texts[0]])
    posted = setup.ingest.ask("POST", "/api/v3/metering/events", event(1))
    assert posted.status == 202, posted.body

    def counted() -> bool:
        answer = setup.control.ask("POST", "/api/v3/metering/meters/inbox/query", {}).json
        return [row["value"] for row in answer["data"]] == [str(sum(range(EVENTS)))]

    until("the events of the inbox count", COUNTED_WITHIN_S, counted)

    def accounted() -> bool:
        after = setup.status["account"]
        grown = {name: after[name] - before[name] for name in after}
        expected = {"new": EVENTS, "duplicate": 2, "conflict": 0, "invalid": 1}
        return grown == {"received": EVENTS + 3, **expected}

    until("every record has its verdict", COUNTED_WITHIN_S, accounted)
