"""Lists of deliveries: which ones are asked for, and where in a list a page or a replay stands."""

from dataclasses import dataclass

from meterline.delivery.delivery import DeliveryState


@dataclass(frozen=True, slots=True)
class DeliveryPlace:
    """The place of a delivery in lists: runs by their decision, the newest first, and within a run
    by number.
    """

    decided_at_ms: int
    run_id: str
    number: int


@dataclass(frozen=True, slots=True)
class DeliveryQuery:
    """Which deliveries are asked for: all conditions hold at once; None asks for nothing.

    `from_min_ms` and `to_max_ms` bound the windows of their runs: those within are meant.
    `failed_since_ms` asks for those that failed then or later, `decided_max_ms` for those of runs
    that were decided by then.
    """

    report_id: str | None = None
    run_id: str | None = None
    subject: str | None = None
    states: tuple[DeliveryState, ...] = ()  # none: whatever their state
    from_min_ms: int | None = None
    to_max_ms: int | None = None
    failed_since_ms: int | None = None
    decided_max_ms: int | None = None
