"""Files that are replaced while the process runs: passwords, tokens, certificates."""

import os
from errno import ENAMETOOLONG, ENOENT, ENOTDIR
from pathlib import Path
from threading import Lock
from typing import Final

import structlog

logger = structlog.get_logger()
SECRET_BYTES_MAX: Final = 64 * 1_024  # of a password or a token
_PARTS_MIN: Final = 3  # a text with fewer slashes is below a folder by chance
_NO_PATH: Final = frozenset({ENOENT, ENOTDIR, ENAMETOOLONG})
_NO_FILE: Final = (
    "names no file that is there. Write the path of a file, not the secret. The value is not shown:"
    " it may be the secret"
)
Stamp = tuple[int, int, int]


def stamp(path: Path) -> Stamp:
    """What differs once a file was replaced or written to. Raises `OSError`."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def is_place(path: Path) -> bool:
    """Whether it is below a folder that is there. What is not may be the secret itself, written
    where its file belongs: it is not shown.
    """
    if len(path.parts) < _PARTS_MIN or ".." in path.parts:
        return False
    try:
        return path.parent.is_dir()
    except (OSError, ValueError):  # it is too long for a path
        return False


def read_secret(path: Path) -> str:
    """The first line of a file. Raises `ValueError` with words where there is none."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(SECRET_BYTES_MAX)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text") from error
    except (OSError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) else ENOENT
        shown = str(path) if is_place(path) else "the file"
        if number in _NO_PATH and not is_place(path):
            raise ValueError(_NO_FILE) from None
        raise ValueError(f"{shown} cannot be read: {os.strerror(number or 0)}") from None
    secret = text.split("\n", 1)[0].strip()
    if not secret:
        raise ValueError(f"{path} is empty")
    return secret


class SecretFile:
    """A password or a token in a file, as it is now: call it for the text. Any thread may.

    While the file cannot be read, the text is the last one; a line of the log tells it.
    """

    def __init__(self, path: Path) -> None:
        """Raises `ValueError` with words where there is nothing to read."""
        self._path = path
        self._lock = Lock()
        self._stamp: Stamp | None = None
        self._text = read_secret(path)
        self._warned = False

    def __call__(self) -> str:
        """The text. It looks at the file each time, and reads it when it was replaced."""
        with self._lock:
            try:
                now = stamp(self._path)
                if now != self._stamp:
                    self._text = read_secret(self._path)
                    self._stamp = now
                self._warned = False
            except (OSError, ValueError) as error:
                if not self._warned:
                    logger.warning("secret_file", reason=str(error), goes_on_with="the last one")
                self._warned = True
            return self._text
