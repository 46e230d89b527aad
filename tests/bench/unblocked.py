"""`python -m tests.bench.unblocked ROLE ...`: the command `meterline` that makes no blocks.

Only for the comparison in `bench_blocks`. Nothing of this is reachable from production.
"""

import asyncio
from typing import Any

from aggregator.drivers.block_loop import Driver
from meterline.runtime import cli
from meterline.runtime.wiring import counting


class OnlyCounting:
    """A driver of counting by itself."""

    def __init__(self, driver: Driver, *_: Any) -> None:
        self._driver = driver

    async def run(self, stop: asyncio.Event) -> None:
        """As the driver does."""
        await self._driver.run(stop)


def prepare() -> None:
    """Take the maker of blocks out of this process."""
    assert "WithBlocks" in counting.__dict__, "named otherwise now"
    counting.__dict__["WithBlocks"] = OnlyCounting


if __name__ == "__main__":
    prepare()
    cli.main(prog_name="meterline")
