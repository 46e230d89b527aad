"""What goes on in an installation while pictures of it are made, so that panels have something to
show: events, questions, reports and a new meter.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from typing import Final

from tests.faults.bench import Bench, asked_meanwhile
from tests.faults.pictures.recording import Recording
from tests.faults.watch import Watch

HEALTHY_S: Final = 150.0  # before the first fault
RECOVERED_S: Final = 60.0  # after the last one
REPORT_EVERY_S: Final = 15.0
ASKED_EVERY_S: Final = 1.0
TWIN_OF: Final = "amounts"  # a meter that is filled in from what was counted before
Pause = Callable[[float], None]


@contextmanager
def lively(bench: Bench, watch: Watch, recording: Recording | None) -> Iterator[Pause]:
    """A pause that is not idle, while something is recorded: events are sent, and reports asked
    for. First and last the installation is healthy for a while. The faults of the watch are kept.
    """
    if recording is None:
        yield time.sleep
        return

    def pause(seconds: float) -> None:
        bench.senders.resume()
        _ask_for_reports(bench)
        time.sleep(seconds)

    with asked_meanwhile(bench, ASKED_EVERY_S):
        try:
            _be_healthy(pause, HEALTHY_S / 2)
            bench.twin(TWIN_OF)
            _be_healthy(pause, HEALTHY_S / 2)
            yield pause
            _be_healthy(pause, RECOVERED_S)
        finally:
            recording.spans += watch.spans


def _be_healthy(pause: Pause, seconds: float) -> None:
    for _ in range(round(seconds / REPORT_EVERY_S)):
        pause(REPORT_EVERY_S)


def _ask_for_reports(bench: Bench) -> None:
    with suppress(OSError, HTTPException, AssertionError):  # a store may be away
        bench.rig.ask(1)
