"""SecretBox: Fernet of `cryptography` under a key from the settings, or from a file that is
made once.
"""

import base64
import hashlib
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Final
from uuid import uuid4

from cryptography.fernet import Fernet, InvalidToken

from meterline import limits

KEY_FILE: Final = "secret.key"
KEY_CHARS_MIN: Final = 32
_KEY_BYTES: Final = 32
_KEY_TEXT: Final = re.compile(rb"[!-~]{%d,}" % KEY_CHARS_MIN)


class FernetSecretBox:
    """See `meterline.delivery.SecretBox`. The key is any text that is hard to guess."""

    def __init__(self, key: str) -> None:
        # A text of any form becomes a key of Fernet's; the person keeps it apart from other
        # uses of the text.
        digest = hashlib.blake2b(key.encode(), digest_size=_KEY_BYTES, person=b"meterline-secret")
        self._fernet = Fernet(base64.urlsafe_b64encode(digest.digest()))
        # A report's secret signs each of its deliveries. Whoever reads this memory finds the key.
        self._decrypted = lru_cache(limits.SECRETS_OPENED_MAX)(self._fernet.decrypt)

    def seal(self, plain: str) -> bytes:
        """See the port."""
        return self._fernet.encrypt(plain.encode())

    def opens(self, sealed: bytes) -> bool:
        """Whether something was sealed under this key."""
        try:
            self._decrypted(sealed)
        except InvalidToken:
            return False
        return True

    def open(self, sealed: bytes) -> str:
        """See the port."""
        try:
            return self._decrypted(sealed).decode()
        except InvalidToken as error:
            message = "sealed under another key: is secret_key, or the key file, the one of before?"
            raise ValueError(message) from error


def key_in_file(folder: Path, *, may_make: bool = True) -> str:
    """The key in a folder's key file, made at the first call and readable by its owner only.

    Raises `OSError` where it cannot be read or made, and `ValueError` with words for one that is
    damaged, or gone where none may be made.
    """
    path = folder / KEY_FILE
    if not path.exists():
        if not may_make:
            message = f"{path} is gone, and secrets of reports are sealed under the key in it"
            raise ValueError(message)
        _make(path)
    key = path.read_bytes().strip()
    if not _KEY_TEXT.fullmatch(key):
        message = (
            f"{path} is damaged: it must hold at least {KEY_CHARS_MIN} printable ASCII characters"
            " in one line. Restore it from the backup: what is sealed under the old key cannot be"
            " read with another one. If no report was ever made, remove the file"
        )
        raise ValueError(message)
    return key.decode("ascii")


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{uuid4().hex}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(base64.urlsafe_b64encode(os.urandom(_KEY_BYTES)) + b"\n")
        file.flush()
        os.fsync(file.fileno())  # what is sealed under it must not outlive it
    try:
        os.link(fresh, path)  # whole or not at all; of two processes the first wins
    except FileExistsError:
        return
    finally:
        fresh.unlink()
