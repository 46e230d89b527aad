import asyncio

from control.health import Health, Silent
from meterline.limits import STATUS_PART_TIMEOUT_S
from tests.simulation.virtual_loop import VirtualLoop
from tests.unit.control.conftest import Api


async def test_probes_answer(api: Api) -> None:
    assert await api.json("GET", "/healthz") == {"status": "alive"}
    ready = await api.json("GET", "/readyz")
    assert ready == {"status": "ready", "parts": ["control", "usage", "log"]}


async def test_alive_needs_no_store_and_ready_names_the_one_that_is_away(api: Api) -> None:
    api.usage.away = True
    assert await api.json("GET", "/healthz") == {"status": "alive"}
    problem = await api.json("GET", "/readyz", 503)
    assert problem["detail"] == "usage: usage store: connection refused"


async def test_nothing_elsewhere(api: Api) -> None:
    problem = await api.json("GET", "/api/v9", 404)
    assert problem["type"] == "urn:meterline:problem:not-found"


def test_a_part_that_does_not_even_give_up_is_not_waited_for() -> None:
    loop = VirtualLoop()
    ended = asyncio.Event()

    async def hangs() -> None:
        """As a statement in a thread: whoever is cancelled waits for its end."""
        try:
            await ended.wait()
        except asyncio.CancelledError:
            await ended.wait()
            raise

    async def asked() -> list[Silent]:
        found = await Health({"control": hangs}).silent()
        ended.set()
        return found

    why = f"did not respond within {STATUS_PART_TIMEOUT_S} s"
    assert loop.run_until_complete(asked()) == [Silent("control", why, timed_out=True)]
    assert loop.time() == STATUS_PART_TIMEOUT_S
    loop.end()
