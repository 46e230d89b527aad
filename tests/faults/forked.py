"""Processes of the bench: forked, so that hundreds of kills fit into minutes."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.nursery.forked import Forked, fork

KILLED_WITHIN_S = 60.0
PROGRAM = (sys.executable, "-m", "tests.faults.process")  # `meterline`, with traps


@dataclass(slots=True)
class ForkedService:
    """A process like a `LocalService`, but forked; the names mean the same."""

    name: str
    url: str
    folder: Path
    command: Sequence[str]  # arguments of `meterline`
    environment: dict[str, str] = field(default_factory=dict)
    _process: Forked | None = None

    @property
    def pid(self) -> int:
        """Process id of what was started last."""
        assert self._process is not None, f"{self.name} is not running: start() it first"
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it was started and not killed since; it may have ended by itself."""
        return self._process is not None

    @property
    def log_path(self) -> Path:
        """Everything that its processes said."""
        return self.folder / "output.log"

    def ended(self) -> int | None:
        """The exit code of a process that ended by itself; None of one that runs, or of none."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Start it, if it does not run; returns at once."""
        if self._process is None:
            environment = {**os.environ, **self.environment}
            command = [*PROGRAM, *self.command]
            self._process = fork(command, self.folder, environment, self.log_path)

    def kill(self) -> None:
        """SIGKILL, and wait for its end; nothing where it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(KILLED_WITHIN_S)
            self._process = None
