"""What the doctor finds, and the rules that say what is wrong (pure)."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"  # it works, and should be changed
    FAULT = "fault"  # it does not work


class Finding(NamedTuple):
    """One thing that was looked at. The text of what is wrong says what to do."""

    part: str
    level: Level
    text: str

    @property
    def line(self) -> str:
        """As it is printed."""
        return f"{self.level:<8} {self.part:<11} {self.text}"


# Versions that the tests run on. Older ones may do.
TESTED: Final = {"ClickHouse": (26, 7), "PostgreSQL": (18,)}

# What each role does with the topic of the log, beside looking at it.
TOPIC_RIGHTS: Final[Mapping[str, frozenset[str]]] = {
    "ingest": frozenset({"WRITE"}),
    "aggregate": frozenset({"READ", "WRITE"}),
    "dispatch": frozenset(),
    "control": frozenset({"READ", "WRITE"}),
}
_LOOKING: Final = frozenset({"DESCRIBE", "DESCRIBE_CONFIGS"})


def of_clock(part: str, theirs_ms: int, asked_ms: tuple[int, int], skew_ms: int) -> Finding:
    """Compare a server's clock, read between two instants of ours."""
    before_ms, after_ms = asked_ms
    ahead_ms = max(theirs_ms - after_ms, 0) or min(theirs_ms - before_ms, 0)
    if abs(ahead_ms) <= skew_ms:
        return Finding(part, Level.OK, f"its clock agrees within {skew_ms} ms")
    side = "ahead of" if ahead_ms > 0 else "behind"
    return Finding(
        part,
        Level.FAULT,
        f"its clock is {abs(ahead_ms)} ms {side} this machine's, and clock_skew_ms is {skew_ms}:"
        " synchronize both with NTP, or set clock_skew_ms to more in all processes",
    )


def of_version(part: str, found: str) -> Finding:
    """Compare a version with the tested one."""
    numbers = tuple(int(it) for it in found.split(".")[:2] if it.isdecimal())
    least = TESTED[part]
    if numbers >= least:
        return Finding(part, Level.OK, f"version {found}")
    shown = ".".join(map(str, least))
    text = (
        f"version {found} is older than {shown}, which is tested: upgrade it before you rely on it"
    )
    return Finding(part, Level.WARNING, text)


def of_topic_rights(part: str, topic: str, rights: frozenset[str], role: str | None) -> Finding:
    """What this user may not do with the topic of the log, and a role needs; all, without one."""
    grant = "add them with kafka-acls.sh"
    if role is None:
        missing = _LOOKING.union(*TOPIC_RIGHTS.values()) - rights
        if missing and not missing & _LOOKING:
            grant += ". Where this user is of one role, name it: --role"
        return of_rights(part, missing, f"topic {topic}", grant)
    if missing := (_LOOKING | TOPIC_RIGHTS[role]) - rights:
        return of_rights(part, missing, f"topic {topic}, which {role} needs", grant)
    return Finding(part, Level.OK, f"the user has the rights on topic {topic} that {role} needs")


def of_rights(part: str, missing: Iterable[str], what: str, grant: str) -> Finding:
    """What this user may not do, and needs to."""
    names = ", ".join(sorted(missing))
    if not names:
        return Finding(part, Level.OK, f"the user may read and write {what}")
    return Finding(part, Level.FAULT, f"the user may not {names} {what}: {grant}")
