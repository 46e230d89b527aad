"""Where tests keep their files: in memory, where there is room.

Logs and stores sync to disk before they answer, and most of the time of many tests is waiting for
that. A process that is killed loses nothing that it wrote to memory either; what a disk does when
the power fails is no test's matter.
"""

import os
import re
from pathlib import Path
from typing import Final

MEMORY: Final = Path("/dev/shm")  # noqa: S108 - folders in it get names that nobody can guess
ROOM_BYTES: Final = 8 * 1024**3  # more than all tests together take
_AVAILABLE: Final = re.compile(r"^MemAvailable: +([0-9]+) kB$", re.MULTILINE)


def memory_folder() -> Path | None:
    """A folder in memory that programs can be run in, with room for all that tests write."""
    try:
        mounted = os.statvfs(MEMORY)
        found = _AVAILABLE.search(Path("/proc/meminfo").read_text())
    except OSError:
        return None
    free_bytes = mounted.f_bavail * mounted.f_frsize
    if found is None or min(free_bytes, int(found[1]) * 1024) < ROOM_BYTES:
        return None
    usable = os.access(MEMORY, os.W_OK) and not mounted.f_flag & os.ST_NOEXEC
    return MEMORY if usable else None
