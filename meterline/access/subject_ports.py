"""The port of described subjects."""

from collections.abc import Sequence
from typing import Protocol

from meterline.access.change import COMMAND
from meterline.access.subject import Subject, SubjectDraft


class SubjectStore(Protocol):
    """Described subjects of each namespace; `author` as in `ports.CatalogueStore`."""

    async def upsert_subjects(
        self,
        namespace: str,
        drafts: Sequence[SubjectDraft],
        now_ms: int,
        *,
        author: str = COMMAND,
    ) -> list[Subject]:
        """Describe subjects, all or none: for each draft its subject, as it is after all of them.

        Those with a new key are made. Of drafts with one key the later ones come on top. One that
        changes nothing changes nothing. Raises `Problem` (conflict) where the namespace would have
        more subjects than it may have.
        """
        ...

    async def subjects(self, namespace: str) -> list[Subject]:
        """All subjects of a namespace by creation, those made at once by key."""
        ...

    async def subject(self, namespace: str, id_or_key: str) -> Subject | None:
        """A subject by id (wins) or key."""
        ...

    async def delete_subject(
        self, namespace: str, id_or_key: str, now_ms: int, *, author: str = COMMAND
    ) -> None:
        """Erase what was said of a subject; its usage stays. Raises `Problem` (not found)."""
        ...
