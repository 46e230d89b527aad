"""What answers say of events that are not kept any more, and which requests need them."""

from collections.abc import Sequence
from typing import Any, Final

from control.stores import Stores
from meterline.meter import Meter, answering, pieces
from meterline.problem import Fault, invalid
from meterline.usage import Notice, UsageQuery, complete_times_from, counted_from, kept_of
from meterline.window import MINUTE_MS, rfc3339

NOT_KEPT: Final = "not_kept"  # the rule that a request breaks


async def kept_from(stores: Stores, table: str, from_ms: int = 0) -> str | None:
    """Since when rows of a table are kept, by append time; None: all are since `from_ms`."""
    kept = kept_of(await stores.retention.notices())
    since_ms = kept[table].from_ms if table in kept else 0
    return rfc3339(since_ms) if since_ms > from_ms else None


async def with_kept(stores: Stores, table: str, page: dict[str, Any]) -> dict[str, Any]:
    """A page that says in its `meta` since when its entries are kept, where some are not."""
    since = await kept_from(stores, table)
    return page if since is None else {**page, "meta": {**page["meta"], "kept_from": since}}


async def check_events_kept(stores: Stores, from_ms: int, source: str) -> None:
    """Raise `Problem` where events of a span may not be kept any more."""
    from_kept_ms = complete_times_from(await stores.retention.notices())
    if from_ms < from_kept_ms:
        since = rfc3339(from_kept_ms)
        message = f"events before {since} are not kept any more; ask from {since} on"
        raise invalid(Fault("from", message, NOT_KEPT, source))


def cut_faults(notices: Sequence[Notice], query: UsageQuery, source: str) -> list[Fault]:
    """Bounds within a minute whose events are not kept any more: only whole minutes are counted."""
    from_kept_ms = complete_times_from(notices)
    return [
        Fault(
            name,
            f"events before {rfc3339(from_kept_ms)} are not kept any more; use a whole minute",
            NOT_KEPT,
            source,
        )
        for name, at_ms in (("from", query.from_ms), ("to", query.to_ms))
        if at_ms is not None and at_ms % MINUTE_MS and at_ms - at_ms % MINUTE_MS < from_kept_ms
    ]


def complete_from(
    notices: Sequence[Notice], meter: Meter, from_ms: int | None, to_ms: int | None
) -> int | None:
    """The instant before which usage of a span may lack events: they were not kept any more when
    the revision of the meter was made. None where it lacks none.
    """
    found = None
    for piece in pieces(meter, from_ms, to_ms):
        counted_ms = complete_times_from(notices, piece.meter.revision)
        begin_ms = max(piece.from_ms or 0, piece.meter.events_from_ms or 0)
        if begin_ms < counted_ms and (piece.to_ms is None or begin_ms < piece.to_ms):
            found = counted_ms if piece.to_ms is None else min(counted_ms, piece.to_ms)
    return found


async def check_counted(stores: Stores, meter: Meter, from_ms: int, to_ms: int) -> None:
    """Raise `Problem` where a meter could not count all events of a window."""
    notices = await stores.retention.notices()
    revisions = answering(meter, from_ms, to_ms)
    from_counted_ms = max(counted_from(notices, revision) for revision in revisions)
    if max(from_ms, meter.events_from_ms or 0) < from_counted_ms:
        since = rfc3339(from_counted_ms)
        message = (
            f"meter {meter.key} was made when events before {since} were not kept any more, so it"
            f" did not count them; ask from {since} on"
        )
        raise invalid(Fault("from", message, NOT_KEPT))
