"""The shell of replays: at work beside a dispatcher, paced, undisturbed by a store that is away."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from dispatcher.replayer import Replayer
from meterline.backends.clock import SystemClock
from meterline.delivery import DeliveryQuery, Replay, ReplayState, Worked
from meterline.ports import Unavailable
from tests.unit.dispatcher.sending.steps import until


@dataclass(slots=True)
class Script:
    """A store that works off what is written here, then nothing more."""

    steps: list[Any] = field(default_factory=list)
    asked_at_ms: list[int] = field(default_factory=list)
    wakes: int = 0

    def wake(self) -> None:
        self.wakes += 1

    async def work(self, now_ms: int) -> Worked:
        self.asked_at_ms.append(now_ms)
        step = self.steps.pop(0) if self.steps else Worked(None, None)
        if isinstance(step, Exception):
            raise step
        assert isinstance(step, Worked)
        return step

    async def counts(self, namespace: str, query: DeliveryQuery) -> Any:
        raise AssertionError(f"{namespace}: nothing is counted: {query}")

    async def create_replay(self, replay: Replay, *, author: str = "") -> Replay:
        raise AssertionError(f"nothing is made: {replay} {author}")

    async def replay(self, namespace: str, replay_id: str) -> None:
        raise AssertionError(f"nothing is read: {namespace} {replay_id}")

    async def replays(
        self,
        namespace: str,
        limit: int,
        after: str | None = None,
        *,
        report_id: str | None = None,
    ) -> list[Replay]:
        raise AssertionError(f"nothing is listed: {namespace} {limit} {after} {report_id}")

    async def cancel_replay(
        self, namespace: str, replay_id: str, now_ms: int, *, author: str = ""
    ) -> Replay:
        raise AssertionError(f"nothing is cancelled: {namespace} {replay_id} {now_ms} {author}")


@asynccontextmanager
async def at_work(script: Script, idle_s: float) -> AsyncIterator[None]:
    replayer = Replayer(script, SystemClock(), script.wake, idle_s)
    task = asyncio.create_task(replayer.run())
    try:
        yield
    finally:
        replayer.stop()
        async with asyncio.timeout(30):
            await task


def step(state: ReplayState, due_at_ms: int | None) -> Worked:
    return Worked(Replay("01A", "default", DeliveryQuery(), 8, 0, state), due_at_ms)


async def test_steps_follow_as_they_are_due_and_the_dispatcher_is_told() -> None:
    soon = SystemClock().now_ms() + 100
    script = Script([step(ReplayState.RUNNING, soon), step(ReplayState.DONE, None)])

    async def ended() -> bool:
        return not script.steps

    async with at_work(script, idle_s=30):
        await until(ended)
    assert script.wakes == 2
    assert script.asked_at_ms[1] >= soon - 1


async def test_an_error_is_waited_out() -> None:
    script = Script([Unavailable("away"), RuntimeError("a fault"), step(ReplayState.DONE, None)])

    async def ended() -> bool:
        return not script.steps

    async with at_work(script, idle_s=0.02):
        await until(ended)
    assert script.wakes == 1
