"""Proof that a fault bit: a fault that did nothing would pass as survived."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class Toothless(AssertionError):
    """A fault was survived because it never happened."""


class Bites:
    """What faults were seen to do, counted by what proves it."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    def book(self, proof: str, times: int = 1) -> None:
        """Record that a fault was seen to bite so many times. Raises `Toothless` where it is none,
        for then this part of the fault did not happen.
        """
        if times < 1:
            raise Toothless(f"the fault did not bite: {proof}: {times} times")
        self.seen[proof] += times

    @contextmanager
    def proven(self, name: str) -> Iterator[None]:
        """Raises `Toothless` where the block, which brings about a fault, records no bite."""
        before = self.seen.total()
        yield
        if self.seen.total() == before:
            raise Toothless(f"{name}: nothing proves that the fault bit")
