"""TLS of a client whose certificates may be replaced while the process runs."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Self

import structlog

from meterline.runtime.connections.watched import Stamp, stamp

logger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files. `ca`: the authorities that are trusted; those of the machine if absent. `cert` and
    `key`: what the client shows of itself; `key` may be in the file of `cert`.
    """

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    def stamps(self) -> tuple[Stamp, ...]:
        """What differs once one of them was replaced. Raises `OSError`."""
        return tuple(stamp(path) for path in (self.ca, self.cert, self.key) if path is not None)


def made(files: TlsFiles) -> ssl.SSLContext:
    """A context as the files are now; certificate and host name of the server are verified.

    Raises `OSError`, of which `ssl.SSLError` is one, where a file is not what it should be.
    """
    context = ssl.create_default_context(cafile=files.ca)
    if files.cert is not None:
        # A key with a password would make the process ask for it on a terminal.
        context.load_cert_chain(files.cert, files.key, password=lambda: b"")
    return context


class FreshContext(ssl.SSLContext):
    """A context for clients that reads its files again when they were replaced. Any thread may use
    it. Connections that are open stay as they are.

    While the files do not fit each other (one of two is replaced already), the last ones are used.
    """

    def __new__(cls, files: TlsFiles) -> Self:
        """See `made` for what it raises."""
        del files
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._lock = Lock()
        self._stamps = files.stamps()
        self._newest = made(files)

    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        """As of the newest files."""
        return self._fresh().wrap_bio(*arguments, **named)

    def wrap_socket(self, *arguments: Any, **named: Any) -> ssl.SSLSocket:
        """As of the newest files."""
        return self._fresh().wrap_socket(*arguments, **named)

    def _fresh(self) -> ssl.SSLContext:
        with self._lock:
            try:
                stamps = self._files.stamps()
                if stamps != self._stamps:
                    self._newest = made(self._files)
                    self._stamps = stamps
                    logger.info("certificates_read", files=[str(it) for it in self._shown()])
            except OSError as error:
                logger.warning("certificates_wait", reason=str(error), files=self._shown())
            return self._newest

    def _shown(self) -> list[str]:
        files = self._files
        return [str(path) for path in (files.ca, files.cert, files.key) if path is not None]
