"""What every way stands on: the first flights of the table, a receiver, and set-ups made anew."""

import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from demo.flights import write_ndjson
from tests.faults.labels import SLICE_VARIABLE
from tests.journey.receiver import Mailbox, Receiver
from tests.journey.setups import NOTHING, Servers, SetUp, distributed, embedded
from tests.nursery.forked import ROOT
from tests.recovery.installation import Installation

PROGRAM: Final = (sys.executable, "-P", str(Path(__file__).with_name("process.py")))
PACE: Final[Mapping[str, str]] = {
    # rather than 65,536: slices of each partition are sealed before the half is sent
    SLICE_VARIABLE: "2000",
    "METERLINE_PRODUCE_DEADLINE_MS": "3000",
    "METERLINE_CLOCK_SKEW_MS": "0",
    "METERLINE_GRACE_MS": "3000",
}


@dataclass(slots=True)
class Ground:
    """Flights of the table from its first on, and who takes part. Set-ups are killed at its end."""

    folder: Path
    flights: int
    box: Mailbox
    setups: list[SetUp] = field(default_factory=list)

    @property
    def half(self) -> int:
        """How many flights are sent before something happens."""
        return self.flights // 2

    @property
    def archive(self) -> Path:
        """A folder for an archive, which is not there yet."""
        return self.folder / f"archive-{secrets.token_hex(4)}"

    def file(self, first: int = 0, end: int | None = None) -> Path:
        """A file of flights [first, end), an event a line."""
        last = self.flights if end is None else end
        path = self.folder / f"flights-{first}-{last}.ndjson"
        if not path.exists():
            write_ndjson(path, first, last)
        return path

    def lines(self, first: int) -> Sequence[bytes]:
        """The events from there on, each as a line."""
        with self.file().open("rb") as file:
            return list(islice(file, first, None))

    def embedded(self, build: Path = ROOT) -> Installation:
        """One process that is ready to start, of this build or another one."""
        return self._made(embedded(self._room(), _settings(build), PROGRAM))

    def distributed(
        self,
        servers: Servers,
        more: Mapping[str, str] = NOTHING,
        *,
        build: Path = ROOT,
        migrated: bool = True,
    ) -> Installation:
        """Each role as a process of its own, ready to start, on a new topic and new databases."""
        settings = {**_settings(build), **more}
        room = self._room()
        return self._made(distributed(room, servers, settings, migrated=migrated, program=PROGRAM))

    def _room(self) -> Path:
        """A new folder of a set-up."""
        room = self.folder / f"set-up-{secrets.token_hex(4)}"
        room.mkdir()
        return room

    def _made(self, setup: SetUp) -> Installation:
        self.setups.append(setup)
        return Installation(setup, self.box)


def _settings(build: Path) -> dict[str, str]:
    """Those of every process."""
    return {**PACE, "PYTHONPATH": str(build)}


@contextmanager
def ground(folder: Path, flights: int, receiver: Receiver) -> Iterator[Ground]:
    """The ground of one way, for the length of the block."""
    made = Ground(folder, flights, receiver.mailbox(f"recovery-{secrets.token_hex(4)}"))
    try:
        yield made
    except BaseException as error:
        for setup in made.setups:
            error.add_note(setup.logs())
        raise
    finally:
        for setup in made.setups:
            setup.kill()
