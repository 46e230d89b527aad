"""A log counts by the layout that is registered now."""

from collections.abc import Awaitable, Callable

from meterline.event.layout import Layout
from meterline.event.ports import Log


async def laid_out(log: Log, asked: Callable[[int], Awaitable[Layout]]) -> Layout:
    """How a log is laid out now, by `ProgressStore.layout`; it counts so from now on. Raises
    `Unavailable`.
    """
    layout = await asked(log.number)
    if layout.partitions > log.partitions:
        log.lay_out(layout)
    return layout if layout.partitions else Layout(log.partitions)
