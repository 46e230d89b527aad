"""A loop that stands still says so: the process answers nothing then, and nothing on it can.

A thread looks at the loop. Where it stands for a while, the stacks of all threads are written to
stderr; where it stands for long, the process ends, so that a new one goes on. Where the interpreter
stands, that thread does too: then one of `faulthandler`, which needs none, writes the stacks.
"""

import asyncio
import faulthandler
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from meterline.limits import LOOP_ENDS_S, LOOP_LOOK_S, LOOP_STANDS_S
from meterline.ports import Clock
from meterline.runtime.process import STDERR
from meterline.window import rfc3339_ms

_STANDS_LOOKS: Final = LOOP_STANDS_S // LOOP_LOOK_S
_ENDS_LOOKS: Final = LOOP_ENDS_S // LOOP_LOOK_S


class Standstill:
    """How often a loop was looked at since it last turned (pure). Looks are counted, not seconds: a
    process that was frozen as a whole did not stand still.
    """

    def __init__(self) -> None:
        self._turns = -1
        self._looks = 0

    def look(self, turns: int) -> int:
        """`turns` is a number that grows whenever the loop turns."""
        self._looks = self._looks + 1 if turns == self._turns else 0
        self._turns = turns
        return self._looks


@dataclass(frozen=True, slots=True)
class Means:
    """What is done about a loop that stands: its stacks are dumped, and the process ends."""

    dump: Callable[[], None] = lambda: faulthandler.dump_traceback(STDERR)
    dump_later: Callable[[], None] = lambda: faulthandler.dump_traceback_later(
        LOOP_STANDS_S, file=STDERR
    )
    end: Callable[[], None] = lambda: os._exit(1)
    write: Callable[[bytes], object] = lambda line: os.write(STDERR, line)


class LoopWatch:
    """Of the loop that runs `turn_for_ever`. Its lines go straight to stderr: what stands may hold
    the lock of the log.
    """

    def __init__(self, clock: Clock, means: Means = Means()) -> None:
        self._clock = clock
        self._means = means
        self._turns = 0
        self._standstill = Standstill()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._look_for_ever, name="loop-watch", daemon=True)

    async def turn_for_ever(self) -> None:
        """Until cancelled."""
        while True:
            self._turns += 1
            await asyncio.sleep(LOOP_LOOK_S / 2)

    def start(self) -> None:
        """Look from now on."""
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._closed.set()
        self._thread.join()
        faulthandler.cancel_dump_traceback_later()

    def _look_for_ever(self) -> None:
        while not self._closed.wait(LOOP_LOOK_S):
            self.look()

    def look(self) -> None:
        """Once; in the thread."""
        self._means.dump_later()  # unless the next look comes before
        looks = self._standstill.look(self._turns)
        if looks == _STANDS_LOOKS:
            self._means.dump()
            self._write("loop_stands", LOOP_STANDS_S, "where is in the stacks above")
        if looks == _ENDS_LOOKS:
            self._write("loop_stands", LOOP_ENDS_S, "the process ends, so that a new one goes on")
            self._means.end()

    def _write(self, event: str, seconds: int, reason: str) -> None:
        at = rfc3339_ms(self._clock.now_ms())
        line = f'timestamp={at} level=error event={event} seconds={seconds} reason="{reason}"\n'
        self._means.write(line.encode())
