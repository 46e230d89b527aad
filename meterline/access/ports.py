"""The port of API keys and of the record of changes.

The rules of `meterline.ports` hold here too: what writes is durable when it returns and may be
repeated, and what the world does wrong is raised as `Unavailable`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from meterline.access.access import ApiKey, KeyUpdate
from meterline.access.change import COMMAND, Change, Kind


@dataclass(frozen=True, slots=True)
class Rotation:
    """A new secret for a key, by its hash; the one before stays good until `overlap_until_ms`."""

    secret_hash: bytes
    overlap_until_ms: int


class AccessStore(Protocol):
    """Keys, each of one namespace; those of another are not there. Revoked ones stay.

    Every change of a key makes a new version of all keys, and is recorded with its author.
    """

    async def create_key(self, key: ApiKey, *, author: str = COMMAND) -> None:
        """Keep a new key. Raises `Problem` (conflict) where the namespace, or all of them
        together, have as many as they may.
        """
        ...

    async def keys(self, namespace: str, limit: int, after: str | None = None) -> list[ApiKey]:
        """Keys by creation, after the id `after`; revoked and expired ones too."""
        ...

    async def key(self, namespace: str, key_id: str) -> ApiKey | None:
        """One key, also a revoked or expired one."""
        ...

    async def update_key(
        self, namespace: str, key_id: str, update: KeyUpdate, now_ms: int, *, author: str = COMMAND
    ) -> ApiKey:
        """Change what the update names. Raises `Problem`: not found, or conflict (revoked)."""
        ...

    async def rotate_key(
        self, namespace: str, key_id: str, rotation: Rotation, now_ms: int, *, author: str = COMMAND
    ) -> ApiKey:
        """Give the key a new secret. Raises `Problem`: not found, or conflict (revoked)."""
        ...

    async def revoke_key(
        self, namespace: str, key_id: str, now_ms: int, *, author: str = COMMAND
    ) -> ApiKey:
        """Revoke the key for good; one that is revoked stays so. Raises `Problem` (not found)."""
        ...

    async def keys_version(self) -> int:
        """The newest version; cheap, asked every second."""
        ...

    async def keys_changed(
        self, after: tuple[int, str], limit: int
    ) -> list[tuple[tuple[int, str], ApiKey]]:
        """Keys of all namespaces in order of their last change, each with its place (version, id),
        of those after the place `after`; (0, "") is before all.
        """
        ...

    async def note_used(self, used_at_ms: Mapping[str, int]) -> None:
        """By id, when a key was last used; goes forward only, makes no version and no change."""
        ...

    async def changes(
        self,
        namespace: str,
        limit: int,
        *,
        kind: Kind | None = None,
        subject_id: str | None = None,
        after: str | None = None,
    ) -> list[Change]:
        """Changes, newest first, of what is named, after the change with the id `after`."""
        ...
