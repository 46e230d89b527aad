"""The shell that works off replays of many deliveries: steps at their pace, until it is stopped."""

from collections.abc import Callable
from typing import Final

import structlog

from dispatcher.loop import Loop
from meterline import limits
from meterline.delivery import ReplayState, ReplayStore
from meterline.ports import Clock

_log: Final = structlog.get_logger("dispatcher")


class Replayer:
    """Has deliveries sent again; `wake` tells a dispatcher of this process that some are due.

    Several may share one store: each step is of one of them.
    """

    def __init__(
        self,
        replays: ReplayStore,
        clock: Clock,
        wake: Callable[[], None],
        idle_s: float = limits.DISPATCH_IDLE_S,
    ) -> None:
        self._replays = replays
        self._clock = clock
        self._wake = wake
        self._idle_s = idle_s
        self._loop = Loop("replay", idle_s)

    def stop(self) -> None:
        """Begin to end: a step under way is finished."""
        self._loop.stop()

    async def run(self) -> None:
        """Work until `stop`."""
        await self._loop.run(self._turn)

    async def _turn(self) -> float:
        """One step; how long the next one may wait."""
        worked = await self._replays.work(self._clock.now_ms())
        if worked.replay is not None:
            self._wake()
            if worked.replay.state is not ReplayState.RUNNING:
                _log.info("replay", action=worked.replay.state.value, replay=worked.replay.id)
        if worked.due_at_ms is None:
            return self._idle_s
        return min(self._idle_s, max(0, worked.due_at_ms - self._clock.now_ms()) / 1_000)
