"""The shell that works off replays of many deliveries: steps at their pace, until it is stopped."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

from meterline import limits
from meterline.ports import Clock, Unavailable
from meterline.replay import ReplayState
from meterline.replay_ports import ReplayStore

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

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set."""
        while not stop.is_set():
            wait_s = await self._turn()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await stop.wait()

    async def _turn(self) -> float:
        """One step; how long the next one may wait."""
        try:
            worked = await self._replays.work(self._clock.now_ms())
        except Unavailable as error:
            _log.warning("replay", action="unavailable", reason=str(error))
            return self._idle_s
        except Exception:  # noqa: BLE001 - a fault of one turn must not end the dispatcher
            _log.exception("replay", action="failed")
            return self._idle_s
        if worked.replay is not None:
            self._wake()
            if worked.replay.state is not ReplayState.RUNNING:
                _log.info("replay", action=worked.replay.state.value, replay=worked.replay.id)
        if worked.due_at_ms is None:
            return self._idle_s
        return min(self._idle_s, max(0, worked.due_at_ms - self._clock.now_ms()) / 1_000)
