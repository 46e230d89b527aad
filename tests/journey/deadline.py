"""Waiting for something to become so, with an end."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_S = 0.1


def until(what: str, within_s: float, look: Callable[[], T | None]) -> T:
    """What `look` gives as soon as it is truthy; an error of a server that is away counts as no."""
    deadline = time.monotonic() + within_s
    last: object = None
    while time.monotonic() < deadline:
        try:
            found = look()
        except OSError as error:
            last = error
        else:
            if found:
                return found
            last = found
        time.sleep(POLL_S)
    message = f"{what}: not within {within_s:g} s; last was {last!r}"
    raise AssertionError(message)
