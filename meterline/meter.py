"""Meters (contract section 2.3; peer-api.md 1.5): what is measured of which events, and their
revisions.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from meterline.limits import (
    DIMENSIONS_MAX,
    METER_DESCRIPTION_CHARS_MAX,
    METER_KEY_CHARS_MAX,
    METER_NAME_CHARS_MAX,
)
from meterline.path import PathError, compile_path
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


RESERVED_DIMENSIONS: Final = frozenset({"subject", "customer_id"})
_KEY: Final = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*")
_DIMENSION: Final = re.compile(r"[a-zA-Z_][0-9a-zA-Z_]*")


@dataclass(frozen=True, slots=True)
class Meter:
    """One revision of a meter.

    `revision` is the version of the catalogue that brought it in, so it is unique over all meters
    and names the meter in every row. `dimensions` are (name, path) pairs sorted by name.
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

    @property
    def dimension_names(self) -> tuple[str, ...]:
        """Names of the group-by keys, in the order in which rows hold their values."""
        return tuple(name for name, _ in self.dimensions)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The live meters at one version. Versions only grow."""

    version: int
    meters: tuple[Meter, ...]


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


def faults_of(draft: MeterDraft) -> list[Fault]:
    """All that is wrong with a definition, by the rules of peer-api.md 1.5; fields by their v3
    names.
    """
    faults = _text_faults(draft)
    counts = draft.aggregation is Aggregation.COUNT
    if counts and draft.value_property is not None:
        faults.append(Fault("value_property", "a count has no value_property; leave it out"))
    if not counts and draft.value_property is None:
        reason = f"{draft.aggregation} needs a JSON path to the value, such as $.tokens"
        faults.append(Fault("value_property", reason, rule="required"))
    if draft.value_property is not None:
        faults += _path_faults("value_property", draft.value_property)
    if len(draft.dimensions) > DIMENSIONS_MAX:
        faults.append(Fault("dimensions", f"at most {DIMENSIONS_MAX} dimensions", rule="max_items"))
    for name, path in draft.dimensions:
        faults += _dimension_faults(draft, name, path)
    return faults


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
        compile_path(path)
    except PathError as error:
        return [Fault(field, str(error))]
    return []


def _dimension_faults(draft: MeterDraft, name: str, path: str) -> list[Fault]:
    field = f"dimensions.{name}"
    if name in RESERVED_DIMENSIONS:
        return [Fault(field, f"{name} is a reserved name", rule="reserved_dimension")]
    if not _DIMENSION.fullmatch(name):
        reason = "a name starts with a letter or _ and holds letters, digits and _"
        return [Fault(field, reason, rule="matches_regex")]
    if path == draft.value_property:
        return [Fault(field, "a dimension cannot be the value itself")]
    return _path_faults(field, path)
