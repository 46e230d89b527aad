"""Flights that are sent while something else is done."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from tests.journey.feed import feeding
from tests.journey.setups import SetUp

BATCH: Final = 200
PIECE: Final = 200
PAUSE_S: Final = 0.1  # between two pieces: some 2,000 flights a second


@dataclass(frozen=True, slots=True)
class Loaded:
    """How many flights came in, and how many lines a sender took while the work was done."""

    flights: int
    meanwhile: int


def under_load(setup: SetUp, lines: Sequence[bytes], work: Callable[[], object]) -> Loaded:
    """Do some work while flights come in, and send the rest of them afterwards. Where the work
    takes longer, flights are sent again until it ends. Returns when all of them count.
    """
    at, most = 2 * PIECE, len(lines) - PIECE  # some are left for afterwards
    assert at < most, "a load is more than two pieces"
    with feeding(setup, "--batch", str(BATCH)) as feed, ThreadPoolExecutor(1) as thread:
        feed.give(lines[:at])
        feed.take_half(PIECE)
        before = feed.fed
        done = thread.submit(work)
        while not done.done():
            if feed.put - feed.fed < PIECE:
                first = at % most
                feed.give(lines[first : min(first + PIECE, most)])
                at += PIECE
            time.sleep(PAUSE_S)
        meanwhile = feed.fed - before
        done.result()
        feed.give(lines[min(at, most) :])
        feed.finish()
        return Loaded(len(lines), meanwhile)
