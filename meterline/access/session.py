"""Sessions of the console: what a browser has after somebody signed in with a key.

The browser keeps a token in a cookie: `<id of the key>_<32 random bytes>_<tag>`. It holds nothing
of the key's secret. The tag is an HMAC under the hash of that secret, so a made-up token is refused
without asking the store, and a rotated secret ends its sessions when its overlap ends. The store
keeps a hash of the token; without its row a token is worth nothing, so signing out is final.
"""

import hashlib
import hmac
import re
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field, replace
from typing import Final

from meterline.access.access import SECRET_BYTES, ApiKey, Verdict, verdict_by
from meterline.limits import SESSION_S, SESSION_WHOLE_S

_TOKEN: Final = re.compile(
    r"([0-7][0-9A-HJKMNP-TV-Z]{25})_([A-Za-z0-9_-]{43})_([A-Za-z0-9_-]{43})", re.ASCII
)


@dataclass(frozen=True, slots=True)
class SessionToken:
    """What the cookie holds; no `repr` tells its secrets."""

    key_id: str
    random: str = field(repr=False)
    tag: str = field(repr=False)

    @property
    def text(self) -> str:
        """As it is sent."""
        return f"{self.key_id}_{self.random}_{self.tag}"

    @property
    def digest(self) -> bytes:
        """What is kept of it."""
        return hashlib.sha256(self.text.encode()).digest()


@dataclass(frozen=True, slots=True)
class Session:
    """A session as it is kept."""

    token_hash: bytes = field(repr=False)
    key_id: str
    created_at_ms: int
    expires_at_ms: int

    @property
    def renewable_until_ms(self) -> int:
        """No renewal goes beyond this."""
        return self.created_at_ms + SESSION_WHOLE_S * 1_000

    def is_over(self, now_ms: int) -> bool:
        """Whether it has ended by time."""
        return self.expires_at_ms <= now_ms

    def renewed(self, now_ms: int) -> "Session":
        """The session, good for its whole time from now on, but not beyond its last end."""
        until_ms = min(now_ms + SESSION_S * 1_000, self.renewable_until_ms)
        return replace(self, expires_at_ms=max(self.expires_at_ms, until_ms))


def session_token(key: ApiKey, random: bytes) -> SessionToken:
    """The token of a new session of a key, from 32 random bytes."""
    assert len(random) == SECRET_BYTES, "less could be guessed"
    text = _base64(random)
    return SessionToken(key.id, text, _tag(key.secret_hash, key.id, text))


def parse_session_token(text: str) -> SessionToken | None:
    """A token as it was given out; None for anything else."""
    found = _TOKEN.fullmatch(text)
    return SessionToken(found[1], found[2], found[3]) if found else None


def new_session(token: SessionToken, now_ms: int) -> Session:
    """The session that begins with this token."""
    return Session(token.digest, token.key_id, now_ms, now_ms + SESSION_S * 1_000)


def session_verdict(key: ApiKey | None, token: SessionToken, now_ms: int) -> Verdict:
    """Judge a token of a session against the key of its id, as a token of the key itself."""

    def made_under(secret_hash: bytes) -> bool:
        return hmac.compare_digest(token.tag, _tag(secret_hash, token.key_id, token.random))

    return verdict_by(key, made_under, now_ms)


def _tag(secret_hash: bytes, key_id: str, random: str) -> str:
    return _base64(hmac.digest(secret_hash, f"session:{key_id}:{random}".encode(), "sha256"))


def _base64(found: bytes) -> str:
    return urlsafe_b64encode(found).rstrip(b"=").decode()
