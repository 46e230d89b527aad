"""A server that somebody else runs, named by an environment variable."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.services.service import ServiceError

WAIT_S = 30.0
POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class GivenService:
    """A server by its URL; we may use it, but not end it."""

    name: str
    url: str
    variable: str
    problem: Callable[[], str | None]
    start_within_s: float = WAIT_S

    def start(self) -> None:
        """See `Service.start`: waits until the server answers."""
        deadline = time.monotonic() + self.start_within_s
        while (reason := self.problem()) is not None:
            if time.monotonic() > deadline:
                message = (
                    f"{self.name} at {self.url} (from {self.variable}) does not serve: {reason}. "
                    f"Start it, or unset {self.variable} to let the tests start their own"
                )
                raise ServiceError(message)
            time.sleep(POLL_S)

    def kill(self) -> None:
        """Refuse: it is not ours."""
        message = (
            f"this test kills {self.name}, and the one at {self.url} is not ours to kill: unset "
            f"{self.variable} to let the tests start their own"
        )
        raise ServiceError(message)

    def stop(self) -> None:
        """Leave it running: it is not ours."""
