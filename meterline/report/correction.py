"""Corrections: what a revision says otherwise than what its receiver was sent, entry by entry.

They are kept for every revision, sent or not. Values are scaled integers, so that a difference is
exact.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

Groups = tuple[tuple[str, str], ...]  # (key, value) by key


class Cause(StrEnum):
    """Why an entry is not what it was."""

    LATE_USAGE = "late_usage"  # events came for the window after it was reported
    FIRST_SEEN = "first_seen"  # the same, of a subject that had no delivery for the window
    FILTER = "filter"  # the entry does not pass the report's filter any more
    GONE = "gone"  # there is no usage any more
    METER_CHANGED = "meter_changed"  # another revision of the meter answers now
    REPORT_CHANGED = "report_changed"  # the report was grouped or filtered otherwise


@dataclass(frozen=True, slots=True)
class Correction:
    """One usage entry of one subject, as it was sent and as it is. None: there was or is no entry.

    `replaces` is the delivery that said the old value, or said that there is none: the newest of
    that subject and window. `replaced_digest` is the blake2b-256 of its bytes. Both are None for a
    subject that had none.
    """

    subject: str
    groups: Groups
    old: int | None
    new: int | None
    cause: Cause
    replaces: str | None = None
    replaced_digest: bytes | None = None

    def __post_init__(self) -> None:
        if self.old == self.new:
            message = f"nothing is corrected for {self.subject!r}: {self.old}"
            raise ValueError(message)

    @property
    def difference(self) -> int:
        """What to add to the old value; no entry counts as 0."""
        return (self.new or 0) - (self.old or 0)


@dataclass(frozen=True, slots=True)
class KeptCorrection:
    """A correction of a decided run, and its place there, from 1."""

    number: int
    correction: Correction


def digest_over(corrections: Iterable[Correction]) -> str:
    """One digest, in hex, over what is corrected: equal for the same corrections in one order,
    whatever their causes.
    """
    digest = CorrectionsDigest()
    for one in corrections:
        digest.add(one)
    return digest.hex()


class CorrectionsDigest:
    """The same, one correction after the other."""

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=32)

    def add(self, one: Correction) -> None:
        """The next one."""
        parts = [one.subject, str(len(one.groups)), *(text for pair in one.groups for text in pair)]
        parts += [str(one.old), str(one.new), one.replaces or ""]
        # Lengths before the parts, so that no two lists of parts give the same text.
        self._digest.update("".join(f"{len(part)}:{part}" for part in parts).encode())

    def hex(self) -> str:
        """That of those so far."""
        return self._digest.hexdigest()


NOTHING: Final = digest_over(())
