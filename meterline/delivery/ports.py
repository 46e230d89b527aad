"""The ports of deliveries: how they are sent, signed, sent again and pulled.

The rules of `meterline.ports` hold here too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from meterline.access import COMMAND
from meterline.delivery.delivery import Delivery, DeliveryState
from meterline.delivery.listing import DeliveryQuery
from meterline.delivery.replay import Replay
from meterline.delivery.sending import Answer


class WebhookSender(Protocol):
    """Sends one POST. It never raises for what a receiver or the network does: that is an
    `Answer`.
    """

    async def send(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """POST the bytes; within the deadline over connecting, headers and body of the answer."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class SecretBox(Protocol):
    """Seals secrets for storage."""

    def seal(self, plain: str) -> bytes:
        """The secret, encrypted and authenticated."""
        ...

    def open(self, sealed: bytes) -> str:
        """The secret again. Raises `ValueError` where it was sealed under another key or
        changed.
        """
        ...


@dataclass(frozen=True, slots=True)
class Worked:
    """A replay as a step left it, None where none was due; and when the next step of any is."""

    replay: Replay | None
    due_at_ms: int | None


class ReplayStore(Protocol):
    """Replays of many deliveries. What has an `author` is recorded as a change with it."""

    async def counts(self, namespace: str, query: DeliveryQuery) -> Mapping[DeliveryState, int]:
        """How many deliveries a query asks for, by state; states without any are left out."""
        ...

    async def create_replay(self, replay: Replay, *, author: str = COMMAND) -> Replay:
        """Begin a replay; it comes back with what it asks for counted. The same once more: nothing.

        Raises `Problem` (conflict) where too many of its namespace are running.
        """
        ...

    async def replay(self, namespace: str, replay_id: str) -> Replay | None:
        """One replay."""
        ...

    async def replays(
        self,
        namespace: str,
        limit: int,
        after: str | None = None,
        *,
        report_id: str | None = None,
    ) -> list[Replay]:
        """Replays by id, the newest first, after the one with this id; of a report, those that
        were asked for its deliveries.
        """
        ...

    async def cancel_replay(
        self, namespace: str, replay_id: str, now_ms: int, *, author: str = COMMAND
    ) -> Replay:
        """End a running replay where it is; what it had sent again stays so. One that has ended
        stays as it is. Raises `Problem` (not found).
        """
        ...

    async def work(self, now_ms: int) -> Worked:
        """One step of the replay that is due the longest, in one transaction with its new place:
        nothing is taken twice or left out, whoever is killed. Several workers may share a store.
        """
        ...


@dataclass(frozen=True, slots=True)
class PullPlace:
    """The place of a delivery in a pull: by window, the one that ends first before the others, then
    by revision, then by number.
    """

    to_ms: int
    from_ms: int
    revision: int
    number: int


@dataclass(frozen=True, slots=True)
class Pulled:
    """A delivery with its bytes (None where they are not kept any more), the id of the delivery
    that replaces its figures, and in words what went wrong with its last attempt.
    """

    delivery: Delivery
    body: bytes | None
    superseded_by: str | None
    reason: str

    @property
    def place(self) -> PullPlace:
        """Its place."""
        one = self.delivery
        return PullPlace(one.to_ms, one.from_ms, one.revision, one.number)


class PullStore(Protocol):
    """Deliveries by window, for whoever fetches rather than receives them."""

    async def pulled(
        self,
        report_id: str,
        window: tuple[int | None, int | None],
        limit: int,
        bytes_max: int,
        after: PullPlace | None = None,
    ) -> tuple[list[Pulled], bool]:
        """Deliveries of a report whose windows lie within one that may be open, by place; and
        whether more follow.

        At most `limit`, and no more than `bytes_max` bytes of bodies but for the first.
        """
        ...


class Sign(Protocol):
    """Proves a body at an instant, see `dispatcher.sending.signing`."""

    def __call__(
        self, delivery_id: str, secrets: Sequence[str], body: bytes, now_ms: int
    ) -> Mapping[str, str]:
        """The headers that prove it, of both families."""
        ...


class DeliveryBytes(Protocol):
    """What is removed is not missed: nothing of a run that still owes something is."""

    async def remove_bytes(self, decided_until_ms: int, limit: int) -> int:
        """Remove the bytes of up to `limit` deliveries of a run that was decided by then and has
        ended, the oldest first; how many. Nothing is left to do when it is 0.
        """
        ...
