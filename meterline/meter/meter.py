"""Meters (contract section 2.3; OpenMeter's v3): what is measured of which events, and their
revisions.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, TypeVar

from meterline.event import PathError, check_path
from meterline.limits import (
    DIMENSIONS_MAX,
    EVENT_TIME_MAX_MS,
    EVENT_TIME_MIN_MS,
    METER_DESCRIPTION_CHARS_MAX,
    METER_KEY_CHARS_MAX,
    METER_NAME_CHARS_MAX,
)
from meterline.problem import Fault


class Aggregation(StrEnum):
    """How the values of a window become one; spelled in v3 as here, in v1 and deliveries in
    capitals.
    """

    SUM = "sum"
    COUNT = "count"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    UNIQUE_COUNT = "unique_count"
    LATEST = "latest"


class RevisionState(StrEnum):
    """Where a revision of a meter stands."""

    PROPOSED = "proposed"  # filled in, to be compared; switched when somebody says so
    FILLING = "filling"  # switched by itself, once it is filled in
    IN_FORCE = "in_force"  # answers, from its first instant on: one of each meter
    EARLIER = "earlier"  # answers windows before the first instant of a later one
    SUPERSEDED = "superseded"
    DISCARDED = "discarded"


RESERVED_DIMENSIONS: Final = frozenset({"subject", "customer_id"})
_TEXTS: Final = frozenset({"name", "description", "labels"})
KEY_PATTERN: Final = "[a-z0-9]+(?:_[a-z0-9]+)*"
DIMENSION_PATTERN: Final = "[a-zA-Z_][0-9a-zA-Z_]*"
_KEY: Final = re.compile(KEY_PATTERN)
_DIMENSION: Final = re.compile(DIMENSION_PATTERN)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Meter:
    """One revision of a meter, with those that answer before it.

    `revision` is the version of the catalogue that brought it in, so it is unique over all meters
    and names the meter in every row. `dimensions` are (name, path) pairs sorted by name. Windows
    from `effective_from_ms` on, a whole minute, are its own; what was earlier is answered by
    `before`. Both are None where it answers for all times. Before it is switched, both are None.
    """

    id: str
    revision: int
    namespace: str
    key: str
    name: str
    description: str
    aggregation: Aggregation
    event_type: str
    value_property: str | None
    dimensions: tuple[tuple[str, str], ...]
    created_at_ms: int
    updated_at_ms: int
    from_settings: bool = False
    events_from_ms: int | None = None
    labels: tuple[tuple[str, str], ...] = ()
    deleted_at_ms: int | None = None
    state: RevisionState = RevisionState.IN_FORCE
    effective_from_ms: int | None = None
    before: "Meter | None" = None

    @property
    def dimension_names(self) -> tuple[str, ...]:
        """Names of the group-by keys, in the order in which rows hold their values."""
        return tuple(name for name, _ in self.dimensions)

    @property
    def counts_from_ms(self) -> int:
        """The first time of those that events can have from which on it counts them."""
        first_ms = EVENT_TIME_MIN_MS if self.events_from_ms is None else self.events_from_ms
        return min(max(first_ms, EVENT_TIME_MIN_MS), EVENT_TIME_MAX_MS)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Every revision of a live meter that events are folded for, at one version, in order of
    revision: each for events of all times. Versions only grow.

    Other words of a meter (name, description, labels) make no version: nothing is measured anew.
    """

    version: int
    meters: tuple[Meter, ...]

    @property
    def in_force(self) -> tuple[Meter, ...]:
        """One of each meter: what is asked, with its `before`s."""
        return tuple(meter for meter in self.meters if meter.state is RevisionState.IN_FORCE)

    @property
    def newest(self) -> int:
        """The newest revision of all, 0 without meters. What waits to be in force is among them."""
        return max((meter.revision for meter in self.meters), default=0)


@dataclass(frozen=True, slots=True)
class ListedMeter:
    """What a list of meters is searched and sorted by: there may be very many."""

    id: str
    key: str
    name: str
    aggregation: Aggregation
    created_at_ms: int
    updated_at_ms: int


@dataclass(frozen=True, slots=True)
class NewestRevisions:
    """What a catalogue says of its revisions, without the meters: 0 where it has none."""

    version: int
    newest: int
    in_force: int


class FoldedRevisions(NamedTuple):
    """The version of a catalogue, and the numbers of its revisions, ascending."""

    version: int
    revisions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MeterDraft:
    """A meter as someone defines it, not yet judged."""

    key: str
    name: str
    aggregation: Aggregation
    event_type: str
    value_property: str | None = None
    description: str = ""
    dimensions: tuple[tuple[str, str], ...] = ()
    events_from_ms: int | None = None
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class MeterChange:
    """What an update gives anew. None: it stays as it is; `()` and `""` empty it.

    A meter keeps its key, its aggregation and the instant from which it counts. Where what is
    measured changes, `effective_from_ms` is the first instant of the new revision.
    """

    name: str | None = None
    description: str | None = None
    labels: tuple[tuple[str, str], ...] | None = None
    event_type: str | None = None
    value_property: str | None = None
    dimensions: tuple[tuple[str, str], ...] | None = None
    effective_from_ms: int | None = None


def changed(meter: Meter, change: MeterChange) -> MeterDraft:
    """The definition that an update asks for, not yet judged."""
    return MeterDraft(
        key=meter.key,
        name=_given(change.name, meter.name),
        aggregation=meter.aggregation,
        event_type=_given(change.event_type, meter.event_type),
        value_property=_given(change.value_property, meter.value_property),
        description=_given(change.description, meter.description),
        dimensions=tuple(sorted(_given(change.dimensions, meter.dimensions))),
        events_from_ms=meter.events_from_ms,
        labels=tuple(sorted(_given(change.labels, meter.labels))),
    )


def differences(meter: Meter, draft: MeterDraft) -> tuple[str, ...]:
    """Members, by their v3 names, in which a definition differs from a meter."""
    return tuple(
        name
        for name, own, asked in (
            ("name", meter.name, draft.name),
            ("description", meter.description, draft.description),
            ("labels", sorted(meter.labels), sorted(draft.labels)),
            ("aggregation", meter.aggregation, draft.aggregation),
            ("event_type", meter.event_type, draft.event_type),
            ("value_property", meter.value_property, draft.value_property),
            ("dimensions", sorted(meter.dimensions), sorted(draft.dimensions)),
            ("events_from", meter.events_from_ms, draft.events_from_ms),
        )
        if own != asked
    )


def measures_alike(differing: tuple[str, ...]) -> bool:
    """Whether a meter that differs in these members measures as before: then no new revision."""
    return _TEXTS.issuperset(differing)


def faults_of(draft: MeterDraft) -> list[Fault]:
    """All that is wrong with a definition, by the rules of OpenMeter's v3; fields by their v3
    names.
    """
    faults = _text_faults(draft)
    if draft.value_property is not None:
        faults += _path_faults("value_property", draft.value_property)
    if len(draft.dimensions) > DIMENSIONS_MAX:
        faults.append(Fault("dimensions", f"at most {DIMENSIONS_MAX} dimensions", rule="max_items"))
    for name, path in draft.dimensions:
        faults += _dimension_faults(name, path)
    return faults + disagreements(draft.aggregation, draft.value_property, draft.dimensions)


def disagreements(
    aggregation: Aggregation, value_property: str | None, dimensions: Iterable[tuple[str, str]]
) -> list[Fault]:
    """What is wrong between members that may each be right by themselves; by their v3 names."""
    faults = []
    counts = aggregation is Aggregation.COUNT
    if counts and value_property is not None:
        reason = "a count has no value_property; leave it out"
        faults.append(Fault("value_property", reason, rule="disagreement"))
    if not counts and value_property is None:
        reason = f"{aggregation} needs a JSON path to the value, such as $.tokens"
        faults.append(Fault("value_property", reason, rule="required"))
    faults += [
        Fault(f"dimensions.{name}", "a dimension cannot be the value itself", rule="disagreement")
        for name, path in dimensions
        if path == value_property
    ]
    return faults


def dimension_fault(name: str) -> tuple[str, str] | None:
    """Why a text cannot be the name of a dimension, and by which rule; None where it can."""
    if name in RESERVED_DIMENSIONS:
        return f"{name} is a reserved name", "reserved_dimension"
    if not _DIMENSION.fullmatch(name):
        return "a name starts with a letter or _ and holds letters, digits and _", "matches_regex"
    return None


def _given(asked: _T | None, there: _T) -> _T:
    return there if asked is None else asked


def _text_faults(draft: MeterDraft) -> list[Fault]:
    faults: list[Fault] = []
    if not _KEY.fullmatch(draft.key) or len(draft.key) > METER_KEY_CHARS_MAX:
        reason = f"1 to {METER_KEY_CHARS_MAX} of a-z, 0-9 and single inner underscores"
        faults.append(Fault("key", reason, rule="matches_regex"))
    if not 1 <= len(draft.name) <= METER_NAME_CHARS_MAX:
        faults.append(Fault("name", f"1 to {METER_NAME_CHARS_MAX} characters", rule="max_length"))
    if len(draft.description) > METER_DESCRIPTION_CHARS_MAX:
        reason = f"at most {METER_DESCRIPTION_CHARS_MAX} characters"
        faults.append(Fault("description", reason, rule="max_length"))
    if not draft.event_type:
        faults.append(Fault("event_type", "must not be empty", rule="min_length"))
    return faults


def _path_faults(field: str, path: str) -> list[Fault]:
    try:
        check_path(path)
    except PathError as error:
        return [Fault(field, str(error), rule="json_path")]
    return []


def _dimension_faults(name: str, path: str) -> list[Fault]:
    field = f"dimensions.{name}"
    if (fault := dimension_fault(name)) is not None:
        return [Fault(field, *fault)]
    return _path_faults(field, path)
