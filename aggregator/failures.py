"""Failures that do not stop the rest of a turn."""

from collections.abc import Iterator
from contextlib import contextmanager

from meterline.ports import Unavailable


class Failures:
    """What was away in a turn that goes on all the same with what does not need it."""

    def __init__(self) -> None:
        self._first: Unavailable | None = None

    @contextmanager
    def kept(self) -> Iterator[None]:
        """What is within may raise `Unavailable`: `tell` does so later."""
        try:
            yield
        except Unavailable as error:
            self._first = self._first or error

    def tell(self) -> None:
        """Raises the first that was kept, at the end of the turn."""
        if self._first is not None:
            raise self._first
