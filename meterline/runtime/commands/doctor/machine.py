"""What this machine and the settings say by themselves."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from meterline.backends.secrets import KEY_FILE
from meterline.limits import ROOM_TO_ADVISE_BYTES, ROOM_TO_START_BYTES
from meterline.runtime.commands.doctor.finding import Finding, Level
from meterline.runtime.secret_key import configured
from meterline.runtime.settings.checks import is_loopback
from meterline.runtime.settings.reading import Settings

GIB: Final = 1024**3
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def look_at_machine(settings: Settings) -> Iterator[Finding]:
    """Disk, keys, access."""
    for name in ("data_dir", "seen_dir"):
        yield _disk(name, getattr(settings, name).absolute())
    yield _key(settings)
    yield _access(settings)


def _disk(name: str, folder: Path) -> Finding:
    there = next(one for one in (folder, *folder.parents) if one.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        text = f"{name}: {there} cannot be written to: give it to the user of the process"
        return Finding("disk", Level.FAULT, text)
    free = shutil.disk_usage(there).free
    shown = f"{name}: {free / GIB:.1f} GiB are free at {folder}"
    if free < ROOM_TO_START_BYTES:
        return Finding("disk", Level.FAULT, f"{shown}: free some space, or nothing starts")
    if free < ROOM_TO_ADVISE_BYTES:
        return Finding("disk", Level.WARNING, f"{shown}: free some space soon")
    made = "" if folder.exists() else "; the folder is made at the first start"
    return Finding("disk", Level.OK, f"{shown}{made}")


def _key(settings: Settings) -> Finding:
    if (setting := configured(settings)) is not None:
        return Finding("keys", Level.OK, f"{setting} is set; it must be equal in all processes")
    if not settings.embedded:
        text = (
            "secret_key is not set, and each process would make its own: set it to the same value"
        )
        return Finding("keys", Level.FAULT, f"{text} in all of them")
    path = settings.data_dir.absolute() / KEY_FILE
    if not path.is_file():
        return Finding("keys", Level.OK, f"{path} is made at the first start")
    if path.stat().st_mode & _OTHERS:
        text = f"others may read {path}: run `chmod 600 {path}`"
        return Finding("keys", Level.WARNING, text)
    return Finding("keys", Level.OK, f"{path} is there; keep a copy apart from the backups")


def _access(settings: Settings) -> Finding:
    if settings.access_mode == "none" and not is_loopback(settings.host):
        text = (
            f"everybody who reaches {settings.host} may do everything (public_without_keys): set"
            " access_mode to keys, unless a proxy in front authenticates requests"
        )
        return Finding("access", Level.WARNING, text)
    return Finding("access", Level.OK, f"access_mode is {settings.access_mode}")
