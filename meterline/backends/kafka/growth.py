"""A topic gets more partitions, and all of its brokers know of them."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from aiokafka.admin import AIOKafkaAdminClient, NewPartitions
from aiokafka.errors import (
    InvalidPartitionsError,
    NoError,
    PolicyViolationError,
    TopicAuthorizationFailedError,
    for_code,
)

from meterline.backends.kafka.metadata import TopicIdRequest
from meterline.backends.kafka.topic import (
    KNOWN_TRIES_MAX,
    KNOWN_WAIT_S,
    Topic,
    asked,
    described,
    found_in,
)
from meterline.limits import LOG_TIMEOUT_S
from meterline.ports import AccessRefused, Unavailable, Unsuitable

AGGREGATOR: Final = "meterline-aggregator"  # how one that knows of growths names itself to Kafka
_REFUSED: Final = (InvalidPartitionsError, PolicyViolationError)


class Answer(NamedTuple):
    """What a broker says: how many partitions a topic has, and which brokers there are."""

    partitions: int
    brokers: frozenset[int]


async def ask_to_grow(
    bootstrap: str,
    name: str,
    partitions: int,
    security: Mapping[str, Any],
    timeout_s: float = LOG_TIMEOUT_S,
) -> int:
    """How many partitions a topic has, once Kafka says that it would give it so many. Nothing is
    changed. Raises `AccessRefused` and `Unsuitable` with words where it would not, `Unavailable`.
    """
    async with asked(bootstrap, name, security, timeout_s) as admin:
        topic = await _there(admin, bootstrap, name)
        if topic.partitions < partitions:
            await _alter(admin, name, partitions, validate_only=True)
        return topic.partitions


async def grow_topic(
    bootstrap: str,
    name: str,
    partitions: int,
    security: Mapping[str, Any],
    timeout_s: float = LOG_TIMEOUT_S,
) -> None:
    """Give a topic so many partitions, and return when every broker says so. Raises as
    `ask_to_grow` does.
    """
    async with asked(bootstrap, name, security, timeout_s) as admin:
        if (await _there(admin, bootstrap, name)).partitions < partitions:
            await _alter(admin, name, partitions)
        for _ in range(KNOWN_TRIES_MAX):
            if known_to_all(await _answers(admin, name)) >= partitions:
                return
            await asyncio.sleep(KNOWN_WAIT_S)
        raise Unavailable(f"not all brokers know yet that topic {name} has {partitions} partitions")


def known_to_all(answers: Mapping[int, Answer]) -> int:
    """How many partitions every broker knows of; 0 while one that another one names did not say."""
    named = frozenset[int]().union(*(one.brokers for one in answers.values()))
    if not answers or named - answers.keys():
        return 0
    return min(one.partitions for one in answers.values())


async def older_members(
    bootstrap: str,
    group: str,
    security: Mapping[str, Any],
    timeout_s: float = LOG_TIMEOUT_S,
) -> list[str]:
    """The hosts of aggregators in a consumer group that know nothing of growths: those of releases
    before this one. Raises `AccessRefused`, `Unavailable`.
    """
    async with asked(bootstrap, group, security, timeout_s) as admin:
        (answer,) = await admin.describe_consumer_groups([group])
        (found,) = answer.to_object()["groups"]
        error = for_code(found["error_code"])
        if error is not NoError:
            raise error(f"group {group}")
        return sorted(
            member["client_host"].lstrip("/")
            for member in found["members"]
            if not member["client_id"].startswith(AGGREGATOR)
        )


async def _there(admin: AIOKafkaAdminClient, bootstrap: str, name: str) -> Topic:
    topic = await described(admin, name)
    if topic is None:
        raise Unavailable(f"Kafka at {bootstrap}: topic {name} is not there")
    return topic


async def _alter(
    admin: AIOKafkaAdminClient, name: str, partitions: int, *, validate_only: bool = False
) -> None:
    new = {name: NewPartitions(partitions)}
    try:
        await admin.create_partitions(new, validate_only=validate_only)
    except TopicAuthorizationFailedError as error:
        raise AccessRefused(
            f"this user may not add partitions to topic {name}: give it the right ALTER on the"
            f" topic (kafka-acls.sh --add --operation Alter --topic {name})"
        ) from error
    except _REFUSED as error:
        raise Unsuitable(
            f"Kafka refuses to give topic {name} {partitions} partitions: {error}"
        ) from error


async def _answers(admin: AIOKafkaAdminClient, name: str) -> dict[int, Answer]:
    """What each broker says that the client knows now."""
    client = admin._client  # noqa: SLF001 - as in `topic_at`: it can ask any broker
    await client.force_metadata_update()
    answers = {}
    for broker in client.cluster.brokers():
        answer = await client.send(broker.nodeId, TopicIdRequest(name))
        topic = found_in(answer, name)
        named = frozenset(it["node_id"] for it in answer.to_object()["brokers"])
        answers[broker.nodeId] = Answer(0 if topic is None else topic.partitions, named)
    return answers
