"""`python -P process.py ROLE ...`: the command `meterline` of the build on `PYTHONPATH`. Its slices
have as many events as a variable says, and all else is the product as it is.

`tests.faults.process` also drops blocks within seconds after they were merged. A backup of many
flights takes longer than that, and would begin anew.
"""

import os
import sys
from collections.abc import Sequence

import aggregator.slice.border
from meterline.runtime import cli
from tests.faults.labels import SLICE_VARIABLE


def main(arguments: Sequence[str]) -> None:
    """Be `meterline` with these arguments."""
    aggregator.slice.border.__dict__["SLICE_EVENTS_MAX"] = int(os.environ[SLICE_VARIABLE])
    cli.main(list(arguments), prog_name="meterline")


if __name__ == "__main__":
    main(sys.argv[1:])
