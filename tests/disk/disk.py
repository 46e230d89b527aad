"""A disk below one folder that does as a test says, for any process: see `faulty_disk.c`."""

import mmap
import os
import shutil
import struct
import subprocess
from enum import IntEnum, IntFlag
from functools import cache
from pathlib import Path
from typing import Final

from tests.scratch import memory_folder

_PLAN: Final = struct.Struct("<6Q")
_HEAD: Final = struct.Struct("<4Q")
FOR_EVER: Final = 2**63


class Kind(IntEnum):
    """What becomes of a call that is met."""

    NONE = 0
    FULL = 1  # ENOSPC
    BROKEN = 2  # EIO
    SHORT = 3  # half of a write
    CUT = 4  # the process ends before the call, as when the power goes


class Calls(IntFlag):
    """What is counted, and met."""

    WRITE = 1
    SYNC = 2
    RENAME = 4
    OPEN = 8  # for writing
    GROW = 16
    MAKE = 32  # folders and links
    ALL = 63


@cache
def library() -> Path:
    """The library, compiled once for this process by `cc`, which these tests need."""
    source = Path(__file__).with_name("faulty_disk.c")
    made = (memory_folder() or Path("/tmp")) / f"meterline-faulty-disk-{os.getpid()}.so"  # noqa: S108
    command = ["cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([*command, "-o", str(made), str(source), "-ldl", "-lpthread"], check=True)
    return made


class Disk:
    """The disk of `folder`; its own files lie in `beside`."""

    def __init__(self, folder: Path, beside: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        beside.mkdir(parents=True, exist_ok=True)
        self.folder = folder.resolve()
        self._synced = beside / "synced"
        self._synced.mkdir()
        self._path = beside / "plan"
        self._path.write_bytes(bytes(_PLAN.size))
        with self._path.open("r+b") as file:
            self._plan = mmap.mmap(file.fileno(), _PLAN.size)
        self.spare()

    def environment(self, *, keeping: bool = False) -> dict[str, str]:
        """For the processes that are to use this disk; `keeping` what was synced, for `lose`."""
        given = {
            "LD_PRELOAD": str(library()),
            "FAULTY_DISK_PLAN": str(self._path),
            "FAULTY_DISK_FOLDER": str(self.folder),
        }
        return {**given, "FAULTY_DISK_SYNCED": str(self._synced)} if keeping else given

    @property
    def calls(self) -> int:
        """How many calls were counted since the last plan."""
        return int(_PLAN.unpack(self._plan[:])[4])

    @property
    def hit(self) -> int:
        """How many of them were met."""
        return int(_PLAN.unpack(self._plan[:])[5])

    def plan(
        self, kind: Kind, first: int = 1, count: int = FOR_EVER, calls: Calls = Calls.ALL
    ) -> None:
        """From now on: the `first` call of these, and `count` of them, are met."""
        end = min(first + count, FOR_EVER)
        self._plan[_HEAD.size :] = bytes(_PLAN.size - _HEAD.size)
        self._plan[: _HEAD.size] = _HEAD.pack(kind, calls, first, end)

    def fill(self) -> None:
        """No room is left."""
        self.plan(Kind.FULL)

    def spare(self) -> None:
        """All is well; calls are counted."""
        self.plan(Kind.NONE)

    def lose(self) -> int:
        """Each file is as it was when it was synced last, and empty where it never was; how many
        changed by it. Names stay: a journal of the file system may be ahead of the data.
        """
        changed = 0
        for path in self.folder.rglob("*"):
            if path.is_symlink() or not path.is_file():
                continue
            kept = self._synced / str(path.stat().st_ino)
            content = kept.read_bytes() if kept.exists() else b""
            if path.read_bytes() != content:
                path.write_bytes(content)
                changed += 1
        return changed

    def clear(self) -> None:
        """Empty, as it was at first."""
        for folder in (self.folder, self._synced):
            shutil.rmtree(folder)
            folder.mkdir()
        self.spare()

    def close(self) -> None:
        """Let go of the files beside the folder."""
        self._plan.close()
        shutil.rmtree(self._synced)
