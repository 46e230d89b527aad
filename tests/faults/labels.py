"""The steps at which a process may be told to kill or to freeze itself, and how it is told."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

TRAP_VARIABLE: Final = "METERLINE_TEST_TRAP"
WITHOUT_VARIABLE: Final = "METERLINE_TEST_WITHOUT"
SLICE_VARIABLE: Final = "METERLINE_TEST_SLICE_EVENTS"
DROPPED_MARK: Final = "tallies were acknowledged, and what they say dropped"
LEASE_VARIABLE: Final = "METERLINE_TEST_LEASE_S"


class Label(StrEnum):
    """A step, done: what is behind it is durable, what comes after it is not begun."""

    POLLED = "polled"  # Faust has brought a record
    EVENTS = "events inserted"
    HALF = "half of a block inserted"
    HALF_SEEN = "half of a block of first positions inserted"
    TALLIES = "tallies inserted"
    ACCOUNT = "account inserted"
    PROGRESS = "progress recorded"
    COUNTED_BACK = "slice counted back"
    SEALED = "seal row written"
    SEEN = "seen store written"
    COMMITTED = "offset committed"
    CLAIMED = "completeness claimed"
    FILLED = "slice filled in"

    BLOCK_BEGUN = "block recorded"
    BLOCK_TABLE = "a table of a block written"
    BLOCK_MADE = "all tables of a block written"
    BLOCK_READABLE = "block made readable"
    BLOCK_MERGED = "block put in the place of others"
    BLOCK_DROPPED = "rows of blocks dropped"

    ERASURE_COPIED = "rows of a subject copied"
    ERASURE_REDACTED = "payloads of a subject taken out"
    ERASURE_SWITCHED = "erasure switched"
    ERASURE_DELETED = "rows of a subject deleted"
    ERASURE_SETTLED = "erasure settled"

    STAGED = "run materialized"
    DECIDED = "run decided"
    SIGNED = "delivery signed"
    SENT = "delivery sent"
    RECORDED = "attempt recorded"


# By the greatest number of times that a process passes before it dies: some pass in every flush,
# some only once in a slice.
AGGREGATOR: Final[Mapping[Label, int]] = {
    Label.POLLED: 30,
    Label.EVENTS: 5,
    Label.HALF: 5,
    Label.HALF_SEEN: 5,
    Label.TALLIES: 5,
    Label.ACCOUNT: 5,
    Label.PROGRESS: 5,
    Label.COUNTED_BACK: 2,
    Label.SEALED: 2,
    Label.SEEN: 2,
    Label.COMMITTED: 2,
    Label.CLAIMED: 2,
    Label.BLOCK_BEGUN: 3,
    Label.BLOCK_TABLE: 20,
    Label.BLOCK_MADE: 3,
    Label.BLOCK_READABLE: 3,
    Label.BLOCK_MERGED: 1,
    Label.BLOCK_DROPPED: 1,
}
FILLING: Final = frozenset({Label.FILLED})  # passed only where a meter is made
ERASING: Final = (  # passed only where a subject is erased
    Label.ERASURE_COPIED,
    Label.ERASURE_REDACTED,
    Label.ERASURE_SWITCHED,
    Label.ERASURE_DELETED,
    Label.ERASURE_SETTLED,
)
DISPATCHER: Final[Mapping[Label, int]] = {
    Label.STAGED: 1,
    Label.DECIDED: 1,
    Label.SIGNED: 4,
    Label.SENT: 4,
    Label.RECORDED: 2,
}


class Act(StrEnum):
    """What a process does to itself."""

    KILL = "kill"  # SIGKILL
    FREEZE = "freeze"  # SIGSTOP


@dataclass(frozen=True, slots=True)
class Trap:
    """The `at`-th time that a process passes a label, it kills or freezes itself."""

    label: Label
    at: int
    act: Act = Act.KILL

    @property
    def environment(self) -> dict[str, str]:
        """What tells a process of it."""
        return {TRAP_VARIABLE: f"{self.label.name}:{self.at}:{self.act.name}"}

    @property
    def mark(self) -> str:
        """What a process says with its last breath."""
        return f"trap: {self.label.value}, time {self.at}"

    @classmethod
    def told(cls, environment: Mapping[str, str]) -> Self | None:
        """The trap that an environment tells of."""
        text = environment.get(TRAP_VARIABLE)
        if not text:
            return None
        label, at, act = text.split(":")
        return cls(Label[label], int(at), Act[act])


class Without(StrEnum):
    """A defence that a control run takes away, or a store that lies."""

    SEEN = "seen"  # no copy is recognised behind the border of its slice
    COUNT_BACK = "count-back"  # a slice is sealed unasked
    LOSSLESS_STORE = "lossless-store"  # what tallies of some slices say is dropped


def environment_without(*taken: Without) -> dict[str, str]:
    """What tells a process to do without."""
    return {WITHOUT_VARIABLE: ",".join(taken)}


def told_without(environment: Mapping[str, str]) -> frozenset[Without]:
    """What an environment takes away."""
    named = environment.get(WITHOUT_VARIABLE, "")
    return frozenset(Without(name) for name in named.split(",") if name)
