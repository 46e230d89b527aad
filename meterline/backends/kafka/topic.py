"""The topic of the log on Kafka: made if it is missing, else its settings are checked.

Kafka gives each topic an id of its own when it is made, which no topic has again: it is the id of
the log.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import structlog
from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import (
    AuthenticationFailedError,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    LeaderNotAvailableError,
    NoError,
    SaslAuthenticationFailed,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.protocol.api import Response

from meterline.backends.kafka import topic_settings
from meterline.backends.kafka.metadata import TopicIdRequest
from meterline.backends.kafka.topic_settings import Replicas
from meterline.event import may_be_laid_out
from meterline.limits import LOG_TIMEOUT_S
from meterline.ports import AccessRefused, Unavailable, Unsuitable

logger = structlog.get_logger()
# bits of Kafka's
_RIGHTS: Final = {"READ": 3, "WRITE": 4, "ALTER": 7, "DESCRIBE": 8, "DESCRIBE_CONFIGS": 10}
_REFUSED: Final = (
    AuthenticationFailedError,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
)
KNOWN_TRIES_MAX: Final = 50
KNOWN_WAIT_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Topic:
    """What Kafka says of a topic. `id` is spelled as Kafka's own tools spell it."""

    name: str
    id: str
    partitions: int
    replicas: Replicas


class Inspected(NamedTuple):
    """A topic as it is, and what this user may do with it; None where there is none."""

    brokers: int
    topic: Topic | None = None
    settings: Mapping[str, str] = MappingProxyType({})
    rights: frozenset[str] = frozenset()


async def ensure_topic(
    bootstrap: str,
    name: str,
    partitions: int,
    retention_ms: int,
    security: Mapping[str, Any],
    timeout_s: float = LOG_TIMEOUT_S,
) -> Topic:
    """The topic of a log, made if it is missing.

    Raises `Unavailable`, and `Unsuitable` that names the setting where the topic cannot be a log.
    What only costs something is told by the log.
    """
    async with asked(bootstrap, name, security, timeout_s) as admin:
        topic = await described(admin, name)
        if topic is None:
            await _create(admin, name, partitions, retention_ms)
            topic = await _known(admin, name)
        _check_partitions(topic, partitions)
        found = await _settings(admin, name)
        for hint in topic_settings.check(name, found, topic.replicas, retention_ms):
            logger.warning("topic_settings", topic=name, hint=hint)
        return topic


async def inspect_topic(
    bootstrap: str, name: str, security: Mapping[str, Any], timeout_s: float = LOG_TIMEOUT_S
) -> Inspected:
    """What there is, and nothing is made. Raises `Unavailable`."""
    async with asked(bootstrap, name, security, timeout_s) as admin:
        answer = await admin._send_request(TopicIdRequest(name, with_rights=True))  # noqa: SLF001
        topic = found_in(answer, name)
        if topic is None:
            return Inspected(len(answer.to_object()["brokers"]))
        bits = answer.to_object()["topics"][0]["authorized_operations"]
        rights = frozenset(right for right, bit in _RIGHTS.items() if bits >> bit & 1)
        return Inspected(topic.replicas.brokers, topic, await _settings(admin, name), rights)


async def check_inbox_topic(bootstrap: str, name: str, security: Mapping[str, Any]) -> Topic:
    """An inbox topic, which its owner makes. Raises `Unavailable` and `Unsuitable`."""
    async with asked(bootstrap, name, security) as admin:
        topic = await described(admin, name)
        if topic is None:
            raise Unsuitable(f"there is no inbox topic {name} at {bootstrap}: make it first")
        settings = await _settings(admin, name)
        if settings["message.timestamp.type"] != "LogAppendTime":
            raise Unsuitable(
                f"inbox topic {name} must have message.timestamp.type=LogAppendTime: an event is "
                "recorded when the broker has it, not when its sender says"
            )
        return topic


@asynccontextmanager
async def asked(
    bootstrap: str, name: str, security: Mapping[str, Any], timeout_s: float = LOG_TIMEOUT_S
) -> AsyncIterator[AIOKafkaAdminClient]:
    """A client for questions about a topic. Errors of Kafka and the network as `Unavailable`."""
    admin = AIOKafkaAdminClient(
        bootstrap_servers=bootstrap, request_timeout_ms=int(timeout_s * 1_000), **security
    )
    try:
        await admin.start()
        yield admin
    except (KafkaError, OSError, TimeoutError) as error:
        raise _unavailable(f"Kafka at {bootstrap}, topic {name}", error) from error
    finally:
        await admin.close()


def renew_password(client: AIOKafkaClient, security: Mapping[str, Any]) -> None:
    """New connections of a client that lives on use the password as it is now. aiokafka has no
    word for that; what is read when a connection is made is this one attribute.
    """
    if "sasl_plain_password" in security:
        client._sasl_plain_password = security["sasl_plain_password"]  # noqa: SLF001


async def started(consumer: AIOKafkaConsumer) -> AIOKafkaConsumer:
    """The consumer, connected; where it cannot be, it is let go of."""
    try:
        await consumer.start()
    except BaseException:
        await consumer.stop()
        raise
    return consumer


def _unavailable(where: str, error: Exception) -> Unavailable:
    if isinstance(error, _REFUSED):
        return AccessRefused(f"{where}: access refused: {error}")
    if isinstance(error, TimeoutError | KafkaConnectionError | OSError):
        return Unavailable(f"{where}: no answer in time")
    return Unavailable(f"{where}: {error}")


async def topic_at(client: AIOKafkaClient, broker: int, name: str) -> Topic | None:
    """The topic as a broker knows it; None where it knows none. Raises `KafkaError`."""
    return found_in(await client.send(broker, TopicIdRequest(name)), name)


async def described(admin: AIOKafkaAdminClient, name: str) -> Topic | None:
    """The topic as one of the brokers knows it; None where it knows none. Raises `KafkaError`."""
    # The admin client can send any request; it has a method for only some of them.
    return found_in(await admin._send_request(TopicIdRequest(name)), name)  # noqa: SLF001


def found_in(answer: Response, name: str) -> Topic | None:
    """The topic of an answer to `TopicIdRequest`; None where there is none. Raises `KafkaError`."""
    answered = answer.to_object()
    found = answered["topics"][0]
    error = for_code(found["error_code"])
    if error is UnknownTopicOrPartitionError:
        return None
    if error not in (NoError, LeaderNotAvailableError):
        raise error(name)
    topic_id = base64.urlsafe_b64encode(found["topic_id"]).decode().rstrip("=")
    copies = min((len(it["replicas"]) for it in found["partitions"]), default=0)
    replicas = Replicas(len(answered["brokers"]), copies)
    return Topic(name, topic_id, len(found["partitions"]), replicas)


async def _known(admin: AIOKafkaAdminClient, name: str) -> Topic:
    """A topic just made, once its brokers know of it."""
    for _ in range(KNOWN_TRIES_MAX):
        topic = await described(admin, name)
        if topic is not None:
            return topic
        await asyncio.sleep(KNOWN_WAIT_S)
    raise Unavailable(f"topic {name} was made and its brokers do not know it yet")


async def _create(
    admin: AIOKafkaAdminClient, name: str, partitions: int, retention_ms: int
) -> None:
    cluster = await admin.describe_cluster()
    copies, settings = topic_settings.of_new(len(cluster["brokers"]), retention_ms)
    new = NewTopic(name, partitions, copies, topic_configs=settings)
    answer = await admin.create_topics([new])
    error = for_code(answer.to_object()["topic_errors"][0]["error_code"])
    if error not in (NoError, TopicAlreadyExistsError):  # another process may have been quicker
        raise error(name)


async def _settings(admin: AIOKafkaAdminClient, name: str) -> dict[str, str]:
    (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
    (resource,) = answer.to_object()["resources"]
    error = for_code(resource["error_code"])
    if error is not NoError:
        raise error(name)
    return {entry["config_names"]: entry["config_value"] for entry in resource["config_entries"]}


def _check_partitions(topic: Topic, partitions: int) -> None:
    if not may_be_laid_out(topic.partitions, partitions):
        hint = ""
        if may_be_laid_out(partitions, topic.partitions):
            hint = f". To get {partitions}, run `meterline migrate --partitions {partitions}`"
        raise Unsuitable(
            f"topic {topic.name} has {topic.partitions} partitions, the settings say {partitions}: "
            f"set them to {topic.partitions}, or name another topic{hint}"
        )
