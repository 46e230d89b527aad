"""Records that Faust brought of a partition, until they may be acknowledged (pure).

Faust commits as far as all records were acknowledged, and borders of slices are all that may be
committed. Its own event of a record takes a kilobyte, and single events make a record each. So only
offsets are kept, as runs.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from meterline.limits import FAUST_AHEAD_RECORDS_MAX, FAUST_HELD_RECORDS_MAX


class Sealed:
    """What Faust's consumer is shown of a record that it may commit: it stands for the message."""

    __slots__ = ("__weakref__", "acked", "offset", "topic", "tp")

    def __init__(self, topic: str, tp: tuple[str, int], offset: int) -> None:
        self.topic = topic
        self.tp = tp
        self.offset = offset
        self.acked = False


class HeldBounds(NamedTuple):
    """How many records of a partition that is not counted now are kept in mind before Faust waits:
    while it catches up, and else.
    """

    ahead: int = FAUST_AHEAD_RECORDS_MAX
    held: int = FAUST_HELD_RECORDS_MAX


HELD_BOUNDS: Final = HeldBounds()


class HeldRecords:
    """Offsets in the order in which they were brought."""

    def __init__(self) -> None:
        self._runs: deque[tuple[int, int]] = deque()  # first, end
        self._ends: deque[int] = deque()  # of sealed slices, not all of which was brought yet
        self._before = 0  # what offsets of the log are ahead of those in Kafka
        self.count = 0

    def add(self, offset: int, in_kafka: int) -> None:
        """A record was brought. The two offsets differ where the log was restored or got the
        partition later, by as much for each record.
        """
        self._before = offset - in_kafka
        self.count += 1
        if self._runs and self._runs[-1][1] == offset:
            self._runs[-1] = self._runs[-1][0], offset + 1
        else:
            self._runs.append((offset, offset + 1))

    def sealed(self, end: int) -> Iterator[int]:
        """A slice ends there, and all before it is sealed. Lets go of what lies before the last end
        of a slice up to which all was brought; their offsets in Kafka. What Faust brings late, when
        its slice was read past it, waits for the rest of that slice.
        """
        if not self._ends or end > self._ends[-1]:
            self._ends.append(end)
        reached, passed = self._runs[-1][1] if self._runs else 0, 0
        while self._ends and self._ends[0] <= reached:
            passed = self._ends.popleft()
        return self.release(passed)

    def release(self, end: int) -> Iterator[int]:
        """Let go of those below an offset, up to the first that is not; their offsets in Kafka."""
        while self._runs and self._runs[0][0] < end:
            first, last = self._runs.popleft()
            if last > end:
                self._runs.appendleft((end, last))
                last = end
            self.count -= last - first
            yield from range(first - self._before, last - self._before)
