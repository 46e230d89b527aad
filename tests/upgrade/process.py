"""`python -P process.py FILE ROLE ...`: the command `meterline` of the build on `PYTHONPATH`, with
the small slices of recordings. Its clock is ahead of the machine's by the milliseconds in FILE.

A recording goes on at the time at which it was made, whenever it is tested: nothing in it expires.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from meterline.backends import clock
from meterline.runtime import cli
from tests.faults.process import prepare
from tests.journey.moved_clock import MovedClock, MovedTime


class LaterClock(MovedClock):
    """A clock that a test sets."""

    @property
    def program(self) -> tuple[str, ...]:
        """What stands for the command `meterline`."""
        return (sys.executable, "-P", __file__, str(self._file))


def main(arguments: Sequence[str]) -> None:
    """Be `meterline` with these arguments, on the clock of the file named first."""
    ahead, *rest = arguments
    prepare(os.environ)
    clock.__dict__["time"] = MovedTime(Path(ahead))
    cli.main(rest, prog_name="meterline")


if __name__ == "__main__":
    main(sys.argv[1:])
