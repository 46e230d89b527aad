"""The files of an archive: written with their digests, checked before anything is read."""

import gzip
import hashlib
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from meterline.limits import (
    ARCHIVE_LINE_BYTES_MAX,
    ARCHIVE_MANIFEST_BYTES_MAX,
    ARCHIVE_PIECE_BYTES,
)
from meterline.ports import Unsuitable
from meterline.runtime.archive import manifest as listing
from meterline.runtime.archive.manifest import ArchivedFile, Manifest

_PATH: Final = re.compile(r"[a-z0-9_]+/[a-z0-9_]+(\.[a-z]+)+")
_LEVEL: Final = 1  # of gzip: a third of the bytes, at the speed of a disk
_FOLDER_MODE: Final = 0o700  # payloads and sealed secrets lie in it
_FILE_MODE: Final = 0o600
Tell = Callable[[str], None]


class _Hashed:
    """A file that knows the digest of what was written to it."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _FILE_MODE)
        self._file: BinaryIO = os.fdopen(number, "wb")
        self.digest = hashlib.sha256()
        self.bytes = 0

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        self.bytes += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """It is on disk after this."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()


class Lines:
    """Lines that go to one file of an archive."""

    def __init__(self, raw: _Hashed) -> None:
        self._raw = raw
        self._packed = gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=_LEVEL, mtime=0)
        self.rows = 0

    def write(self, lines: bytes, rows: int | None = None) -> None:
        """Add whole lines, or pieces of them."""
        self._packed.write(lines)
        self.rows += lines.count(b"\n") if rows is None else rows

    def close(self) -> None:
        """Nothing is written after this."""
        self._packed.close()
        self._raw.close()


class NewArchive:
    """An archive that is being written. A path that is written twice has what was written last."""

    def __init__(self, folder: Path) -> None:
        """Raises `Unsuitable` for a folder that holds anything."""
        self.folder = folder
        self._files: dict[str, ArchivedFile] = {}
        folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise Unsuitable(f"{folder} is not empty: name a new folder, or empty this one")

    @contextmanager
    def file(self, path: str) -> Iterator[Lines]:
        """A file that counts as written when the block ends well."""
        raw = _Hashed(self.folder / path)
        lines = Lines(raw)
        try:
            yield lines
        finally:
            lines.close()
        made = ArchivedFile(path, raw.bytes, lines.rows, raw.digest.hexdigest())
        self._files[path] = made

    @property
    def files(self) -> Sequence[ArchivedFile]:
        """Those that were written, by path."""
        return [self._files[path] for path in sorted(self._files)]

    def finish(self, manifest: Manifest) -> None:
        """Make it an archive."""
        draft = self.folder / f"{listing.MANIFEST}.part"
        raw = _Hashed(draft)
        raw.write(listing.encode(manifest))
        raw.close()
        draft.rename(self.folder / listing.MANIFEST)
        for folder in {self.folder, *(p for p in self.folder.iterdir() if p.is_dir())}:
            number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(number)
            finally:
                os.close(number)


class Archive:
    """An archive that is read."""

    def __init__(self, folder: Path) -> None:
        """Raises `Unsuitable` where there is none."""
        self._folder = folder
        try:
            with (folder / listing.MANIFEST).open("rb") as file:
                text = file.read(ARCHIVE_MANIFEST_BYTES_MAX + 1)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise Unsuitable(
                f"{folder} is no archive: it has no {listing.MANIFEST}. A backup writes it last:"
                " one that was broken off has none"
            ) from error
        if len(text) > ARCHIVE_MANIFEST_BYTES_MAX:
            raise Unsuitable(
                f"{listing.MANIFEST} is damaged: it has over {ARCHIVE_MANIFEST_BYTES_MAX:,} bytes."
                " Use another archive"
            )
        self.manifest = listing.decode(text)

    def check(self, tell: Tell) -> None:
        """Raise `Unsuitable` unless every file is there as it was written."""
        for one in self.manifest.files:
            found, size = hashlib.sha256(), 0
            try:
                with self._path(one.path).open("rb") as file:
                    while piece := file.read(ARCHIVE_PIECE_BYTES):
                        found.update(piece)
                        size += len(piece)
            except FileNotFoundError as error:
                message = f"the archive is not whole: {one.path} is missing. Use another one"
                raise Unsuitable(message) from error
            if (size, found.hexdigest()) != (one.bytes, one.sha256):
                raise Unsuitable(
                    f"the archive is damaged: {one.path} is not what its manifest says. Nothing was"
                    " written. Use another archive, or copy this one again"
                )
        tell(f"{len(self.manifest.files)} files have the digests of the manifest")

    def pieces(self, path: str) -> Iterator[bytes]:
        """Whole lines of a file, together `ARCHIVE_PIECE_BYTES` and a line at most. Raises
        `Unsuitable` for a line that is too long, and in the end for another number of rows than the
        manifest says.
        """
        rows = 0
        with self._unpacked(path) as file:
            while piece := file.read(ARCHIVE_PIECE_BYTES):
                whole = piece if piece.endswith(b"\n") else piece + self._line(file, path)
                rows += whole.count(b"\n")
                yield whole
        self._check_rows(path, rows)

    def lines(self, path: str, heads: int = 0) -> Iterator[bytes]:
        """One line after another; `heads` of them are no rows. Raises as `pieces` does."""
        rows = -heads
        with self._unpacked(path) as file:
            while line := self._line(file, path):
                rows += 1
                yield line
        self._check_rows(path, rows)

    @contextmanager
    def _unpacked(self, path: str) -> Iterator[gzip.GzipFile]:
        self.manifest.file(path)
        try:
            with gzip.open(self._path(path), "rb") as file:
                yield file
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            message = (
                f"the archive is damaged: {path} cannot be unpacked ({error}). Use another one"
            )
            raise Unsuitable(message) from error

    @staticmethod
    def _line(file: gzip.GzipFile, path: str) -> bytes:
        line = file.readline(ARCHIVE_LINE_BYTES_MAX + 1)
        if len(line) > ARCHIVE_LINE_BYTES_MAX:
            raise Unsuitable(
                f"the archive is damaged: {path} has a line of over {ARCHIVE_LINE_BYTES_MAX:,}"
                " bytes, and no backup writes one. Use another archive"
            )
        return line

    def _check_rows(self, path: str, rows: int) -> None:
        if (due := self.manifest.file(path).rows) != rows:
            raise Unsuitable(
                f"the archive is damaged: {path} has {rows:,} rows, and its manifest says {due:,}."
                " Use another archive"
            )

    def _path(self, path: str) -> Path:
        if _PATH.fullmatch(path) is None:
            raise Unsuitable(f"{listing.MANIFEST} names {path!r}, which no archive has")
        return self._folder / path
