"""The folder of chDB: definitions of tables that are damaged are made anew, new ones are synced.

chDB keeps a definition per table in `store/*/<database>/<table>.sql` and its rows in the folder
that `data/default/<table>` points to, which is named by the table's UUID. It does not sync these
files, and it takes no notice of a write that failed: after a power cut, or on a full disk, a
definition may be empty. With one of them it does not open the folder any more.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from meterline.backends.clickhouse.schema import definition, is_whole
from meterline.ports import Unsuitable

_DATABASE: Final = "default"
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FORMAT_FILE: Final = "format_version.txt"
_FORMAT: Final = b"1"  # of the parts of a table; the only one there is
_NOT_PARTS: Final = frozenset({"detached"})


def mend(folder: Path) -> list[str]:
    """Make the definitions anew that are damaged; the names of their tables. Call it before chDB
    opens the folder, which nobody else may have open.

    Raises `Unsuitable` where it cannot be known which rows a table had.
    """
    database = folder / "metadata" / _DATABASE
    if not database.is_dir():
        return []
    links = _links(folder)
    names = {path.stem for path in database.glob("*.sql")} | links.keys()
    damaged = [name for name in sorted(names) if not _is_whole(database / f"{name}.sql")]
    mended = [name for name in damaged if _mended(folder, database, name, links.get(name))]
    for uuid in links.values():
        _mend_format(_rows(folder, uuid))
    return mended


def sync(folder: Path) -> None:
    """Return when the definitions, and the names of all files beside them, are on disk."""
    for path in sorted((folder / "store").glob("*/*/*")):
        if path.suffix == ".sql" or path.name == _FORMAT_FILE:
            _sync(path)
    for path in (*_folders(folder), folder.parent):
        _sync(path)


def _folders(folder: Path) -> Iterator[Path]:
    yield from sorted((folder / "store").glob("*/*"))
    yield from sorted((folder / "store").glob("*"))
    yield from (folder / "data" / _DATABASE, folder / "data", folder / "metadata")
    yield from (folder / "store", folder)


def _links(folder: Path) -> dict[str, str]:
    """UUID by name of the table, from the symbolic links that lead to their rows."""
    links = {}
    for path in (folder / "data" / _DATABASE).glob("*"):
        if path.is_symlink() and _UUID.fullmatch(uuid := path.readlink().name):
            links[path.name] = uuid
    return links


def _is_whole(path: Path) -> bool:
    return path.is_file() and is_whole(path.read_bytes())


def _mended(folder: Path, database: Path, name: str, uuid: str | None) -> bool:
    """Whether the definition was made anew; one that never was complete is dropped."""
    path = database / f"{name}.sql"
    content = None
    if uuid is not None and (rows := _rows(folder, uuid)).is_dir():
        content = definition(name, uuid, [part.name for part in rows.iterdir()])
    elif uuid is not None:
        content = definition(name, uuid)
    if content is not None:
        _write(path, content)
        return True
    if uuid is None and not list(_rows_of_nobody(folder, database)):
        path.unlink(missing_ok=True)  # no row was ever written to it: it is made as if new
        _sync(database)
        return True
    if path.is_file():
        raise Unsuitable(
            f"the definition of the table {name} of the usage store is damaged ({path}), and it is"
            " not known which rows it had: restore the folder of the usage store from a backup"
        )
    return False  # a link of a table that is not ours


def _rows_of_nobody(folder: Path, database: Path) -> Iterator[Path]:
    """Folders of rows that no link leads to and no whole definition names."""
    owned = set(_links(folder).values()) | {database.resolve().name}
    for path in database.glob("*.sql"):
        owned.update(one[0] for one in _UUID.finditer(path.read_text("utf-8", "replace")))
    for path in (folder / "store").glob("*/*"):
        if path.name not in owned:
            yield from (
                one for one in path.iterdir() if one.is_dir() and one.name not in _NOT_PARTS
            )


def _rows(folder: Path, uuid: str) -> Path:
    return folder / "store" / uuid[:3] / uuid


def _mend_format(rows: Path) -> None:
    path = rows / _FORMAT_FILE
    if rows.is_dir() and (not path.is_file() or path.read_bytes() != _FORMAT):
        _write(path, _FORMAT)


def _write(path: Path, content: bytes) -> None:
    """The file has this content and is on disk, or it is as it was."""
    new = path.with_name(f"{path.name}.new")
    try:
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
