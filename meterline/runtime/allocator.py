"""The C allocators of a process: what is free goes back to the system.

glibc gives threads arenas of their own, and keeps in each what large buffers leave. A process with
many threads so holds hundreds of megabytes that nobody uses. chDB brings an allocator of its own.
"""

import asyncio
import ctypes
import os
from collections.abc import Mapping, MutableMapping
from typing import Final

from meterline.limits import (
    ALLOCATOR_ARENAS_MAX,
    ALLOCATOR_KEPT_BYTES,
    ALLOCATOR_MAPPED_BYTES,
    ALLOCATOR_TRIM_S,
    ENGINE_KEPT_MS,
    ENGINE_THREAD_BYTES,
)

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # <malloc.h>
_KNOBS: Final = {
    _ARENA_MAX: ALLOCATOR_ARENAS_MAX,
    _MMAP_THRESHOLD: ALLOCATOR_MAPPED_BYTES,
    _TRIM_THRESHOLD: ALLOCATOR_KEPT_BYTES,
}
_OF_ENGINE: Final = "JE_MALLOC_CONF"  # jemalloc, as chDB has named it; read when chDB is loaded
_CHOSEN: Final = ("MALLOC_", "GLIBC_TUNABLES")  # how variables begin by which a person chooses


def bound_allocator(environment: Mapping[str, str] = os.environ) -> bool:
    """Bound what it keeps; call it before there are threads. False where that was left as it is:
    somebody has chosen otherwise, or it is another allocator.
    """
    if any(name.startswith(_CHOSEN) for name in environment):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return all(mallopt(knob, value) == 1 for knob, value in _KNOBS.items())


def bound_engine_allocator(environment: MutableMapping[str, str] = os.environ) -> None:
    """Bound how long the embedded engine keeps what it has freed, and what each of its threads
    keeps; call it before chDB is imported. What somebody has chosen stays.
    """
    bounds = f"dirty_decay_ms:{ENGINE_KEPT_MS},tcache_max:{ENGINE_THREAD_BYTES}"
    environment.setdefault(_OF_ENGINE, bounds)


async def trim_for_ever() -> None:
    """Until cancelled: what is free between what is used goes back as well, now and then. Returns
    where there is another allocator.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    while trim is not None:
        await asyncio.sleep(ALLOCATOR_TRIM_S)
        await asyncio.to_thread(trim, 0)  # some milliseconds, in which Python goes on
