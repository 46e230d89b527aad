"""Make the stores that the settings name old: `python -m tests.aged SEALS METERS`, before any role
is started. `METERLINE_PARTITIONS` is the number of partitions.
"""

import asyncio
import sys

from meterline.runtime.settings.reading import load_settings
from meterline.runtime.wiring import adapters
from tests.aged import world
from tests.aged.age import Age


def main() -> None:
    """Make them, up to now."""
    seals, meters = map(int, sys.argv[1:])
    settings = load_settings()
    age = Age(seals, meters, settings.partitions, adapters.CLOCK.now_ms())
    asyncio.run(world.make(settings, age))


if __name__ == "__main__":
    main()
