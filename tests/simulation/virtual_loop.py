"""An event loop without a clock and without IO: its time is a number that jumps to the next timer.

Everything on it happens in an order that follows from the program alone, so a seed replays exactly.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from typing import Any


class Stuck(Exception):
    """Everybody waits, and nothing is left that could wake them."""


class VirtualLoop(asyncio.BaseEventLoop):
    """What is ready runs in the order in which it became so; then the time is that of the next
    timer, at once. Of two timers for one moment the older one is first.
    """

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        self._number = 0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._ready: deque[asyncio.Handle] = deque()
        self.made: list[asyncio.Task[Any]] = []
        self.set_task_factory(self._make_task)

    def _make_task(self, _loop: Any, coroutine: Any, **named: Any) -> Any:
        task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=self, **named)
        self.made.append(task)  # a task that waits for ever must not be collected in between
        return task

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._now_s

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """See `asyncio`; its type variables would say nothing here."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._number += 1
        heapq.heappush(self._timers, (when, self._number, timer))
        return timer

    def _timer_handle_cancelled(self, _handle: asyncio.TimerHandle) -> None:
        """It is passed over when its time has come."""

    def _run_once(self) -> None:
        ready, timers = self._ready, self._timers
        while not ready:
            if not timers:
                raise Stuck
            when, _, timer = heapq.heappop(timers)
            if not timer.cancelled():
                self._now_s = max(self._now_s, when)
                ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()  # noqa: SLF001 - as the loop that this one replaces does

    def _process_events(self, event_list: Any) -> None:
        """There is no IO."""

    def _write_to_self(self) -> None:
        """There are no threads to wake it from."""

    def at(self, delay_s: float, act: Callable[[], object]) -> None:
        """Do something later, whoever lives then."""
        self.call_later(delay_s, act)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Errors that nobody waits for any more: `end` gives them all."""

    def end(self, rounds_max: int = 200) -> list[BaseException]:
        """End every task that still waits, and close. What tasks ended with."""
        for _ in range(rounds_max):
            waiting = [task for task in self.made if not task.done()]
            if not waiting:
                break
            for task in waiting:
                task.cancel()
            self.run_until_complete(asyncio.sleep(0))
        done = [task.exception() for task in self.made if task.done() and not task.cancelled()]
        self.close()
        return [error for error in done if error is not None]
