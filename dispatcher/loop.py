"""Backoff of the dispatcher's loops when a store does not respond. It delays no single delivery."""

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

import structlog

from meterline import limits
from meterline.ports import Unavailable

_log: Final = structlog.get_logger("dispatcher")
_T = TypeVar("_T")


async def turn(loop: str, act: Awaitable[_T]) -> _T | None:
    """What one turn of a loop came to; None where it failed, which is logged. A fault of one turn
    must not end the dispatcher.
    """
    try:
        return await act
    except Unavailable as error:
        _log.warning(loop, action="unavailable", reason=str(error))
    except Exception:  # noqa: BLE001 - see above
        _log.exception(loop, action="failed")
    return None


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
