"""What can be set of retention: the types of those fields of `Settings`."""

from typing import Annotated, Final

from pydantic import AfterValidator, Field, ValidationInfo

from meterline.limits import SUPERSEDED_KEPT_MS
from meterline.window import DAY_MS

SUPERSEDED_DAYS_MIN: Final = SUPERSEDED_KEPT_MS // DAY_MS
# A window is decided after it ends, and may be revised for so long after that.
MINUTES_DAYS_MIN: Final = SUPERSEDED_DAYS_MIN + 2
DAYS_MAX: Final = 3_660  # ten years: beyond it a number was meant as something else


def _checked_events(days: int | None, info: ValidationInfo) -> int | None:
    """Events are needed as long as a repeated one is compared with the first, and as long as the
    log may bring them once more. Raises `ValueError`.
    """
    return _at_least(days, info, ("horizon_days", "log_retention_days"))


def _checked_refusals(days: int | None, info: ValidationInfo) -> int | None:
    """Raises `ValueError`."""
    return _at_least(days, info, ("log_retention_days",))


def _at_least(days: int | None, info: ValidationInfo, names: tuple[str, ...]) -> int | None:
    for name in names:
        least = info.data.get(name, 0)
        if days is not None and days < least:
            raise ValueError(f"must be at least {name} = {least}; leave it out to keep all")
    return days


LogRetentionDays = Annotated[
    int,
    Field(
        ge=1,
        le=DAYS_MAX,
        description="How long the log keeps records that are already counted. On Kafka a new topic "
        "gets it, and the topic decides. Change it to save disk.",
        examples=[7],
    ),
]
KeepEventsDays = Annotated[
    int | None,
    Field(
        ge=1,
        le=DAYS_MAX,
        description="How long raw events are kept after they were received; at least horizon_days "
        "and log_retention_days. For ever if absent. Usage is kept for ever; seals of slices are "
        "added up once their events are gone. Set it to save disk; "
        "what is not possible afterwards is in docs/operations.md.",
        examples=[400],
    ),
    AfterValidator(_checked_events),
]
KeepRefusalsDays = Annotated[
    int | None,
    Field(
        ge=1,
        le=DAYS_MAX,
        description="How long refused events are kept (duplicates, conflicts, unreadable ones); at "
        "least log_retention_days. For ever if absent. Set it to save disk.",
        examples=[90],
    ),
    AfterValidator(_checked_refusals),
]
KeepMinutesDays = Annotated[
    int | None,
    Field(
        ge=MINUTES_DAYS_MIN,
        le=DAYS_MAX,
        description="How long usage by minute is kept, by the time of usage; then it is told by "
        "hour and day. For ever if absent. Whole months go, and cannot be had back. Set it to save "
        "disk; what is refused afterwards is in docs/operations.md.",
        examples=[400],
    ),
]


def _checked_revised(days: int, info: ValidationInfo) -> int:
    kept = info.data.get("keep_minutes_days")
    if kept is not None and days > kept - 2:
        raise ValueError(f"must be at most keep_minutes_days - 2 = {kept - 2}: runs are revised")
    return days


RevisedDays = Annotated[int, AfterValidator(_checked_revised)]
KeepSupersededDays = Annotated[
    int | None,
    Field(
        ge=SUPERSEDED_DAYS_MIN,
        le=DAYS_MAX,
        description="How long the numbers of a superseded or discarded meter revision are kept "
        "after it ended. For ever if absent. Nothing shows them, but the disk holds them. Set it "
        "to save disk; two days after their notice they are gone.",
        examples=[400],
    ),
]
