"""Deliveries and attempts: one subject of one run, and one POST of that.

Ids are functions of what they name, so a delivery that is made twice, or restored from a backup,
has the same id, and receivers can deduplicate for ever (docs/architecture.md, "The dispatcher").
They hold no dot: the signature is made over `id.timestamp.body` (Standard Webhooks).
"""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from msgspec import Struct

_ID_BYTES: Final = 20  # 32 characters of base32, no padding


class DeliveryState(StrEnum):
    """Where a delivery stands."""

    PENDING = "pending"
    SENDING = "sending"  # a dispatcher holds its lease
    RETRYING = "retrying"
    DELIVERED = "delivered"
    FAILED = "failed"  # exhausted and held
    CANCELLED = "cancelled"


class DeliveryMove(StrEnum):
    """What moves a delivery."""

    CLAIM = "claim"
    CONFIRM = "confirm"
    RETRY = "retry"
    GIVE_UP = "give_up"
    CANCEL = "cancel"
    REPLAY = "replay"  # asked for by hand: sent again as if for the first time


DELIVERY_MOVES: Final[Mapping[tuple[DeliveryState, DeliveryMove], DeliveryState]] = {
    (DeliveryState.PENDING, DeliveryMove.CLAIM): DeliveryState.SENDING,
    (DeliveryState.RETRYING, DeliveryMove.CLAIM): DeliveryState.SENDING,
    (DeliveryState.SENDING, DeliveryMove.CLAIM): DeliveryState.SENDING,  # once the lease ran out
    (DeliveryState.SENDING, DeliveryMove.RETRY): DeliveryState.RETRYING,
    (DeliveryState.SENDING, DeliveryMove.GIVE_UP): DeliveryState.FAILED,
    (DeliveryState.PENDING, DeliveryMove.CANCEL): DeliveryState.CANCELLED,
    (DeliveryState.SENDING, DeliveryMove.CANCEL): DeliveryState.CANCELLED,
    (DeliveryState.RETRYING, DeliveryMove.CANCEL): DeliveryState.CANCELLED,
    (DeliveryState.SENDING, DeliveryMove.REPLAY): DeliveryState.PENDING,  # once the lease ran out
    (DeliveryState.RETRYING, DeliveryMove.REPLAY): DeliveryState.PENDING,
    (DeliveryState.DELIVERED, DeliveryMove.REPLAY): DeliveryState.PENDING,
    (DeliveryState.FAILED, DeliveryMove.REPLAY): DeliveryState.PENDING,
    (DeliveryState.CANCELLED, DeliveryMove.REPLAY): DeliveryState.PENDING,
    # Delivered wins over any later mark, and over any earlier one: the receiver said 2xx. (To an
    # attempt since the last replay: an older one says nothing about that.)
    **{(state, DeliveryMove.CONFIRM): DeliveryState.DELIVERED for state in DeliveryState},
}


def delivery_sources(move: DeliveryMove) -> tuple[DeliveryState, ...]:
    """The states that a move starts from."""
    return tuple(state for state, by in DELIVERY_MOVES if by is move)


@dataclass(frozen=True, slots=True)
class DeliveryDraft:
    """A delivery as materialized, before its run is decided: the exact bytes that will be signed
    and sent.

    One that is too large has a `failure`, which says so in words, and no bytes: it is never sent.
    Its digest is that of the words.
    """

    id: str
    subject: str
    number: int  # 1 to the number of deliveries of the run
    sequence: int  # gapless over all deliveries of the report
    body: bytes
    digest: bytes  # blake2b-256 of the body
    usage_digest: bytes  # blake2b-256 of its usage entries alone: tells whether a revision differs
    supersedes: str | None = None  # id of the delivery whose figures it replaces
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """One subject of one run, as it is shown, with its report's slug and its run's window.

    `attempts` counts all, those before a replay too.
    """

    id: str
    run_id: str
    report_id: str
    report_slug: str
    from_ms: int
    to_ms: int
    subject: str
    number: int
    sequence: int
    revision: int
    state: DeliveryState
    attempts: int
    digest: bytes
    created_at_ms: int
    next_attempt_at_ms: int | None = None
    ended_at_ms: int | None = None
    supersedes: str | None = None  # id of the delivery whose figures it replaces
    replayed_at_ms: int | None = None  # when it was last asked to be sent again
    failure: str | None = None  # why it has no bytes and is never sent


class AttemptOutcome(StrEnum):
    """How an attempt ended."""

    SENDING = "sending"
    DELIVERED = "delivered"
    REFUSED = "refused"  # an answer that is no 2xx
    UNREACHED = "unreached"  # no answer
    FORBIDDEN = "forbidden"  # the address may not be dialled: nothing was sent
    LOST = "lost"  # the dispatcher died: whether it arrived is not known


class Attempt(Struct, frozen=True, gc=False):
    """One POST of a delivery. `number` counts from 1; `answer` is the start of the response
    body; `endpoint` is the URL it went to, without user information ("" where that is not known).
    """

    delivery_id: str
    number: int
    started_at_ms: int
    outcome: AttemptOutcome = AttemptOutcome.SENDING
    duration_ms: int = 0
    status: int | None = None
    reason: str = ""
    answer: bytes = b""
    next_attempt_at_ms: int | None = None
    endpoint: str = ""


def delivery_id(report_id: str, from_ms: int, to_ms: int, subject: str, revision: int) -> str:
    """The id of a delivery; the receiver's key for deduplication, for ever."""
    return content_id("dlv", report_id, str(from_ms), str(to_ms), subject, str(revision))


def digest_of(content: bytes) -> bytes:
    """blake2b-256: names exact bytes in logs and manifests."""
    return hashlib.blake2b(content, digest_size=32).digest()


def content_id(prefix: str, *parts: str) -> str:
    """An id that is a function of what it names: the prefix, and a hash of the parts."""
    # Lengths before the parts, so that no two lists of parts give the same text.
    content = prefix + "".join(f"{len(part)}:{part}" for part in parts)
    digest = hashlib.blake2b(content.encode(), digest_size=_ID_BYTES).digest()
    return f"{prefix}_{base64.b32encode(digest).decode().lower()}"
