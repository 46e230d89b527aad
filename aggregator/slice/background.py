"""Work that gives way to all else on its loop."""

import asyncio
from typing import Final

from meterline.limits import FILL_QUIET_S, FILL_SHARE_MIN, FILL_TURN_S, FILL_WORKED_S_MAX

_TIMES: Final = 1 / FILL_SHARE_MIN - 1  # so many times what was worked is given to others at most


class Background:
    """The turns of work in the background, of one task.

    After each turn others go on until the loop has nothing to do for them. Where it always has, the
    work still gets its least share of the time.
    """

    def __init__(self) -> None:
        self._since_s: float | None = None

    async def give_way(self, *, now: bool = True) -> None:
        """Let others go on. Without `now` only where this turn was long enough."""
        time_s = asyncio.get_running_loop().time
        if self._since_s is None:
            self._since_s = time_s()
        worked_s = time_s() - self._since_s
        if not now and worked_s < FILL_TURN_S:
            return
        ends_s = time_s() + _TIMES * min(worked_s, FILL_WORKED_S_MAX)
        while True:
            began_s = time_s()
            await asyncio.sleep(0)
            there_s = time_s()
            if there_s - began_s < FILL_QUIET_S or there_s >= ends_s:
                break
        self._since_s = there_s

    def begin(self) -> None:
        """What was waited for until now was no work."""
        self._since_s = None
