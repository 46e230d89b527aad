"""What the looks of a process tell of its stores."""

import asyncio
from contextlib import AsyncExitStack

from control.health import Health
from meterline.ports import Unavailable
from meterline.runtime.settings.fields import Settings
from meterline.runtime.wiring.telemetry import telemetry
from tests.simulation.virtual_loop import VirtualLoop
from tests.unit.backends.telemetry.test_prometheus import values


async def _hang() -> None:
    await asyncio.Event().wait()


async def _refuse() -> None:
    raise Unavailable("connection refused")  # its adapter has counted that


async def _answer() -> None:
    pass


def test_a_store_that_hangs_shows_in_its_errors_long_before_a_statement_is_given_up() -> None:
    async def looked() -> dict[tuple[str, ...], float]:
        async with AsyncExitStack() as stack:
            measured = telemetry(Settings(), "up", stack)
            checks = {"usage": _hang, "control": _refuse, "log": _answer, "counting": _hang}
            measured.of_health(Health(checks))
            (look,) = measured.scrape.looks
            await look()
            assert values(measured.recorder, "meterline_ready") == {(): 0.0}
            return values(measured.recorder, "meterline_store_errors_total")

    loop = VirtualLoop()
    assert loop.run_until_complete(looked()) == {
        ("log",): 0.0,
        ("usage",): 1.0,
        ("control",): 0.0,
    }
    loop.close()
