"""Recordings: what installations of earlier builds left, as files of this folder.

`recorded/NAME` has a `manifest.json`, and an archive of each set-up. That holds `story.json` (what
was sent, delivered and answered), `statements.json` (what was asked of the control store), and what
the stores hold. An archive is never changed: `python -m tests.upgrade` records another one.
"""

import lzma
import os
import re
import tarfile
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.upgrade.answers import Asked

RECORDED: Final = Path(__file__).with_name("recorded")
SET_UPS: Final = ("embedded", "servers")
MANIFEST: Final = "manifest.json"
STORY: Final = "story.json"
STATEMENTS: Final = "statements.json"
DATA: Final = "data"
_PART: Final = re.compile(r"(?P<of>.+)_(?P<first>\d+)_(?P<last>\d+)_\d+")
_EPOCH: Final = 1_577_836_800  # of every file: what is packed again is the same


class Manifest(msgspec.Struct, frozen=True):
    """Which build made a recording, and the schemas of its stores."""

    version: str
    commit: str
    made_at: str  # RFC 3339
    migration: int  # of the control store
    usage_schema: str  # SHA-256 of schema.sql of the usage store


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """The life of an installation until it was stopped, at `end_ms` of the machine's clock.

    `due` are deliveries that no receiver has taken yet, `delivered` those that one took.
    """

    end_ms: int
    secret_key: str  # "": it is in the folder of data
    signing: Mapping[str, str]  # secrets by report
    events: list[dict[str, Any]]  # all that count
    account: Mapping[str, int]
    delivered: list[str]
    due: list[str]
    deliveries: list[dict[str, Any]]
    answers: list[Asked]


def names() -> list[str]:
    """Of all recordings, by the migration that they are at."""
    found = [path.parent.name for path in RECORDED.glob(f"*/{MANIFEST}")]
    return sorted(found, key=lambda name: manifest(name).migration)


def manifest(name: str) -> Manifest:
    """Who made a recording."""
    return msgspec.json.decode((RECORDED / name / MANIFEST).read_bytes(), type=Manifest)


def story(folder: Path) -> Story:
    """Of what was unpacked into a folder."""
    return msgspec.json.decode((folder / STORY).read_bytes(), type=Story)


def statements(name: str, set_up: str) -> list[str]:
    """The statements that the build put to the control store of a set-up."""
    with tarfile.open(_archive(name, set_up)) as archive:
        member = archive.extractfile(STATEMENTS)
        assert member is not None, "a file"
        return msgspec.json.decode(member.read(), type=list[str])


def unpack(name: str, set_up: str, folder: Path) -> Story:
    """Put an archive into an empty folder; its story."""
    folder.mkdir(parents=True)
    with tarfile.open(_archive(name, set_up)) as archive:
        archive.extractall(folder, filter="data")
    return story(folder)


def pack(folder: Path, name: str, set_up: str) -> None:
    """Make the archive of a set-up out of a folder."""
    plain = BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in _kept(folder):
            _add(archive, folder, path)
    into = _archive(name, set_up)
    into.parent.mkdir(parents=True, exist_ok=True)
    into.write_bytes(lzma.compress(plain.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def _kept(folder: Path) -> Iterator[Path]:
    """All but logs of RocksDB, which tell of the machine, and what the engine drops by itself."""
    merged = _merged(folder)
    for path in sorted(folder.rglob("*")):
        tells = "seen" in path.relative_to(folder).parts and path.name.startswith("LOG")
        there = path.is_symlink() or path.is_dir() or path.is_file()
        if there and not tells and merged.isdisjoint((path, path.parent)):
            yield path


def _merged(folder: Path) -> set[Path]:
    """Parts of tables whose rows are in a larger part: ClickHouse keeps them for some minutes."""
    parts = [
        (path, (path.parent, found["of"]), int(found["first"]), int(found["last"]))
        for path in (folder / DATA / "usage" / "store").glob("*/*/*")
        if (found := _PART.fullmatch(path.name)) is not None
    ]
    return {
        path
        for path, of, first, last in parts
        for _, of_other, low, high in parts
        if of == of_other and low <= first and last <= high and (low, high) != (first, last)
    }


def _add(archive: tarfile.TarFile, folder: Path, path: Path) -> None:
    """A file, folder or link; a link leads to where it led, wherever the folder is."""
    entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
    entry.mtime, entry.mode = _EPOCH, 0o700 if path.is_dir() else 0o600
    if path.is_symlink():
        target = path.parent / path.readlink()
        entry.type, entry.mode = tarfile.SYMTYPE, 0o777
        entry.linkname = os.path.relpath(target, path.parent)
        archive.addfile(entry)
    elif path.is_dir():
        entry.type = tarfile.DIRTYPE
        archive.addfile(entry)
    else:
        archive.addfile(*added(entry.name, path.read_bytes()))


def added(name: str, content: bytes) -> tuple[tarfile.TarInfo, BytesIO]:
    """A file of an archive: the same whenever it is packed."""
    entry = tarfile.TarInfo(name)
    entry.mtime, entry.mode, entry.size = _EPOCH, 0o600, len(content)
    return entry, BytesIO(content)


def _archive(name: str, set_up: str) -> Path:
    return RECORDED / name / f"{set_up}.tar.xz"
