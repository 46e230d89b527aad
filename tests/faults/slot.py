"""A place of the installation: a role, as one process after the other."""

import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.faults.forked import ForkedService
from tests.faults.labels import Trap
from tests.journey.deadline import until
from tests.journey.processes import why_silent
from tests.services.local import free_port

READY_WITHIN_S = 90.0
POLL_S = 0.05


@dataclass(slots=True)
class Slot:
    """A role that is started, killed and started again in one folder and on one port."""

    name: str
    service: ForkedService
    kills: int = 0  # times that it ended by SIGKILL, its own or ours
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Where it serves."""
        return self.service.url

    @property
    def folder(self) -> Path:
        """Its data folder."""
        return self.service.folder / "data"

    def start(self, more: Mapping[str, str] | None = None) -> None:
        """Start it, if it does not run; returns at once. `more` settings are for this life."""
        if self.service.ended() is not None:
            self.service.kill()
        self.service.environment = {**self.settings, **(more or {})}
        self.service.start()

    def ready(self, within_s: float = READY_WITHIN_S) -> None:
        """Return once it answers that it is ready."""

        def answers() -> bool:
            assert self.service.ended() is None, f"{self.name} ended: {self.words()}"
            return why_silent(self.url) is None

        until(f"{self.name} is there", within_s, answers)

    def kill(self) -> bool:
        """Kill -9; nothing where it does not run. Whether it ran."""
        ran = self.service.runs and self.service.ended() is None
        if self.service.runs:
            self.kills += ran
            self.service.kill()
        return ran

    def stop(self) -> None:
        """End it in good order, with its data kept."""
        if self.service.runs and self.service.ended() is None:
            os.kill(self.service.pid, signal.SIGTERM)
            with_ends = time.monotonic() + 15
            while self.service.ended() is None and time.monotonic() < with_ends:
                time.sleep(POLL_S)
        self.service.kill()

    def dies_of(self, trap: Trap, within_s: float) -> bool:
        """Whether it dies by its trap, and not otherwise, within so long."""
        deadline = time.monotonic() + within_s
        while self.service.ended() is None:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        code, words = self.service.ended(), self.words()
        assert code == -signal.SIGKILL, f"{self.name} ended with code {code}:\n{words}"
        assert trap.mark in words, f"{self.name} was killed by somebody else:\n{words}"
        self.kills += 1
        self.service.kill()
        return True

    def freezes_by(self, trap: Trap, within_s: float) -> bool:
        """Whether it stops itself within so long."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            ended = self.service.ended()
            assert ended is None, f"{self.name} ended with code {ended}:\n{self.words()}"
            if psutil.Process(self.service.pid).status() == psutil.STATUS_STOPPED:
                return trap.mark in self.words()
            time.sleep(POLL_S)
        return False

    def freeze(self) -> None:
        """SIGSTOP."""
        os.kill(self.service.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        os.kill(self.service.pid, signal.SIGCONT)

    def words(self, chars: int = 3_000) -> str:
        """The last that its processes said."""
        return self.service.log_path.read_text(errors="replace")[-chars:]


def slot(name: str, command: Sequence[str], folder: Path, settings: Mapping[str, str]) -> Slot:
    """A role under traps, ready to start."""
    own = folder / name
    own.mkdir(parents=True)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    whole = {
        **settings,
        "METERLINE_DATA_DIR": str(own / "data"),
        "METERLINE_PORT": str(port),
    }
    service = ForkedService(name, url, own, command, whole)
    return Slot(name, service, settings=whole)
