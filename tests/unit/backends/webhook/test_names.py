"""Names that nobody answers for: they hold up neither other names nor the process."""

import asyncio
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator

import pytest
from aiohttp import ThreadedResolver
from aiohttp.abc import ResolveResult

from meterline.backends.webhook.names import NameNotResolved, Names

HERE = "127.0.0.1"
EXIT_WITHIN_S = 55.0  # of a process whose lookup takes a minute
TURNS_AT_ONCE = 10  # of the loop; they take less than any deadline


class System:
    """What a system looks up: names that begin with `dead` take until the test ends."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.ended = threading.Event()

    def __call__(self, host: str, family: int) -> list[ResolveResult]:
        del family
        self.asked.append(host)
        if host.startswith("dead"):
            self.ended.wait()
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        found = ResolveResult(
            hostname=host, host=HERE, port=0, family=socket.AF_INET, proto=6, flags=0
        )
        return [found]


@pytest.fixture
def system() -> Iterator[System]:
    made = System()
    yield made
    made.ended.set()


async def test_dead_names_hold_up_no_other(system: System) -> None:
    names = Names(system, deadline_s=60)
    dead = [asyncio.create_task(names.resolve(f"dead{n}.test")) for n in range(100)]
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        (found,) = await names.resolve("healthy.test", 443)
    assert (found["host"], found["port"]) == (HERE, 443)
    assert not any(it.done() for it in dead)
    system.ended.set()
    ended = await asyncio.gather(*dead, return_exceptions=True)
    assert {type(it) for it in ended} == {socket.gaierror}


async def test_a_name_is_looked_up_once_at_a_time_and_not_waited_for_beyond_its_deadline(
    system: System,
) -> None:
    names = Names(system, deadline_s=0.1)
    asks = [names.resolve("dead.test", port) for port in (80, 443, 443)]
    for it in await asyncio.gather(*asks, return_exceptions=True):
        assert isinstance(it, NameNotResolved)
        assert (it.message, it.of_name) == ("was not resolved within 0.1 s", True)
    for _ in range(100):  # it goes on still: each is told at once
        asked = asyncio.create_task(names.resolve("dead.test"))
        for _ in range(TURNS_AT_ONCE):
            await asyncio.sleep(0)
        assert asked.done()
        with pytest.raises(NameNotResolved, match="was not resolved"):
            await asked
    assert system.asked == ["dead.test"]
    system.ended.set()
    async with asyncio.timeout(30):  # now it has ended, and may be asked for anew
        while len(system.asked) == 1:
            await asyncio.gather(names.resolve("dead.test"), return_exceptions=True)


async def test_whoever_gives_up_takes_nothing_from_the_others(system: System) -> None:
    names = Names(system, deadline_s=60)
    first, second = (asyncio.create_task(names.resolve("dead.test")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    system.ended.set()
    with pytest.raises(socket.gaierror):
        await second
    assert system.asked == ["dead.test"]


async def test_threads_have_a_bound_and_no_name_waits_for_one(system: System) -> None:
    names = Names(system, deadline_s=60, lookups_max=3)
    dead = [asyncio.create_task(names.resolve(f"dead{n}.test")) for n in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(NameNotResolved, match="was not looked up") as told:
        await names.resolve("healthy.test")
    assert not told.value.of_name
    system.ended.set()
    await asyncio.gather(*dead, return_exceptions=True)
    assert await names.resolve("healthy.test")


@pytest.mark.parametrize("family", [socket.AF_UNSPEC, socket.AF_INET])
async def test_addresses_are_those_that_the_client_would_find(family: socket.AddressFamily) -> None:
    found = await Names().resolve("localhost", 8080, family)
    assert found == await ThreadedResolver().resolve("localhost", 8080, family)
    assert all(isinstance(it["host"], str) for it in found)


async def test_what_is_no_name_is_told_as_the_system_tells_it() -> None:
    for host, fault in (("no-such-name.invalid", OSError), ("a" * 64 + ".test", ValueError)):
        with pytest.raises(fault) as told:
            await Names().resolve(host)
        assert not isinstance(told.value, NameNotResolved)


def test_a_process_ends_while_a_name_is_looked_up() -> None:
    program = """
        import asyncio, time
        from meterline.backends.webhook.names import Names, NameNotResolved

        async def main():
            names = Names(lambda host, family: time.sleep(60), deadline_s=0.1)
            try:
                await names.resolve("dead.test")
            except NameNotResolved as error:
                print(error.message)
            await names.close()

        asyncio.run(main())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=EXIT_WITHIN_S,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("was not resolved within 0.1 s\n", "")
