"""What the product logs goes into the trace, and nowhere else."""

from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, NoReturn

import structlog


@contextmanager
def quiet(say: Callable[[str], None]) -> Iterator[None]:
    """While this lasts."""
    before = structlog.get_config()

    def tell(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> NoReturn:
        say(f"log line: {dict(event)}")
        raise structlog.DropEvent

    structlog.configure(processors=[tell], cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.configure(**before)
