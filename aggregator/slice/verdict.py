"""Verdicts: what becomes of an event, by what was seen of its identity before
(docs/architecture.md, "Verdicts").
"""

from meterline.event import Verdict

Seen = tuple[int, int, bytes]  # position, append_ms, check of the latest new event with a key


def judged(
    earlier: Seen | None, position: int, append_ms: int, check: bytes, horizon_ms: int
) -> Verdict:
    """The verdict on a readable event at `position`.

    New: nothing earlier within the horizon, or what was seen is this very event, read again. The
    horizon is a distance of append times, so a replay in a year gives the same verdicts.
    """
    if earlier is None:
        return Verdict.NEW
    seen_position, seen_append_ms, seen_check = earlier
    if seen_position == position or append_ms - seen_append_ms > horizon_ms:
        return Verdict.NEW
    return Verdict.DUPLICATE if seen_check == check else Verdict.CONFLICT
