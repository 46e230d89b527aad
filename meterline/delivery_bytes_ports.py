"""The port of the bytes of deliveries that are kept for a time; their digests are kept for ever."""

from typing import Protocol


class DeliveryBytes(Protocol):
    """What is removed is not missed: nothing of a run that still owes something is."""

    async def remove_bytes(self, decided_until_ms: int, limit: int) -> int:
        """Remove the bytes of up to `limit` deliveries of a run that was decided by then and has
        ended, the oldest first; how many. Nothing is left to do when it is 0.
        """
        ...
