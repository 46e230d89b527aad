"""Room on disks, asked of folders that are there and of some that are not."""

import shutil
from pathlib import Path

import pytest

from meterline.limits import ROOM_TO_RUN_BYTES, ROOM_TO_START_BYTES
from meterline.ports import Unavailable, Unsuitable
from meterline.runtime.disk_room import check_to_run, check_to_start

FULL = Path("/proc")  # a file system that is always without room


def test_a_disk_without_room_is_told_with_what_to_do(tmp_path: Path) -> None:
    assert shutil.disk_usage(FULL).free == 0
    with pytest.raises(Unsuitable) as refused:
        check_to_start([tmp_path, FULL / "not" / "there"])
    assert str(refused.value) == (
        "the disk of /proc/not/there is full (0.0 MiB are free, 32 MiB are needed): free some"
        " space, then start again. Nothing was opened or changed"
    )
    with pytest.raises(Unavailable, match=r"16 MiB are needed.*continues by itself"):
        check_to_run([FULL])


def test_a_disk_with_room_is_taken(tmp_path: Path) -> None:
    assert shutil.disk_usage(tmp_path).free > ROOM_TO_START_BYTES > ROOM_TO_RUN_BYTES
    check_to_start([tmp_path / "data" / "usage", tmp_path])
    check_to_run([tmp_path])
