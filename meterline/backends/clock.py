"""The system's clock: the only place of the product that reads wall time."""

import asyncio
import time
from time import clock_gettime
from typing import Final, final

# Linux names it; the monotonic clock of macOS goes on while the machine is suspended.
_SUSPENDED_TOO: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def uptime_s() -> float:
    """Seconds of a clock that only goes on, also while the machine is suspended."""
    return clock_gettime(_SUSPENDED_TOO)


@final
class SystemClock:
    """`Clock` on the machine's wall time. It may step back: who needs order keeps a maximum."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Unix milliseconds."""
        return time.time_ns() // 1_000_000

    def now_ns(self) -> int:
        """Unix nanoseconds, as precise as the machine has them: for spans."""
        return time.time_ns()

    def passed_s(self) -> float:
        """Seconds of a clock that only goes on: the difference of two says how long it took."""
        return asyncio.get_running_loop().time()
