"""The code of a build that made a recording, kept with it: so that its processes run beside those
of a later build, without a history and without a registry. They run on the packages of today.
"""

import lzma
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Final

from tests.upgrade.recording import RECORDED, added, names

BUILD: Final = "build.tar.xz"
PRODUCT: Final = ("aggregator", "control", "dispatcher", "ingest", "meterline")
CONSOLE: Final = "control/console/"  # as built for browsers: nothing here looks at it
# What a process of a recording is started by, beside `tests/upgrade/process.py` of this build.
STARTED_BY: Final = (
    "tests/__init__.py",
    "tests/faults/__init__.py",
    "tests/faults/labels.py",
    "tests/faults/process.py",
    "tests/journey/__init__.py",
    "tests/journey/moved_clock.py",
)


def keep_build(build: Path, name: str) -> None:
    """Put the code of a checkout beside the recording that it made."""
    command = ["git", "-C", str(build), "ls-files", "-z", "--", *PRODUCT, *STARTED_BY]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    kept = [one for one in listed if one and not one.startswith(CONSOLE)]
    plain = BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(kept):
            archive.addfile(*added(path, (build / path).read_bytes()))
    packed = lzma.compress(plain.getvalue(), preset=9 | lzma.PRESET_EXTREME)
    (RECORDED / name / BUILD).write_bytes(packed)


def builds() -> list[str]:
    """The recordings whose build is kept, the newest last."""
    return [name for name in names() if (RECORDED / name / BUILD).exists()]


def unpack_build(name: str, folder: Path) -> Path:
    """Put the code of a build into a new folder."""
    folder.mkdir(parents=True)
    with tarfile.open(RECORDED / name / BUILD) as archive:
        archive.extractall(folder, filter="data")
    return folder
