"""A loop of the dispatcher: turns, and a backoff when a store does not respond. It delays no single
delivery.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from meterline.ports import Unavailable
from meterline.window import Backoff

_log: Final = structlog.get_logger("dispatcher")


class Loop:
    """Takes turns until it is stopped. After one that failed, which is logged under `name`, it
    waits longer and longer: a fault of one turn must not end the dispatcher.
    """

    def __init__(self, name: str, idle_s: float) -> None:
        self._name = name
        self._backoff = Backoff(idle_s)
        self._woken = asyncio.Event()
        self.stopped = False

    def wake(self) -> None:
        """Something may have to be done: take the next turn now."""
        self._woken.set()

    def stop(self) -> None:
        """Begin to end: a turn under way is finished."""
        self.stopped = True
        self._woken.set()

    async def run(self, turn: Callable[[], Awaitable[float]]) -> None:
        """Work until `stop`. A turn returns how many seconds the next one may wait."""
        while not self.stopped:
            self._woken.clear()
            wait_s = await self._taken(turn)
            if wait_s:
                await wait(self._woken, wait_s)

    async def _taken(self, turn: Callable[[], Awaitable[float]]) -> float:
        try:
            wait_s = await turn()
        except Unavailable as error:
            _log.warning(self._name, action="unavailable", reason=str(error))
        except Exception:  # noqa: BLE001 - see above
            _log.exception(self._name, action="failed")
        else:
            self._backoff.reset()
            return wait_s
        return self._backoff.next_s()


async def wait(event: asyncio.Event, at_most_s: float) -> None:
    """Wait for an event, but not for longer than this."""
    try:
        async with asyncio.timeout(at_most_s):
            await event.wait()
    except TimeoutError:
        return
