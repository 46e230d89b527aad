"""Revisions of meters as API v3 shows them."""

from typing import Annotated, Any, Final, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from control.shapes.optional_members import Maybe, instant, present
from control.shapes.pages import CursorMetaShown, cursors, page_shape
from meterline.http.shapes import DecimalShown, InstantShown
from meterline.limits import REVISION_SLICES_COUNTED_MAX
from meterline.meter import MeterRevision, RevisionState
from meterline.window import rfc3339


class RevisionProgressShown(TypedDict):
    """How far a revision is filled in."""

    complete_until: Annotated[
        InstantShown | None,
        Field(description="Of what was received until then nothing is missing; null: not yet."),
    ]
    slices_left: Annotated[
        int,
        Field(
            ge=0,
            description="Slices of the log to be filled in; counted up to "
            f"{REVISION_SLICES_COUNTED_MAX} a partition.",
        ),
    ]


class MeterRevisionShown(TypedDict):
    """A revision of a meter: what it measures, and when it does. What it does not have is left out.

    `state` is `proposed` (waits to be compared), `filling` (takes over once it is filled in),
    `in_force`, `earlier` (answers what was before the first instant of another), `superseded` or
    `discarded`.
    """

    revision: Annotated[int, Field(description="Its number; numbers of one meter ascend.")]
    state: RevisionState
    event_type: str
    value_property: NotRequired[Maybe[str]]
    dimensions: Annotated[dict[str, str], Field(description="Names, and JSON paths into `data`.")]
    effective_from: NotRequired[
        Annotated[Maybe[InstantShown], Field(description="Its first instant, as it was asked for.")]
    ]
    before: NotRequired[
        Annotated[
            Maybe[int], Field(description="Number of the revision that answers what is earlier.")
        ]
    ]
    counted: Annotated[
        bool, Field(description="Whether events are counted in it, so that it can be compared.")
    ]
    progress: NotRequired[
        Annotated[Maybe[RevisionProgressShown], Field(description="Where one revision is shown.")]
    ]
    created_at: InstantShown
    switched_at: NotRequired[Maybe[InstantShown]]
    ended_at: NotRequired[
        Annotated[Maybe[InstantShown], Field(description="When it was superseded or discarded.")]
    ]
    not_kept_since: NotRequired[
        Annotated[
            Maybe[InstantShown],
            Field(description="Since when its numbers are not kept any more; absent: they are."),
        ]
    ]


REVISION_PAGE: Final = page_shape(
    "MeterRevisionPageShown", MeterRevisionShown, "A page of revisions, the newest first."
)


class SubjectDifferenceShown(TypedDict):
    """One subject in the revision in force (before) and in the other (after). A value is null where
    nothing counted.
    """

    subject: str
    value_before: DecimalShown | None
    value_after: DecimalShown | None
    difference: Annotated[
        DecimalShown, Field(description="value_after - value_before; nothing is 0 here.")
    ]
    counted_before: Annotated[int, Field(ge=0)]
    counted_after: Annotated[int, Field(ge=0)]
    rejected_before: Annotated[int, Field(ge=0)]
    rejected_after: Annotated[int, Field(ge=0)]


class ComparisonShown(TypedDict):
    """A page of what two revisions make of the same events, by subject."""

    revision: Annotated[int, Field(description="The one that is compared.")]
    in_force: Annotated[int, Field(description="The one in force, with those of before it.")]
    progress: RevisionProgressShown
    subjects: Annotated[int, Field(ge=0, description="Subjects that either of them has.")]
    differing: Annotated[int, Field(ge=0, description="Those of them that differ.")]
    data: list[SubjectDifferenceShown]
    meta: CursorMetaShown


REVISION_EXAMPLE: Final[Any] = {
    "revision": 7,
    "state": "proposed",
    "event_type": "prompt",
    "value_property": "$.tokens_billed",
    "dimensions": {"model": "$.model"},
    "counted": True,
    "progress": {"complete_until": None, "slices_left": 12},
    "created_at": "2026-01-31T10:00:00Z",
}
COMPARISON_EXAMPLE: Final[Any] = {
    "revision": 7,
    "in_force": 3,
    "progress": {"complete_until": "2026-01-31T18:27:37.218Z", "slices_left": 0},
    "subjects": 412,
    "differing": 1,
    "data": [
        {
            "subject": "customer-1",
            "value_before": "1234.5",
            "value_after": "1230.5",
            "difference": "-4",
            "counted_before": 17,
            "counted_after": 16,
            "rejected_before": 0,
            "rejected_after": 1,
        }
    ],
    "meta": cursors(20, ["customer-1"], more=False),
}


def revision_shown(
    one: MeterRevision, progress: RevisionProgressShown | None = None
) -> MeterRevisionShown:
    """A revision as v3 shows it."""
    meter = one.meter
    shown: MeterRevisionShown = {
        "revision": one.number,
        "state": one.state,
        "event_type": meter.event_type,
        "value_property": meter.value_property,
        "dimensions": dict(meter.dimensions),
        "effective_from": instant(one.effective_from_ms),
        "before": one.before,
        "counted": one.folded,
        "progress": progress,
        "created_at": rfc3339(one.made_at_ms),
        "switched_at": instant(one.switched_at_ms),
        "ended_at": instant(one.ended_at_ms),
        "not_kept_since": instant(one.not_kept_since_ms),
    }
    return present(shown)
