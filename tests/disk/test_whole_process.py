"""The whole product on a disk that fails once, or loses what was not synced when the power goes."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.disk.disk import Calls, Disk, Kind
from tests.disk.test_full_disk import CALLS, counted, is_clean, post, total
from tests.journey.deadline import until
from tests.journey.setups import SetUp, embedded, telling

WITHIN_S = 120.0
EACH = 190  # what a batch sums up to
# Changes of files since the batch is sent: in the log, in parts of tables, in seen and control.
PLACES = (2, 25, 60, 200)


@dataclass(slots=True)
class Trial:
    """A product, its disk, and somebody who starts it again when it has ended."""

    setup: SetUp
    disk: Disk
    kind: Kind
    bitten: int = 0

    def go_on(self) -> None:
        """It runs again, on what the power cut left."""
        up = self.setup.processes["up"]
        if up.ended() is None:
            return
        self.note()
        up.kill()
        if self.kind is Kind.CUT:
            self.disk.lose()
        self.setup.start()

    def note(self) -> None:
        """Whether the fault was met; from now on all is well."""
        self.bitten += bool(self.disk.hit)
        self.disk.spare()

    def is_taken(self, batch: str) -> bool:
        """Whether a batch was accepted; it is sent again until it is."""
        try:
            self.go_on()
            return post(self.setup, batch) == 202
        except OSError:
            return False

    def counts(self, sum_of_all: int) -> bool:
        """Whether all that was accepted counts, once."""
        try:
            self.go_on()
            return counted(self.setup) and total(self.setup) == sum_of_all
        except (OSError, AssertionError):  # it ends, or does not answer this now
            return False


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", [Kind.BROKEN, Kind.CUT])
def test_what_was_accepted_counts_once_whatever_call_meets_the_fault(
    kind: Kind, tmp_path: Path
) -> None:
    disk = Disk(tmp_path / "data", tmp_path / "beside")
    setup = embedded(tmp_path, disk.environment(keeping=True))
    trial = Trial(setup, disk, kind)
    try:
        with telling(setup):
            setup.start()
            setup.control.made("/api/v3/metering/meters", CALLS)
            for number, place in enumerate(PLACES, 1):
                disk.plan(kind, place, 1, Calls.ALL)
                until("it is accepted", WITHIN_S, partial(trial.is_taken, f"batch {number}"))
                until("it counts", WITHIN_S, partial(trial.counts, number * EACH))
                trial.note()
            assert trial.bitten >= len(PLACES) - 1, "the faults bite"
            assert is_clean(setup)
    finally:
        setup.kill()
        disk.close()
