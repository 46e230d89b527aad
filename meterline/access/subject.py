"""Subjects (OpenMeter's v1): what someone says of those whose usage is metered.

Usage needs none of it: an event may name any subject. A description adds a name for people, and
whatever its owner wants to find again.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Literal, TypeVar


class Kept(Enum):
    """A member that an upsert does not speak of."""

    KEPT = "kept"


KEPT: Final = Kept.KEPT
_Keep = Literal[Kept.KEPT]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject as described. `key` is the `subject` of its events; `metadata` is the text of a
    JSON object.
    """

    id: str
    namespace: str
    key: str
    created_at_ms: int
    updated_at_ms: int
    display_name: str | None = None
    metadata: str | None = None
    current_period_start_ms: int | None = None
    current_period_end_ms: int | None = None
    stripe_customer_id: str | None = None


@dataclass(frozen=True, slots=True)
class SubjectDraft:
    """What an upsert says. None takes away what was said before; `KEPT` leaves it."""

    key: str
    display_name: str | _Keep | None = KEPT
    metadata: str | _Keep | None = KEPT
    current_period_start_ms: int | _Keep | None = KEPT
    current_period_end_ms: int | _Keep | None = KEPT
    stripe_customer_id: str | _Keep | None = KEPT


def described(subject: Subject, draft: SubjectDraft) -> Subject:
    """The subject as the draft describes it, its instants as they are."""
    return replace(
        subject,
        display_name=_given(draft.display_name, subject.display_name),
        metadata=_given(draft.metadata, subject.metadata),
        current_period_start_ms=_given(
            draft.current_period_start_ms, subject.current_period_start_ms
        ),
        current_period_end_ms=_given(draft.current_period_end_ms, subject.current_period_end_ms),
        stripe_customer_id=_given(draft.stripe_customer_id, subject.stripe_customer_id),
    )


def _given(asked: _T | _Keep, there: _T) -> _T:
    return there if asked is KEPT else asked
