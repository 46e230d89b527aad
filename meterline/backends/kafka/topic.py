"""The topic of the log on Kafka: made if it is missing, else its settings are checked.

Kafka gives each topic an id of its own when it is made, which no topic has again: it is the id of
the log. aiokafka's metadata requests are too old to know it, so the one request that asks for it is
spelled out here (Kafka protocol, Metadata version 12, KIP-516).
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import structlog
from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import (
    AuthenticationFailedError,
    ClusterAuthorizationFailedError,
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
from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

from meterline.backends.kafka import topic_settings
from meterline.backends.kafka.topic_settings import Replicas
from meterline.event import may_be_laid_out
from meterline.limits import LOG_TIMEOUT_S
from meterline.ports import AccessRefused, Unavailable, Unsuitable

logger = structlog.get_logger()
UUID_BYTES: Final = 16
_RIGHTS: Final = {"READ": 3, "WRITE": 4, "DESCRIBE": 8, "DESCRIBE_CONFIGS": 10}  # bits of Kafka's
_REFUSED: Final = (
    AuthenticationFailedError,
    ClusterAuthorizationFailedError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
)
KNOWN_TRIES_MAX: Final = 50
KNOWN_WAIT_S: Final = 0.1


class _Uuid(AbstractType[bytes]):  # type: ignore[misc]
    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        return data.read(UUID_BYTES)


class _TopicIdResponse(Response):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 12
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("rack", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", CompactString("utf-8")),
                ("topic_id", _Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _TopicIdStruct(RequestStruct):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 12
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = _TopicIdResponse
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(
                ("topic_id", _Uuid), ("name", CompactString("utf-8")), ("tags", TaggedFields)
            ),
        ),
        ("allow_auto_topic_creation", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class _TopicIdRequest(Request[_TopicIdStruct]):  # type: ignore[misc]
    API_KEY = 3

    def __init__(self, topic: str, *, with_rights: bool = False) -> None:
        self._topic = topic
        self._with_rights = with_rights

    def build(self, request_struct_class: type[_TopicIdStruct]) -> _TopicIdStruct:
        return request_struct_class(
            topics=[(bytes(UUID_BYTES), self._topic, {})],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=self._with_rights,
            tags={},
        )


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
    async with _asked(bootstrap, name, security, timeout_s) as admin:
        topic = await _described(admin, name)
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
    async with _asked(bootstrap, name, security, timeout_s) as admin:
        answer = await admin._send_request(_TopicIdRequest(name, with_rights=True))  # noqa: SLF001
        topic = _topic(answer, name)
        if topic is None:
            return Inspected(len(answer.to_object()["brokers"]))
        bits = answer.to_object()["topics"][0]["authorized_operations"]
        rights = frozenset(right for right, bit in _RIGHTS.items() if bits >> bit & 1)
        return Inspected(topic.replicas.brokers, topic, await _settings(admin, name), rights)


async def check_inbox_topic(bootstrap: str, name: str, security: Mapping[str, Any]) -> Topic:
    """An inbox topic, which its owner makes. Raises `Unavailable` and `Unsuitable`."""
    async with _asked(bootstrap, name, security) as admin:
        topic = await _described(admin, name)
        if topic is None:
            raise Unsuitable(f"there is no inbox topic {name} at {bootstrap}: make it first")
        settings = await _settings(admin, name)
        if settings["message.timestamp.type"] != "LogAppendTime":
            raise Unsuitable(
                f"inbox topic {name} must have message.timestamp.type=LogAppendTime: an event is "
                "recorded when the broker has it, not when its sender says"
            )
        return topic


async def grow_topic(
    bootstrap: str,
    name: str,
    partitions: int,
    security: Mapping[str, Any],
    timeout_s: float = LOG_TIMEOUT_S,
) -> None:
    """Give a topic so many partitions, and return when every broker says so. Raises
    `Unavailable`.
    """
    async with _asked(bootstrap, name, security, timeout_s) as admin:
        topic = await _described(admin, name)
        if topic is None:
            raise Unavailable(f"Kafka at {bootstrap}: topic {name} is not there")
        if topic.partitions < partitions:
            await admin.create_partitions({name: NewPartitions(partitions)})
        for _ in range(KNOWN_TRIES_MAX):
            if await _least_known(admin, name) >= partitions:
                return
            await asyncio.sleep(KNOWN_WAIT_S)
        raise Unavailable(f"not all brokers know yet that topic {name} has {partitions} partitions")


async def _least_known(admin: AIOKafkaAdminClient, name: str) -> int:
    """The least number of partitions that a broker says a topic has, asked of each."""
    client = admin._client  # noqa: SLF001 - as in `topic_now`: it can ask any broker
    await client.force_metadata_update()
    numbers = []
    for broker in client.cluster.brokers():
        topic = _topic(await client.send(broker.nodeId, _TopicIdRequest(name)), name)
        numbers.append(0 if topic is None else topic.partitions)
    return min(numbers, default=0)


@asynccontextmanager
async def _asked(
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


async def topic_now(client: AIOKafkaClient, name: str) -> Topic | None:
    """The topic as one of the brokers knows it; None where it knows none. Raises `KafkaError`."""
    return _topic(await client.send(client.get_random_node(), _TopicIdRequest(name)), name)


async def _described(admin: AIOKafkaAdminClient, name: str) -> Topic | None:
    # The admin client can send any request; it has a method for only some of them.
    return _topic(await admin._send_request(_TopicIdRequest(name)), name)  # noqa: SLF001


def _topic(answer: Response, name: str) -> Topic | None:
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
        topic = await _described(admin, name)
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
