"""Whether the disks of the embedded stores have room."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from meterline.limits import ROOM_TO_RUN_BYTES, ROOM_TO_START_BYTES
from meterline.ports import Unavailable, Unsuitable

_MIB = 1024 * 1024


def check_to_start(folders: Iterable[Path]) -> None:
    """Raise `Unsuitable` where a disk has less room than opening the stores may take. The folders
    need not be there yet.
    """
    if short := _shortage(folders, ROOM_TO_START_BYTES):
        raise Unsuitable(f"{short}, then start again. Nothing was opened or changed")


def check_to_run(folders: Iterable[Path]) -> None:
    """Raise `Unavailable` where a disk is full, or as good as full."""
    if short := _shortage(folders, ROOM_TO_RUN_BYTES):
        raise Unavailable(f"{short}. Everything then continues by itself")


def _shortage(folders: Iterable[Path], needed: int) -> str:
    """The first disk with too little room, in words; "" where all have enough."""
    for folder in folders:
        there = next(one for one in (folder, *folder.absolute().parents) if one.is_dir())
        free = shutil.disk_usage(there).free
        if free < needed:
            space = f"{free / _MIB:.1f} MiB are free, {needed // _MIB} MiB are needed"
            return f"the disk of {folder} is full ({space}): free some space"
    return ""
