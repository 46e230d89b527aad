"""Meters: which events and values they count, their revisions, what an event adds to a tally."""

from meterline.meter.measure import (
    Measure,
    Measures,
    decode_groups,
    encode_groups,
    measures_of,
    member_of,
)
from meterline.meter.meter import (
    DIMENSION_PATTERN,
    KEY_PATTERN,
    RESERVED_DIMENSIONS,
    Aggregation,
    Catalogue,
    FoldedRevisions,
    ListedMeter,
    Meter,
    MeterChange,
    MeterDraft,
    NewestRevisions,
    RevisionState,
    changed,
    differences,
    dimension_fault,
    disagreements,
    faults_of,
    measures_alike,
)
from meterline.meter.outcome import (
    BEFORE_START,
    Difference,
    Judges,
    Outcome,
    conflicting_members,
    outcomes,
)
from meterline.meter.ports import CatalogueStore, RevisionStore
from meterline.meter.revision import (
    PENDING,
    MeterRevision,
    RevisionMove,
    answering,
    dimensions_ever,
    instant_fault,
    needed,
    pieces,
    revision_at,
    revision_sources,
    revision_target,
    switched,
    timeline,
    unneeded,
)
from meterline.meter.tally import EMPTY, Aggregate, Cell, Latest, Tally, aggregate_of, merged
