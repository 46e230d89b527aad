"""What tests of sending do: make a run, send its deliveries, work until something holds."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from dispatcher.runs.late import LateUsage
from dispatcher.runs.planner import find_due, make_runs
from dispatcher.sending.attempt import claim_due, deliver, record
from dispatcher.sending.fairness import Load
from dispatcher.worker import Dispatcher
from meterline.backends.clock import SystemClock
from meterline.delivery import ClaimedDelivery
from meterline.number import UNIT
from meterline.report import Report, Run
from meterline.window import MINUTE_MS
from tests.unit.dispatcher.conftest import START_MS, Mailbox, Post, Rig

Mailboxes = Callable[[], Awaitable[Mailbox]]
END_MS = START_MS + MINUTE_MS
NOW_MS = END_MS + MINUTE_MS
SUBJECTS = ["acme", "beta", "zeta"]


def real_now_ms() -> int:
    return time.time_ns() // 1_000_000


async def made(rig: Rig, report: Report, subjects: list[str]) -> Run:
    """The first run of a report, decided, with a delivery for each subject."""
    rig.usage.cells = {(subject, "a", START_MS): UNIT for subject in subjects}
    await rig.complete(NOW_MS)
    await find_due(rig.reports, END_MS, 10)
    assert await make_runs(rig.sources, rig.plan_terms, lambda: END_MS, f"h{report.id}") >= 1
    return (await rig.reports.runs(report.id, 10))[-1]


async def claimed(rig: Rig, now_ms: int) -> list[ClaimedDelivery]:
    """What a dispatcher claims that has nothing in hand, and trusts all endpoints."""
    load = Load(proven={it.address for it in await rig.reports.due(now_ms)})
    return await claim_due(rig.reports, rig.send_terms, load, now_ms)


async def posted(
    rig: Rig, claimed_deliveries: list[ClaimedDelivery], now_ms: int, *, recorded: bool
) -> None:
    """Send claimed deliveries; a dispatcher that dies after sending records nothing."""
    retry = rig.send_terms.retry
    sent = [
        # signed as of the real time, for receivers compare with theirs
        await deliver(claimed, rig.sender, rig.box, retry, real_now_ms(), 0.5)
        for claimed in claimed_deliveries
    ]
    if recorded:
        await record(rig.reports, sent, now_ms)


async def the_run(rig: Rig, run: Run) -> Run:
    found = await rig.reports.run(run.report_id, run.id)
    assert found is not None
    return found


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110 - a store has no event to wait for
            await asyncio.sleep(0.02)


@asynccontextmanager
async def working(rig: Rig, idle_s: float = 0.02) -> AsyncIterator[Dispatcher]:
    """A dispatcher at work; it ends well."""
    dispatcher = Dispatcher(
        rig.sources,
        LateUsage(rig.late, rig.late_terms),
        rig.sender,
        rig.box,
        SystemClock(),
        rig.plan_terms,
        rig.send_terms,
        idle_s=idle_s,
    )
    task = asyncio.create_task(dispatcher.run())
    try:
        yield dispatcher
    finally:
        dispatcher.stop()
        async with asyncio.timeout(60):  # longer than an attempt may take
            await task


def by_id(posts: list[Post]) -> dict[str, set[bytes]]:
    found: dict[str, set[bytes]] = {}
    for post in posts:
        found.setdefault(post.id, set()).add(post.body)
    return found


async def is_ended(rig: Rig, run: Run) -> bool:
    return (await the_run(rig, run)).ended_at_ms is not None


async def arrived(box: Mailbox, count: int) -> bool:
    return len(box.posts) >= count
