"""Each embedded store meets a fault in the middle of its first life, and starts again whole.

`make disk` does so at every call of the first and of a later life. A fault that does not bite fails
the test.
"""

import pytest

from tests.disk.disk import Kind
from tests.disk.trial import tried

CASES = [
    ("log", Kind.FULL, 48),
    ("log", Kind.BROKEN, 48),
    ("log", Kind.SHORT, 31),
    ("log", Kind.CUT, 48),
    ("control", Kind.FULL, 155),
    ("control", Kind.BROKEN, 155),
    ("control", Kind.CUT, 60),
    ("seen", Kind.FULL, 43),
    ("seen", Kind.BROKEN, 43),
    ("seen", Kind.CUT, 20),
    ("usage", Kind.FULL, 120),
    ("usage", Kind.BROKEN, 120),
    ("usage", Kind.CUT, 120),
    # a file of a part: of its rows, of its columns, of its checksums
    ("usage", Kind.BROKEN, 230),
    ("usage", Kind.BROKEN, 240),
    ("usage", Kind.BROKEN, 248),
]


@pytest.mark.parametrize(("store", "kind", "call"), CASES)
def test_a_store_that_met_a_fault_starts_again_whole(store: str, kind: Kind, call: int) -> None:
    tried(store, kind, call, fresh=True)


@pytest.mark.parametrize("call", [1, 12])
def test_a_usage_store_that_starts_on_a_full_disk_starts_again_with_all_it_had(call: int) -> None:
    """A start altered each table at first: the engine wrote its definition anew, and emptied it."""
    tried("usage", Kind.FULL, call, fresh=False)
