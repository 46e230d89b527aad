"""How much a run of the conformance tests does, and from which seed, by the environment.

Without its variables a run is CI's share, from a seed of its own that is printed. `make
conformance` asks for all of it. A failure names its seed: set it, and the same is sent again.
"""

import os
import secrets
from typing import Final

EXAMPLES_VARIABLE: Final = "METERLINE_TEST_EXAMPLES"
BODIES_VARIABLE: Final = "METERLINE_TEST_BODIES"
SEED_VARIABLE: Final = "METERLINE_TEST_SEED"

EXAMPLES_CI: Final = 15
EXAMPLES: Final = int(os.environ.get(EXAMPLES_VARIABLE, EXAMPLES_CI))
"""Requests made up for one operation."""

BODIES: Final = int(os.environ.get(BODIES_VARIABLE, "3000"))
"""Bodies sent to the door."""

assert EXAMPLES > 0, f"{EXAMPLES_VARIABLE} is at least 1: without examples nothing is tested"
assert BODIES > 0, f"{BODIES_VARIABLE} is at least 1: without bodies nothing is tested"

SEED: Final = int(os.environ.get(SEED_VARIABLE, secrets.randbelow(2**32)))
"""Of everything that is drawn."""
