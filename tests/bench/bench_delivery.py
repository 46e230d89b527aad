"""Deliveries: how many a second, and what receivers that hang cost the others.

The dispatcher, its SQLite store and its sender are the product's, in this process; the receiver is
a process of its own. Beside the rate stands its ratio to a bare aiohttp client that signs and posts
the same bodies, as many at once, and writes nothing down. Both run as the product does: on uvloop,
and with its thresholds of the garbage collector.
"""

import asyncio
import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median
from typing import Final

import aiohttp
import structlog
import uvloop

from dispatcher.sending.signing import load, signed_headers
from meterline import limits
from meterline.backends.control_store.engine import open_database
from meterline.backends.control_store.migrate import migrate
from meterline.delivery import DeliveryDraft, delivery_id, digest_of
from meterline.report import Manifest, Report, Run, Trigger, run_id
from meterline.runtime.process import GC_THRESHOLDS
from meterline.window import MINUTE_MS
from tests.unit.dispatcher.conftest import SECRET, START_MS, Rig, opened_rig
from tests.unit.dispatcher.sending.steps import is_ended, real_now_ms, working

ROUNDS: Final = 9
DELIVERIES: Final = 10_000
ENDPOINTS: Final = 1_000
HANGING: Final = 10
RATIO_WANTED: Final = 0.5
SLOWER_WANTED: Final = 1.5
BODY: Final = (
    b'{"type":"report.meter","usage":[' + b'{"value":350.25,"subject":"acme"},' * 20 + b"0]}"
)
Say = Callable[[str], None]


@contextmanager
def receiver() -> Iterator[int]:
    """The port of a receiver."""
    command = [sys.executable, "-m", "tests.bench.receiver_process"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.communicate()


@asynccontextmanager
async def fresh_service() -> AsyncIterator[Rig]:
    """The rig of a dispatcher on a new store."""
    with tempfile.TemporaryDirectory() as folder:
        database = open_database(f"sqlite:///{Path(folder) / 'control.db'}")
        await migrate(database)
        async with opened_rig(database) as rig:
            yield rig


async def owed(rig: Rig, report: Report, count: int) -> Run:
    """A decided run of so many deliveries, and no windows to come."""
    store, to_ms = rig.reports, START_MS + MINUTE_MS
    name = run_id(report.id, START_MS, to_ms, 1)
    run = Run(name, report.id, "default", START_MS, to_ms, 1, Trigger.SCHEDULE, to_ms)
    await store.plan(report, [run], real_now_ms() + 60 * MINUTE_MS)
    claim = await store.claim_run(run.id, f"h{report.id}", to_ms, to_ms + MINUTE_MS)
    assert claim is not None
    drafts = [
        DeliveryDraft(
            delivery_id(report.id, START_MS, to_ms, f"s{number}", 1),
            f"s{number}",
            number,
            number,
            BODY,
            digest_of(BODY),
            digest_of(b""),
        )
        for number in range(1, count + 1)
    ]
    for first in range(0, count, limits.STAGED_BODIES_MAX):
        await store.stage(claim, drafts[first : first + limits.STAGED_BODIES_MAX])
    manifest = Manifest(count, count, 0, 0, 0, to_ms, "", 1)
    assert await store.decide(claim, 1, manifest, to_ms)
    return run


async def rate_of_dispatcher(port: int) -> float:
    """Deliveries a second to one endpoint, each recorded."""
    async with fresh_service() as rig:
        run = await owed(rig, await rig.report(f"http://127.0.0.1:{port}/ok"), DELIVERIES)
        began_s = time.perf_counter()
        async with working(rig, limits.DISPATCH_IDLE_S):
            while not await is_ended(rig, run):  # noqa: ASYNC110 - a store has no event
                await asyncio.sleep(0.2)
        return DELIVERIES / (time.perf_counter() - began_s)


async def rate_of_bare_client(port: int) -> float:
    """The same without a store, as many at once."""
    names = iter([f"dlv_{number}" for number in range(DELIVERIES)])
    began_s = time.perf_counter()
    async with aiohttp.ClientSession() as session:

        async def post_all() -> None:
            for name in names:
                headers = signed_headers(name, [SECRET], BODY, real_now_ms())
                headers["Content-Type"] = "application/json"
                url = f"http://127.0.0.1:{port}/ok"
                async with session.post(url, data=BODY, headers=headers) as response:
                    assert response.status == 200
                    await response.read()

        await asyncio.gather(*(post_all() for _ in range(limits.ENDPOINT_IN_FLIGHT_MAX)))
    return DELIVERIES / (time.perf_counter() - began_s)


async def first_p99_s(port: int, hanging: int) -> float:
    """Over endpoints that are well: the 99th percentile of the wait for the first delivery, when
    all are owed one at the same moment and some hang.
    """
    async with fresh_service() as rig:
        for number in range(ENDPOINTS):
            kind = "hang" if number * hanging % ENDPOINTS < hanging and hanging else "ok"
            path = f"{kind}/{hanging}/{number}"
            report = await rig.report(f"http://127.0.0.1:{port}/{path}", f"r{number:04}")
            await owed(rig, report, 1)
        began_s = time.time()
        task = asyncio.create_task(asyncio.sleep(120))
        async with working(rig, limits.DISPATCH_IDLE_S), aiohttp.ClientSession() as session:
            while True:
                async with session.get(f"http://127.0.0.1:{port}/firsts") as response:
                    firsts: dict[str, float] = await response.json()
                well = sorted(
                    at_s - began_s
                    for path, at_s in firsts.items()
                    if path.startswith(f"/ok/{hanging}/")
                )
                if len(well) >= ENDPOINTS - hanging or task.done():
                    break
                await asyncio.sleep(0.5)
            await rig.sender.close()  # what hangs need not be waited for
        task.cancel()
    assert len(well) >= ENDPOINTS - hanging, f"{len(well)} endpoints had a delivery in 120 s"
    return well[int(len(well) * 0.99)]


async def measure_all(say: Say) -> None:
    """Both figures."""
    load()  # or the first round pays for it
    with receiver() as port:
        ratios = []
        for _ in range(ROUNDS):
            bare = await rate_of_bare_client(port)
            ours = await rate_of_dispatcher(port)
            ratios.append(ours / bare)
            say(
                f"delivery, one endpoint: {ours:7,.0f} a second   bare client {bare:7,.0f}"
                f"   ratio {ratios[-1]:4.2f}"
            )
        say(
            f"delivery, one endpoint: median ratio {median(ratios):4.2f} of {ROUNDS} rounds"
            f" (wanted {RATIO_WANTED})"
        )
        well = await first_p99_s(port, 0)
        beside = await first_p99_s(port, HANGING)
        say(
            f"delivery, {ENDPOINTS} endpoints: first delivery p99 {well:5.2f} s, beside {HANGING}"
            f" that hang {beside:5.2f} s   ratio {beside / well:4.2f} (at most {SLOWER_WANTED})"
        )


def main() -> None:
    """Print the figures; takes about two minutes."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))  # errors

    def say(words: str) -> None:
        sys.stdout.write(f"{words}\n")
        sys.stdout.flush()

    gc.set_threshold(*GC_THRESHOLDS)
    uvloop.run(measure_all(say))
