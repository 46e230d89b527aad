"""The files of an archive: what was written is read, and whatever was changed is found."""

import gzip
import hashlib
import stat
from pathlib import Path

import msgspec
import pytest

from meterline.limits import (
    ARCHIVE_LINE_BYTES_MAX,
    ARCHIVE_MANIFEST_BYTES_MAX,
    ARCHIVE_PIECE_BYTES,
)
from meterline.ports import Unsuitable
from meterline.runtime.archive.files import Archive, NewArchive
from meterline.runtime.archive.manifest import ArchivedFile
from tests.unit.runtime.archive.test_manifest import MANIFEST

PATH = "usage/events.tsv.gz"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An archive with one file of two lines."""
    made = NewArchive(tmp_path / "archive")
    with made.file(PATH) as lines:
        lines.write(b"one\nt")
        lines.write(b"wo\n")
    made.finish(msgspec.structs.replace(MANIFEST, files=made.files))
    return made.folder


def checked(folder: Path) -> Archive:
    archive = Archive(folder)
    archive.check(lambda _: None)
    return archive


def test_what_was_written_is_read(folder: Path) -> None:
    archive = checked(folder)
    assert list(archive.lines(PATH)) == [b"one\n", b"two\n"]
    assert list(archive.pieces(PATH)) == [b"one\ntwo\n"]
    assert archive.manifest.file(PATH).rows == 2


def test_only_its_owner_reads_an_archive(folder: Path) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}
    assert modes == {"usage": 0o700, "events.tsv.gz": 0o600, "manifest.json": 0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_pieces_end_with_their_lines(tmp_path: Path) -> None:
    made = NewArchive(tmp_path / "archive")
    line = b"x" * (ARCHIVE_PIECE_BYTES * 2 // 3) + b"\n"
    with made.file(PATH) as lines:
        for _ in range(3):
            lines.write(line)
    made.finish(msgspec.structs.replace(MANIFEST, files=made.files))
    assert list(checked(made.folder).pieces(PATH)) == [line * 2, line]


def with_file(folder: Path, packed: bytes, rows: int) -> Archive:
    """An archive whose digests are right, whatever is in its file."""
    made = NewArchive(folder)
    (folder / "usage").mkdir()
    (folder / PATH).write_bytes(packed)
    entry = ArchivedFile(PATH, len(packed), rows, hashlib.sha256(packed).hexdigest())
    made.finish(msgspec.structs.replace(MANIFEST, files=[entry]))
    return checked(folder)


def consume(archive: Archive, how: str) -> None:
    for _ in archive.lines(PATH) if how == "lines" else archive.pieces(PATH):
        pass


@pytest.mark.parametrize("how", ["lines", "pieces"])
def test_a_line_is_bounded(tmp_path: Path, how: str) -> None:
    longest = b"x" * (ARCHIVE_LINE_BYTES_MAX - 1) + b"\n"
    consume(with_file(tmp_path / "longest", gzip.compress(longest, 1), 1), how)
    more = b"x" * (ARCHIVE_LINE_BYTES_MAX + ARCHIVE_PIECE_BYTES + 1) + b"\n"
    damaged = with_file(tmp_path / "longer", gzip.compress(more, 1), 1)
    with pytest.raises(Unsuitable, match=r"has a line of over 16,777,216 bytes"):
        consume(damaged, how)


@pytest.mark.parametrize("how", ["lines", "pieces"])
def test_rows_are_as_many_as_the_manifest_says(tmp_path: Path, how: str) -> None:
    archive = with_file(tmp_path / "archive", gzip.compress(b"one\ntwo\n"), 3)
    with pytest.raises(Unsuitable, match=r"has 2 rows, and its manifest says 3"):
        consume(archive, how)


def test_a_head_is_no_row(tmp_path: Path) -> None:
    archive = with_file(tmp_path / "archive", gzip.compress(b"head\none\n"), 1)
    assert list(archive.lines(PATH, heads=1)) == [b"head\n", b"one\n"]


@pytest.mark.parametrize("harm", ["cut", "no gzip", "changed"])
def test_what_cannot_be_unpacked_is_damaged(tmp_path: Path, harm: str) -> None:
    whole = gzip.compress(b"one\ntwo\n" * 50)
    middle = bytes(byte ^ 0xFF for byte in whole[10:20])
    packed = {"cut": whole[:-9], "no gzip": b"one\n", "changed": whole[:10] + middle + whole[20:]}
    archive = with_file(tmp_path / "archive", packed[harm], 100)
    with pytest.raises(Unsuitable, match=r"events\.tsv\.gz cannot be unpacked"):
        consume(archive, "pieces")


def test_a_manifest_is_bounded(folder: Path) -> None:
    (folder / "manifest.json").write_bytes(b" " * (ARCHIVE_MANIFEST_BYTES_MAX + 1))
    with pytest.raises(Unsuitable, match=r"manifest\.json is damaged: it has over 4,194,304"):
        Archive(folder)


def test_a_file_that_is_written_again_has_what_came_last(tmp_path: Path) -> None:
    made = NewArchive(tmp_path / "archive")
    for text in (b"first and long\n", b"last\n"):
        with made.file(PATH) as lines:
            lines.write(text)
    made.finish(msgspec.structs.replace(MANIFEST, files=made.files))
    assert list(checked(made.folder).lines(PATH)) == [b"last\n"]


def test_a_folder_with_anything_in_it_is_refused(folder: Path) -> None:
    with pytest.raises(Unsuitable, match=r"is not empty: name a new folder"):
        NewArchive(folder)


def test_a_backup_that_was_broken_off_is_no_archive(folder: Path) -> None:
    (folder / "manifest.json").unlink()
    with pytest.raises(Unsuitable, match=r"is no archive: it has no manifest\.json"):
        Archive(folder)


@pytest.mark.parametrize("harm", ["changed", "longer", "cut"])
def test_a_file_that_differs_is_found(folder: Path, harm: str) -> None:
    file = folder / PATH
    whole = file.read_bytes()
    middle = len(whole) // 2
    harmed = {
        "changed": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
        "longer": whole + b"x",
        "cut": whole[:-1],
    }
    file.write_bytes(harmed[harm])
    with pytest.raises(Unsuitable, match=r"damaged: usage/events\.tsv\.gz is not what"):
        checked(folder)


def test_a_file_that_is_missing_is_found(folder: Path) -> None:
    (folder / PATH).unlink()
    with pytest.raises(Unsuitable, match=r"not whole: usage/events\.tsv\.gz is missing"):
        checked(folder)


@pytest.mark.parametrize("path", ["../secret.key", "/etc/passwd", "usage/a.b\n", "usage/..", "a b"])
def test_a_manifest_leads_to_no_other_place(folder: Path, path: str) -> None:
    named = [msgspec.structs.replace(one, path=path) for one in Archive(folder).manifest.files]
    text = msgspec.json.encode(msgspec.structs.replace(MANIFEST, files=named))
    (folder / "manifest.json").write_bytes(text)
    with pytest.raises(Unsuitable, match="which no archive has"):
        checked(folder)
