"""What is acknowledged to Faust, and when: as far as slices are sealed, each once, in order."""

from collections import deque
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from aggregator.drivers.held_records import HeldRecords, Sealed

STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 40)), max_size=60)


@given(steps=STEPS, ahead=st.integers(0, 1_000))
def test_it_holds_what_a_queue_of_offsets_holds(steps: list[tuple[bool, int]], ahead: int) -> None:
    """Also where Faust brings what it had brought before, and leaves some out."""
    held, queue = HeldRecords(), deque[int]()
    for brings, number in steps:
        if brings:
            held.add(number + ahead, number)
            queue.append(number)
        else:
            expected = []
            while queue and queue[0] < number:
                expected.append(queue.popleft())
            assert list(held.release(number + ahead)) == expected
        assert held.count == len(queue)


@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=8),
    steps=st.lists(st.integers(0, 3), max_size=60),
)
def test_only_whole_slices_are_let_go(lengths: list[int], steps: list[int]) -> None:
    """However far counting is ahead of what Faust brings, or behind it. A step is a record that is
    brought, or so many slices that are sealed.
    """
    ends = [0, *accumulate(lengths)]
    held, brought, sealed, let_go = HeldRecords(), 0, 0, 0
    for step in (*steps, len(lengths), *[0] * ends[-1]):
        if step:
            sealed = min(sealed + step, len(lengths))
        elif brought < ends[-1]:
            held.add(brought, brought)
            brought += 1
        released = list(held.sealed(ends[sealed]))
        assert released == list(range(let_go, let_go + len(released)))
        let_go += len(released)
        assert let_go in ends[: sealed + 1], "the middle of a slice is committed"
    assert (let_go, held.count) == (ends[-1], 0)


def test_a_million_records_in_a_row_are_one_run() -> None:
    held = HeldRecords()
    for offset in range(1_000_000):
        held.add(offset, offset)
    assert held.count == 1_000_000
    assert len(held._runs) == 1  # noqa: SLF001 - it is what the memory follows from
    assert sum(1 for _ in held.release(400_000)) == 400_000
    assert held.count == 600_000


def test_it_stands_for_a_message() -> None:
    message = Sealed("log", ("log", 3), 7)
    assert (message.topic, message.tp, message.offset) == ("log", ("log", 3), 7)
    assert not message.acked
