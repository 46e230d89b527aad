"""Whether all that read inbox topics, and all that count, have the same of them in their settings.

An aggregator claims that usage is complete up to what the inbox has brought into the log. Of a
topic that it does not know it would claim too much. Kafka knows which topics are read now.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final

import structlog
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from aiokafka.errors import KafkaError, for_code

from meterline.limits import INBOX_READERS_LOOK_MS, INBOX_READERS_TIMEOUT_S, LOG_TIMEOUT_S
from meterline.ports import Unsuitable

# The group is taking members in: Kafka does not say what these read.
_CHANGING: Final = frozenset({"PreparingRebalance", "CompletingRebalance"})
logger = structlog.get_logger()


class InboxReaders:
    """Tells which topics are read by members of the inbox's group and are not `known` here."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        known: Collection[str],
        security: Mapping[str, Any] | None = None,
        *,
        timeout_s: float = LOG_TIMEOUT_S,
        look_timeout_s: float = INBOX_READERS_TIMEOUT_S,
    ) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._known = frozenset(known)
        self._security = security or {}
        self._timeout_ms = int(timeout_s * 1_000)
        self._look_timeout_s = look_timeout_s
        self._admin: AIOKafkaAdminClient | None = None

    async def unknown(self) -> frozenset[str] | None:
        """Topics that somebody reads now and that are not known here. None: Kafka does not tell,
        because it does not answer, the group changes, or the right is missing.
        """
        try:
            async with asyncio.timeout(self._look_timeout_s):
                admin = self._admin or await self._connected()
                (answer,) = await admin.describe_consumer_groups([self._group])
            (group,) = answer.to_object()["groups"]
            if group["error_code"]:
                raise for_code(group["error_code"])(self._group)
            if group["state"] in _CHANGING:
                return None
            read = (_topics(one["member_metadata"]) for one in group["members"])
            return frozenset().union(*read) - self._known
        except (KafkaError, OSError, TimeoutError) as error:
            logger.debug("inbox_readers", reason=repr(error))
            await self.close()
            return None

    async def close(self) -> None:
        """Let go of connections."""
        admin, self._admin = self._admin, None
        if admin is not None:
            await admin.close()

    async def _connected(self) -> AIOKafkaAdminClient:
        self._admin = AIOKafkaAdminClient(
            bootstrap_servers=self._bootstrap,
            request_timeout_ms=self._timeout_ms,
            **self._security,
        )
        await self._admin.start()
        return self._admin


def _topics(metadata: bytes) -> Collection[str]:
    """What a member of a group said that it reads."""
    topics: Collection[str] = ConsumerProtocolMemberMetadata.decode(metadata).subscription
    return topics


class AgreedInbox:
    """How far the inbox is, for as long as nobody reads a topic that is not known here.

    `unknown` tells such topics; `drained` how far the known ones are, None where there are none.
    """

    def __init__(
        self,
        unknown: Callable[[], Awaitable[frozenset[str] | None]],
        drained: Callable[[int], Awaitable[int | None]] | None,
    ) -> None:
        self._unknown = unknown
        self._drained = drained
        self._looked_ms: int | None = None
        self._found: frozenset[str] = frozenset()

    async def check(self) -> None:
        """For a start. Raises `Unsuitable` where somebody reads a topic that is not known here."""
        if found := await self._unknown():
            raise Unsuitable(f"{_message(found)}. Set the same inbox_topics in all of them")

    async def drained_until(self, now_ms: int) -> int | None:
        """The instant up to which the log has all of the inbox; None: not known. Raises
        `Unavailable`.
        """
        if self._looked_ms is None or now_ms - self._looked_ms >= INBOX_READERS_LOOK_MS:
            self._looked_ms = now_ms
            found = await self._unknown()
            self._found = self._found if found is None else found
            if self._found:
                logger.warning("inbox_topics_differ", reason=_message(self._found))
        if self._found:
            return None
        return now_ms if self._drained is None else await self._drained(now_ms)


def _message(topics: Collection[str]) -> str:
    return (
        f"a process that takes events reads the inbox topics {', '.join(sorted(topics))}, which"
        " inbox_topics of this process does not have: it would take usage for complete before"
        " their events are counted"
    )
