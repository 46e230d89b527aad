"""Answers stand while the same rows are hidden. What is done hides nothing any more, and changes no
answer.
"""

import pytest

from meterline.usage.cells import Hidden
from meterline.usage.erasure import still_hidden

ACME = ("acme", 1, (5,))
GLOBEX = ("globex", 1, (7,))
SWITCHED = Hidden("n", (1, 2), (), (ACME, GLOBEX))


@pytest.mark.parametrize(
    ("before", "now", "stands"),
    [
        ([SWITCHED], [SWITCHED], True),
        ([SWITCHED], [Hidden("n", (1, 2), (), (GLOBEX,))], True),
        ([SWITCHED], [], True),
        ([Hidden("n", (1,), ("erased-1",))], [Hidden("n", (1,), (), (ACME,))], False),
        ([], [Hidden("n", (1,), ("erased-1",))], False),
        ([Hidden("n", (1,), ("erased-1",))], [], False),
        ([SWITCHED], [SWITCHED, Hidden("m", (3,), (), (ACME,))], False),
        ([SWITCHED], [Hidden("n", (1, 2), (), (ACME, ("globex", 1, (9,))))], False),
    ],
    ids=["same", "one is done", "all are done", "switched", "asked", "given up", "other", "more"],
)
def test_what_is_hidden_is_still_hidden(
    before: list[Hidden], now: list[Hidden], *, stands: bool
) -> None:
    assert still_hidden(before, now) is stands
