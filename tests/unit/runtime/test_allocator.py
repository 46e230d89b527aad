"""What threads have freed goes back to the system."""

import subprocess
import sys

import pytest

from meterline.limits import ENGINE_KEPT_MS, ENGINE_THREAD_BYTES
from meterline.runtime.allocator import bound_allocator, bound_engine_allocator

# Threads that live on, each of which freed buffers; printed is what the process holds more for it.
LIFE = """
import sys, threading
from meterline.runtime.allocator import bound_allocator
if sys.argv[1] == "bound":
    assert bound_allocator({})
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
def work():
    large = b"x" * (4 << 20)
    del large
    several = [b"x" * (1 << 20) for _ in range(7)]
    del several
    freed.wait()
    ended.wait()
freed, ended = threading.Barrier(17), threading.Event()
before = resident()
threads = [threading.Thread(target=work) for _ in range(16)]
for thread in threads:
    thread.start()
freed.wait()
print(resident() - before)
ended.set()
"""


# Buffers that are used lie between those that are free; printed is what a trim gives back.
BETWEEN = """
import asyncio
from meterline import limits
from meterline.runtime import allocator
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
async def main():
    allocator.ALLOCATOR_TRIM_S = 0.01
    buffers = [bytes([n % 251]) * 8_000 for n in range(8_000)]
    buffers = buffers[::4]
    before = resident()
    trimming = asyncio.create_task(allocator.trim_for_ever())
    await asyncio.sleep(0.5)
    trimming.cancel()
    print(before - resident())
asyncio.run(main())
"""


# Printed is what bounds the engine in keeping what is free, as it tells itself.
ENGINE = """
import re, sys
from meterline.runtime.allocator import bound_engine_allocator
bound_engine_allocator()
import chdb
told = str(chdb.query("SELECT * FROM system.jemalloc_stats", "TSVRaw"))
print(re.search(rf"opt.{sys.argv[1]}: (\\d+)", told)[1])
"""


def printed(*program: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", *program], check=True, capture_output=True, text=True, env={}
    )
    return int(done.stdout)


def kept(how: str) -> int:
    return printed(LIFE, how)


def test_what_is_free_between_buffers_goes_back() -> None:
    assert printed(BETWEEN) > 20_000_000, "of 48,000,000 bytes"


def test_a_process_with_many_threads_keeps_less() -> None:
    assert kept("bound") * 2 < kept("as it comes")


@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES"])
def test_what_a_person_has_chosen_stays(name: str) -> None:
    assert not bound_allocator({name: "8"})


@pytest.mark.parametrize(
    ("bound", "value"), [("dirty_decay_ms", ENGINE_KEPT_MS), ("tcache_max", ENGINE_THREAD_BYTES)]
)
def test_the_engine_gives_back_what_it_has_freed(bound: str, value: int) -> None:
    assert printed(ENGINE, bound) == value


def test_what_a_person_has_chosen_for_the_engine_stays() -> None:
    chosen = {"JE_MALLOC_CONF": "dirty_decay_ms:0"}
    bound_engine_allocator(chosen)
    assert chosen == {"JE_MALLOC_CONF": "dirty_decay_ms:0"}
