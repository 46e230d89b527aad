"""How loops of the shell wait."""

import asyncio

from meterline import limits


class Pause:
    """A wait that doubles while nothing works."""

    def __init__(self, first_s: float) -> None:
        self._first_s = first_s
        self._next_s = first_s

    def longer(self) -> float:
        """The next wait, in seconds."""
        now_s = self._next_s
        self._next_s = min(2 * now_s, limits.WORKER_BACKOFF_MAX_S)
        return now_s

    def reset(self) -> None:
        """Something worked."""
        self._next_s = self._first_s


async def wait(event: asyncio.Event, at_most_s: float) -> None:
    """Wait for an event, but not for longer than this."""
    try:
        async with asyncio.timeout(at_most_s):
            await event.wait()
    except TimeoutError:
        return
