"""The verdict on an event: what becomes of it in the log (docs/architecture.md, "Verdicts")."""

from enum import StrEnum


class Verdict(StrEnum):
    """What becomes of an event; every event of the log has exactly one."""

    NEW = "new"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    INVALID = "invalid"
