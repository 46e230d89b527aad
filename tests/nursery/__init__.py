"""Processes of the product by fork: one process has imported everything, and each process of a test
begins as a copy of it.
"""

from typing import Final

COMMAND: Final = "meterline.runtime.cli"
"""The module of the command `meterline`."""
