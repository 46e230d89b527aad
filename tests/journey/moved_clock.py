"""`python -m tests.journey.moved_clock FILE ROLE ...`: the command `meterline` on a clock that is
ahead of the machine's by the milliseconds that stand in FILE.

Who writes the file moves the time of every process that reads it, while it runs. A broker has a
clock of its own, so slices can be made shorter: a test need not wait five minutes until one ends.
All else is the product as it is, and nothing of this is reachable from production.
"""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from meterline import limits

ROOT: Final = Path(__file__).resolve().parents[2]
PRODUCT: Final = frozenset({"aggregator", "control", "dispatcher", "ingest", "meterline"})
NS_PER_MS: Final = 1_000_000
SPAN_VARIABLE: Final = "METERLINE_TEST_SLICE_SPAN_MS"
SHORT_SLICES: Final[Mapping[str, str]] = MappingProxyType({SPAN_VARIABLE: "15000"})
"""For all processes of a set-up whose broker cuts the slices: all of them must cut alike."""


class MovedTime:
    """The module `time`, as far as the product's clock uses it."""

    def __init__(self, ahead: Path) -> None:
        self._ahead = ahead

    def time_ns(self) -> int:
        """Unix nanoseconds, moved."""
        return time.time_ns() + int(self._ahead.read_text()) * NS_PER_MS


class MovedClock:
    """The same clock for a test, which moves it."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "ahead_ms"
        self._ahead_ms = 0
        self.move(0)

    @property
    def program(self) -> tuple[str, ...]:
        """What stands for the command `meterline`."""
        return (sys.executable, "-m", "tests.journey.moved_clock", str(self._file))

    def now_ms(self) -> int:
        """Unix milliseconds, as the product has them."""
        return time.time_ns() // NS_PER_MS + self._ahead_ms

    def move(self, by_ms: int) -> None:
        """Make it later by so much, for all that run and for those that are started later."""
        self._ahead_ms += by_ms
        written = self._file.with_suffix(".new")
        written.write_text(str(self._ahead_ms))
        written.replace(self._file)  # nobody reads half a number


def _shorten(span_ms: int) -> None:
    """Slices last so long, also for modules that are there already: in a fork all of them are."""
    limits.__dict__["SLICE_SPAN_MS"] = span_ms
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in PRODUCT and "SLICE_SPAN_MS" in vars(module):
            module.__dict__["SLICE_SPAN_MS"] = span_ms


def main(arguments: Sequence[str]) -> None:
    """Be `meterline` with these arguments, on the clock of the file named first."""
    ahead, *rest = arguments
    if span_ms := os.environ.get(SPAN_VARIABLE):
        _shorten(int(span_ms))
    # Only now: whoever is imported takes the limit as it is then.
    from meterline.backends import clock  # noqa: PLC0415
    from meterline.runtime import cli  # noqa: PLC0415

    clock.__dict__["time"] = MovedTime(Path(ahead))
    cli.main(rest, prog_name="meterline")


if __name__ == "__main__":
    main(sys.argv[1:])
