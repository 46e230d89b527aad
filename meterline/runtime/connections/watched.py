"""Files that are replaced while the process runs: passwords, tokens, certificates."""

import os
from pathlib import Path
from threading import Lock
from typing import Final

import structlog

logger = structlog.get_logger()
SECRET_BYTES_MAX: Final = 64 * 1_024  # of a password or a token
Stamp = tuple[int, int, int]


def stamp(path: Path) -> Stamp:
    """What differs once a file was replaced or written to. Raises `OSError`."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def read_secret(path: Path) -> str:
    """The first line of a file. Raises `ValueError` with words where there is none."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(SECRET_BYTES_MAX)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text") from error
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {os.strerror(error.errno or 0)}") from error
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
