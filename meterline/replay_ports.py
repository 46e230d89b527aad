"""What replays of many deliveries ask of the control store."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from meterline.change import COMMAND
from meterline.delivery_list import DeliveryQuery
from meterline.replay import Replay
from meterline.run import DeliveryState


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

    async def replays(self, namespace: str, limit: int, after: str | None = None) -> list[Replay]:
        """Replays by id, the newest first, after the one with this id."""
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
