"""The hash of a tally is that of its row, whether the row is made for it or not."""

from hypothesis import example, given
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from meterline.meter import Cell, Latest, Tally
from meterline.usage import TEXTS, TallyRow, tally_hash

LOG, PARTITION, SLICE = 1, 2, 3
TEXT = st.text(max_size=8)
CELLS = st.tuples(st.integers(0, 2**32 - 1), TEXT, TEXT, st.integers(0, 2**32 - 1))
COUNTS = st.integers(0, 2**64 - 1)
TOTALS = st.integers(-(2**65), 2**65) | st.sampled_from([-(2**63) - 1, -(2**63), 2**63 - 1, 2**63])
VALUES = st.none() | st.integers(-(2**127), 2**127 - 1)
TIMES = st.integers(-(2**63), 2**63 - 1)
LATEST = st.none() | st.builds(Latest, TIMES, TIMES, st.binary(min_size=16, max_size=16), TIMES)


def row_of(cell: Cell, tally: Tally) -> TallyRow:
    time_ms, recorded_ms, key, latest = tally.latest or Latest(0, 0, bytes(16), 0)
    counts = tally.version, tally.total, tally.count, tally.rejected
    extremes = tally.minimum or 0, tally.maximum or 0
    place = LOG, PARTITION, SLICE
    return TallyRow(*cell, *place, *counts, *extremes, time_ms, recorded_ms, key, latest)


def tally_of(total: int, counts: tuple[int, int, int]) -> Tally:
    made = Tally()
    made.total = total
    made.version, made.count, made.rejected = counts
    return made


@given(CELLS, TOTALS, st.tuples(COUNTS, COUNTS, COUNTS), VALUES, VALUES, LATEST)
@example((1, "a", "[]", 7), -1, (5, 1, 0), None, None, None)
@example((1, "a", "[]", 7), 0, (5, 1, 0), 0, 0, None)
def test_it_is_that_of_its_row(
    cell: Cell,
    total: int,
    counts: tuple[int, int, int],
    minimum: int | None,
    maximum: int | None,
    latest: Latest | None,
) -> None:
    tally = tally_of(total, counts)
    tally.minimum, tally.maximum, tally.latest = minimum, maximum, latest
    of_row = xxh64_intdigest(TEXTS["tallies"](row_of(cell, tally)))
    assert tally_hash(cell, tally, row_of) == of_row


@given(CELLS, st.integers(-(2**63), 2**63 - 1), st.tuples(COUNTS, COUNTS, COUNTS))
def test_most_rows_are_not_made(cell: Cell, total: int, counts: tuple[int, int, int]) -> None:
    made: list[TallyRow] = []

    def noted(cell: Cell, tally: Tally) -> TallyRow:
        made.append(row_of(cell, tally))
        return made[-1]

    tally_hash(cell, tally_of(total, counts), noted)
    assert made == []
