"""A loop that stands still is told of once, with stacks, and ended in the end."""

import asyncio
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from subprocess import PIPE

from hypothesis import given
from hypothesis import strategies as st

from meterline.limits import LOOP_ENDS_S, LOOP_LOOK_S, LOOP_STANDS_S
from meterline.runtime.roles.loop_watch import LoopWatch, Means, Standstill
from tests.simulation.virtual_loop import VirtualLoop

STANDS, ENDS = LOOP_STANDS_S // LOOP_LOOK_S, LOOP_ENDS_S // LOOP_LOOK_S
# The interpreter's lock is held until standard input ends: nothing in Python goes on.
HELD = """
import ctypes
from meterline.backends.clock import SystemClock
from meterline.runtime.roles import loop_watch
loop_watch.LOOP_STANDS_S = 1
def held():
    ctypes.PyDLL(None).read(0, ctypes.create_string_buffer(1), 1)
watch = loop_watch.LoopWatch(SystemClock())
watch.look()
held()
"""
ENDED_AFTER_S = 100.0


@given(st.lists(st.booleans(), max_size=50))
def test_looks_without_a_turn_are_counted(turned: list[bool]) -> None:
    standstill, turns, stood = Standstill(), 0, 0
    standstill.look(turns)
    for turn in turned:
        turns += turn
        stood = 0 if turn else stood + 1
        assert standstill.look(turns) == stood


@dataclass(slots=True)
class Done:
    """What was done about a loop."""

    steps: list[str] = field(default_factory=list)
    later: int = 0

    def means(self) -> Means:
        return Means(self._step("dump"), self._dump_later, self._step("end"), self._write)

    def _step(self, name: str) -> "Step":
        return Step(self.steps, name)

    def _dump_later(self) -> None:
        self.later += 1

    def _write(self, line: bytes) -> None:
        self.steps.append(line.decode().partition("level=")[2].partition(" reason=")[0])


@dataclass(slots=True)
class Step:
    steps: list[str]
    name: str

    def __call__(self) -> None:
        self.steps.append(self.name)


class Noon:
    """A clock that stands."""

    def now_ms(self) -> int:
        return 43_200_000


def test_a_loop_that_stands_is_told_of_once_and_then_ended() -> None:
    done = Done()
    watch = LoopWatch(Noon(), done.means())
    for _ in range(STANDS):
        watch.look()
    assert done.steps == []
    watch.look()
    stands = f"error event=loop_stands seconds={LOOP_STANDS_S}"
    assert done.steps == ["dump", stands]
    for _ in range(ENDS - STANDS):
        watch.look()
    ends = f"error event=loop_stands seconds={LOOP_ENDS_S}"
    assert done.steps == ["dump", stands, ends, "end"]
    assert done.later == ENDS + 1, "each look puts off what dumps without the interpreter"


def test_a_loop_that_turns_is_left_alone() -> None:
    done, loop = Done(), VirtualLoop()
    watch = LoopWatch(Noon(), done.means())

    async def turned() -> None:
        turning = asyncio.create_task(watch.turn_for_ever())
        for _ in range(2 * ENDS):
            await asyncio.sleep(LOOP_LOOK_S)
            watch.look()
        turning.cancel()

    loop.run_until_complete(turned())
    loop.end()
    assert done.steps == []


def test_stacks_are_written_where_the_interpreter_stands() -> None:
    command = [sys.executable, "-c", HELD]
    with subprocess.Popen(command, stdin=PIPE, stderr=PIPE, text=True) as process:
        patience = threading.Timer(ENDED_AFTER_S, process.kill)
        patience.start()
        try:
            assert process.stdin is not None
            assert process.stderr is not None
            assert any("in held" in line for line in process.stderr)
            process.stdin.close()  # it is let go of
        finally:
            patience.cancel()
            process.kill()
