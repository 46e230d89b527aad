"""New, duplicate or conflict: a table over the borders of the horizon."""

import pytest

from aggregator.slice.verdict import Seen, judged
from meterline.event import Verdict

HORIZON_MS = 1_000
AT, APPENDED_MS, CHECK, OTHER = 7, 5_000, b"same", b"else"


@pytest.mark.parametrize(
    ("earlier", "expected"),
    [
        (None, Verdict.NEW),
        ((3, APPENDED_MS, CHECK), Verdict.DUPLICATE),
        ((3, APPENDED_MS, OTHER), Verdict.CONFLICT),
        # the horizon is the last instant at which a copy is known
        ((3, APPENDED_MS - HORIZON_MS, CHECK), Verdict.DUPLICATE),
        ((3, APPENDED_MS - HORIZON_MS, OTHER), Verdict.CONFLICT),
        ((3, APPENDED_MS - HORIZON_MS - 1, CHECK), Verdict.NEW),
        ((3, APPENDED_MS - HORIZON_MS - 1, OTHER), Verdict.NEW),
        # a clock that was set back between them
        ((3, APPENDED_MS + 1, CHECK), Verdict.DUPLICATE),
        # this very event, read again
        ((AT, APPENDED_MS, CHECK), Verdict.NEW),
        ((AT, APPENDED_MS, OTHER), Verdict.NEW),
    ],
)
def test_a_verdict(earlier: Seen | None, expected: Verdict) -> None:
    assert judged(earlier, AT, APPENDED_MS, CHECK, HORIZON_MS) is expected
