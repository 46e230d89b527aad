"""What it saves to ask again: each question of the benchmark of reading for the first time, for the
second, and with the tag of its answer; and how much of blocks is read again on a busy log.
"""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from meterline.backends.clickhouse.usage.cache import (
    Kept,
    Run,
    encoded,
    joined,
    runs_of,
    unknown_of,
)
from meterline.usage import Block, BlockState, Stretch, columns_of, merge_due
from tests.bench.bench_aggregator import say
from tests.bench.bench_reads import Store, run
from tests.bench.reads_fill import Shape
from tests.bench.reads_questions import path_of, questions
from tests.journey.client import Server

TIMES: Final = 30  # different questions of each kind
BUSY_BLOCKS: Final = 4_000  # half a day of them, one every ten seconds
Runs = Callable[[Sequence[int], Sequence[int]], list[Run]]


@dataclass(slots=True)
class BusyLog:
    """Blocks that are made and merged, and one question that is asked now and then."""

    rng: random.Random
    blocks: list[Block] = field(default_factory=list)
    answer: tuple[Kept, ...] = ()
    made: int = 0
    numbers: int = 0

    def make(self) -> None:
        """A new block, of more or less rows; and what is to be merged then."""
        rows = int(1_000 * self.rng.lognormvariate(0, 0.5)) + 1
        self._add((Stretch(0, self.made, self.made + 1),), rows)
        self.made += 1
        while (merge := merge_due(columns_of(self.blocks))) is not None:
            sources = {block.number for block in merge.sources}
            self.blocks = [block for block in self.blocks if block.number not in sources]
            self._add(merge.stretches, sum(block.size for block in merge.sources))

    def _add(self, stretches: tuple[Stretch, ...], rows: int) -> None:
        self.numbers += 1
        counts = {"hours": rows}
        made = Block(self.numbers, 1, stretches, 0, 1, state=BlockState.READABLE, rows=counts)
        self.blocks.append(made)

    def ask(self, runs: Runs) -> tuple[int, int]:
        """Rows of blocks that are read for the answer, and rows of all blocks."""
        columns = columns_of(self.blocks)
        size = {column.blocks[0].number: column.size for column in columns}
        now = runs(list(size), list(size.values()))
        known, unknown = unknown_of(now, self.answer)
        read = [encoded(part, {}) for part in unknown]
        self.answer = joined(now, [*known, *read])
        return sum(size[block] for part in unknown for block in part), sum(size.values())


def whole(blocks: Sequence[int], _sizes: Sequence[int]) -> list[Run]:
    """For comparison: kept as one, so that any merger changes it."""
    return [tuple(blocks)]


def busy(name: str, runs: Runs, asked: float) -> None:
    """The share of rows that is read again, where one asks so often for each new block."""
    log = BusyLog(random.Random(1))
    read = rows = asks = 0
    for number in range(BUSY_BLOCKS):
        log.make()
        if log.rng.random() < asked:
            found = log.ask(runs)
            if number > BUSY_BLOCKS // 4:
                read, rows, asks = read + found[0], rows + found[1], asks + 1
    say(f"  {name:24} {asked:5.2f} asks for each new block: {read / rows:.4f} of rows read again")


def ask_again(store: Store, url: str) -> None:
    """Each question first, again, and with its tag."""
    server = Server(url)
    for question in questions(store.shape):
        paths = [path_of(question, number) for number in range(TIMES + 1)]
        first = [_took(server, path) for path in paths]
        again = [_took(server, path) for path in paths]
        tagged = [_took(server, path, one[2]) for path, one in zip(paths, first, strict=True)]
        statuses = {one[1] for one in tagged}
        medians = [statistics.median(it[0] for it in all_[1:]) for all_ in (first, again, tagged)]
        say(
            f"  {question.name:40} first {medians[0]:7.1f} ms, again {medians[1]:7.1f}, with its"
            f" tag {medians[2]:7.1f} ({statuses}); again / first {medians[1] / medians[0]:.2f}"
        )


def _took(server: Server, path: str, tag: str = "") -> tuple[float, int, str]:
    """Milliseconds, status and tag of an answer."""
    begun = time.perf_counter()
    answer = server.ask("GET", path, headers={"If-None-Match": tag} if tag else {})
    took = (time.perf_counter() - begun) * 1_000
    assert answer.status in (200, 304), answer
    return took, answer.status, answer.headers.get("etag", "")


def main() -> None:
    """A busy log; then a million events, embedded and on a server."""
    say("# rows of blocks that are read again by one who asks again")
    for asked in (1.0, 0.2, 0.02):
        busy("kept by runs", runs_of, asked)
        busy("kept as a whole", whole, asked)
    for store in ("embedded", "server"):
        run(Shape(1_000_000, 1_000, 30), store, ask_again)


if __name__ == "__main__":
    main()
