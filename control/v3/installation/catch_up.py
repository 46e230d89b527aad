"""How far a partition is that a worker is about to take on, and when that should end."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from control.shapes.optional_members import instant
from meterline.http.shapes import InstantShown
from meterline.limits import CATCH_UP_STALE_MS
from meterline.usage import CatchingUp


class CatchUpShown(TypedDict):
    """A worker has taken the partition over without the keys of earlier events. It counts when it
    has them.
    """

    keys: Annotated[int, Field(ge=0, description="Keys that it has.")]
    keys_total: Annotated[int, Field(ge=0, description="Keys that it needs; 0: not known yet.")]
    expected_end: Annotated[
        InstantShown | None, Field(description="When it may be expected to count; null: not known.")
    ]


def catch_up_shown(
    progress: Sequence[CatchingUp], partition: int, now_ms: int
) -> CatchUpShown | None:
    """Null where nobody has told of it lately. The end is expected as if it went on as fast."""
    one = next((one for one in progress if one.partition == partition), None)
    if one is None or now_ms - one.seen_ms > CATCH_UP_STALE_MS:
        return None
    took_ms, left = one.seen_ms - one.begun_ms, one.keys_total - one.keys
    known = one.keys and took_ms > 0
    end_ms = max(now_ms, one.seen_ms + max(0, left) * took_ms // one.keys) if known else None
    return {"keys": one.keys, "keys_total": one.keys_total, "expected_end": instant(end_ms)}
