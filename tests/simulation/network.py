"""Processes, and the way of every call that one of them makes: here all faults happen."""

import asyncio
import random
from collections.abc import Callable
from typing import Final, NoReturn, Protocol, TypeVar

from meterline.ports import Unavailable
from tests.simulation.fates import Fate, Fates
from tests.simulation.virtual_loop import VirtualLoop

BASE_MS: Final = 1_767_225_600_000  # 2026-01-01T00:00:00Z
LATE_S_MAX: Final = 3.0  # what is given up, or repeated, happens within this
SLOW_S_MAX: Final = 2.5
REPLIES_LATER: Final = 0.4  # share of the answers that take their time, too
_T = TypeVar("_T")


class Killed(BaseException):
    """The process dies here, within a call that does not wait."""


class Time:
    """The one true time: the loop's, and what was jumped over."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.jumped_ms = 0

    def now_ms(self) -> int:
        """Unix milliseconds."""
        return BASE_MS + self.jumped_ms + int(self._loop.time() * 1000)


class Process:
    """One life of one process. `skew_ms` is how far its clock is ahead."""

    def __init__(self, name: str, time: Time, loop: VirtualLoop, skew_ms: int = 0) -> None:
        self.name = name
        self.skew_ms = skew_ms
        self.dead = False
        self.awake_at_s = 0.0
        self._stood_s = 0.0  # or will have, when it goes on
        self._time = time
        self._loop = loop
        self.ended: asyncio.Future[None] = loop.create_future()

    def now_ms(self) -> int:
        """`Clock`: what its own clock says."""
        return self._time.now_ms() + self.skew_ms

    def die(self) -> None:
        """Nothing of it goes on; what it has sent is on its way."""
        self.dead = True
        if not self.ended.done():
            self.ended.set_result(None)

    def stand_still(self, seconds: float) -> None:
        """It does nothing for so long, and then goes on as if nothing had been."""
        now_s = self._loop.time()
        until_s = max(self.awake_at_s, now_s + seconds)
        self._stood_s += until_s - max(self.awake_at_s, now_s)
        self.awake_at_s = until_s

    def uptime_s(self) -> float:
        """What a clock says that stands still together with it, as on a suspended machine."""
        now_s = self._loop.time()
        return now_s - self._stood_s + max(0.0, self.awake_at_s - now_s)

    @property
    def asleep(self) -> bool:
        """Whether it stands still."""
        return self.awake_at_s > self._loop.time()

    async def awake(self) -> None:
        """Return when it goes on: never, where it is dead."""
        while self.asleep:  # noqa: ASYNC110 - it may be woken earlier than it was to be
            await asyncio.sleep(min(0.5, self.awake_at_s - self._loop.time()))
        if self.dead:
            await self._loop.create_future()


class Net(Protocol):
    """How a port reaches its store."""

    async def call(
        self,
        what: str,
        act: Callable[[], _T],
        *,
        part: Callable[[random.Random], object] | None = None,
        writes: bool = False,
    ) -> _T:
        """The answer of `act`; `part` does a part of it only."""
        ...

    def at_once(self, what: str, act: Callable[[], _T]) -> _T:
        """The same for what does not wait."""
        ...


class CalmNet:
    """Nothing happens to any call: for the contract suites and for whoever only looks."""

    async def call(
        self,
        what: str,  # noqa: ARG002 - see Net
        act: Callable[[], _T],
        *,
        part: Callable[[random.Random], object] | None = None,  # noqa: ARG002 - see Net
        writes: bool = False,  # noqa: ARG002 - see Net
    ) -> _T:
        return act()

    def at_once(self, what: str, act: Callable[[], _T]) -> _T:  # noqa: ARG002 - see Net
        return act()


class FatefulNet:
    """Every call of one process takes its time and meets its fate."""

    def __init__(
        self, process: Process, fates: Fates, loop: VirtualLoop, trace: Callable[[str], None] | None
    ) -> None:
        self.process = process
        self._fates = fates
        self._loop = loop
        self._trace = trace

    async def call(
        self,
        what: str,
        act: Callable[[], _T],
        *,
        part: Callable[[random.Random], object] | None = None,
        writes: bool = False,
    ) -> _T:
        """There and back. The effect happens whoever lives then: it was on its way."""
        process = self.process
        if process.dead or process.asleep:
            await process.awake()
        fate = self._drawn(writes=writes, divisible=part is not None)
        if fate is not Fate.WELL:
            self._meet(fate, what)
            if fate in (Fate.CRASH_BEFORE, Fate.ZOMBIE):
                await process.awake()
        latency_s = self._fates.latency_s()
        if fate is Fate.SLOW:
            latency_s = min(SLOW_S_MAX, 100 * latency_s)
        await asyncio.sleep(latency_s)
        if self._fates.away.get(what.partition(".")[0], 0.0) > self._loop.time():
            await process.awake()
            raise Unavailable(f"{what}: it is away")
        if fate in (Fate.REFUSED, Fate.LATE, Fate.HALF):
            await self._fail(fate, what, act, part)
        answer = act()
        if self._trace is not None:
            self._trace(f"{process.name}: {what}")
        await self._reply(fate, what, act)
        return answer

    def _drawn(self, *, writes: bool, divisible: bool) -> Fate:
        fate = self._fates.draw(writes=writes)
        if fate is Fate.HALF and not divisible:
            return Fate.LOST
        if fate in (Fate.LATE, Fate.TWICE) and not writes:
            return Fate.SLOW
        return fate

    async def _reply(self, fate: Fate, what: str, act: Callable[[], object]) -> None:
        process, fates = self.process, self._fates
        if fate is Fate.CRASH_AFTER:
            process.die()
        elif fate is Fate.TWICE:
            self._loop.at(fates.rng.random() * LATE_S_MAX, act)
        elif fate is Fate.ZOMBIE_AFTER:
            process.stand_still(self._stillness_s())
        if fates.rng.random() < REPLIES_LATER:
            await asyncio.sleep(fates.latency_s())
        if process.dead or process.asleep:
            await process.awake()
        if fate is Fate.LOST:
            raise Unavailable(f"{what}: the answer was lost")

    def _meet(self, fate: Fate, what: str) -> None:
        self._fates.note(fate)
        if self._trace is not None:
            self._trace(f"{self.process.name}: {what}: {fate}")
        if fate is Fate.CRASH_BEFORE:
            self.process.die()
        elif fate is Fate.ZOMBIE:
            self.process.stand_still(self._stillness_s())

    def _stillness_s(self) -> float:
        return 0.3 + self._fates.rng.random() * self._fates.rng.random() * 12

    async def _fail(
        self,
        fate: Fate,
        what: str,
        act: Callable[[], object],
        part: Callable[[random.Random], object] | None,
    ) -> NoReturn:
        if fate is Fate.HALF:
            assert part is not None, "chosen only where there is one"
            part(self._fates.rng)
        elif fate is Fate.LATE:
            self._loop.at(self._fates.rng.random() * LATE_S_MAX, act)
        await self.process.awake()
        raise Unavailable(f"{what}: {fate}")

    def at_once(self, what: str, act: Callable[[], _T]) -> _T:
        """A call that does not wait: the process may die before or after it."""
        process = self.process
        if process.dead:
            raise Killed
        fate = self._fates.draw()
        if fate in (Fate.CRASH_BEFORE, Fate.CRASH_AFTER):
            self._fates.note(fate)
        if fate is Fate.CRASH_BEFORE:
            process.die()
            raise Killed
        answer = act()
        if self._trace is not None:
            self._trace(f"{process.name}: {what}: {fate}")
        if fate is Fate.CRASH_AFTER:
            process.die()
            raise Killed
        return answer
