"""The steps of a way through installations: each is told when it begins and how it ended."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from tests.services.service import ServiceError

FAILURES: Final = (AssertionError, ServiceError, OSError)
"""What a step ends with where something differs, or does not come back."""


@dataclass(slots=True)
class Step:
    """One step; `events` are those that it sent or found, `result` is what it showed."""

    way: str
    name: str
    events: int = 0
    result: str = ""
    seconds: float = 0.0
    failed: bool = False


def _unheard(_step: Step) -> None:
    """Nobody wants to know."""


@dataclass(slots=True)
class Steps:
    """The steps of one way so far. `begins` and `ends` are told of each."""

    way: str
    begins: Callable[[Step], None] = _unheard
    ends: Callable[[Step], None] = _unheard
    done: list[Step] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """A step, for the length of the block, which says what it showed."""
        one = Step(self.way, name)
        self.begins(one)
        began_s = time.monotonic()
        try:
            yield one
        except BaseException as error:
            one.failed = True
            one.result = f"{type(error).__name__}: {str(error)[:200]}"
            raise
        finally:
            one.seconds = time.monotonic() - began_s
            self.done.append(one)
            self.ends(one)
