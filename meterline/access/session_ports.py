"""The port of the console's sessions. The rules of `meterline.ports` hold here too."""

from typing import Protocol

from meterline.access.session import Session


class SessionStore(Protocol):
    """Sessions of all keys, by the hash of their token."""

    async def start_session(self, session: Session) -> None:
        """Keep a new session. Those that are over at its beginning go, and of more than
        `SESSIONS_PER_KEY_MAX` of its key the oldest.
        """
        ...

    async def session(self, token_hash: bytes) -> Session | None:
        """A session, also one that is over; None where it was ended or never was."""
        ...

    async def renew_session(self, token_hash: bytes, expires_at_ms: int) -> None:
        """Let a session end later; nothing where it was ended."""
        ...

    async def end_session(self, token_hash: bytes) -> None:
        """Forget a session; nothing where there is none."""
        ...
