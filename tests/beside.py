"""What goes on beside a test, in a thread of its own."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def beside(name: str, run: Callable[[], object], end: Callable[[], object]) -> Iterator[None]:
    """`run` during the block; it is to return soon after `end` was called."""
    thread = threading.Thread(target=run, name=name)
    thread.start()
    try:
        yield
    finally:
        end()
        thread.join()
