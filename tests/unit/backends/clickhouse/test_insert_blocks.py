"""What is inserted at once is bounded."""

from itertools import chain

import pytest

from meterline.backends.clickhouse.store import _blocks


@pytest.mark.parametrize("count", [0, 1, 10, 11, 35])
def test_many_rows_are_several_blocks(count: int) -> None:
    rows = [(number,) for number in range(count)]
    blocks = _blocks("accounts", rows, 10)
    assert list(chain.from_iterable(blocks)) == rows
    assert [len(block) for block in blocks] == [10] * (count // 10) + [count % 10] * (
        count % 10 > 0
    )
