"""A question with a bound in time that holds, however long its end takes."""

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

_T = TypeVar("_T")


async def in_time(asked: Awaitable[_T], seconds: float) -> _T:
    """Its answer. Raises `TimeoutError`: then it is told to give up, and not waited for. A
    statement in a thread ends when it ends. Whoever is cancelled does wait: stores are closed next.
    """
    asking = asyncio.ensure_future(asked)
    try:
        done, _ = await asyncio.wait([asking], timeout=seconds)
    except asyncio.CancelledError:
        asking.cancel()
        await asyncio.wait([asking])
        raise
    if done:
        return asking.result()
    asking.add_done_callback(_seen)
    asking.cancel()
    raise TimeoutError


def _seen(asking: asyncio.Future[Any]) -> None:
    """What comes too late is nobody's, and not worth a line in the log."""
    if not asking.cancelled():
        asking.exception()
