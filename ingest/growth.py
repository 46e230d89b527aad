"""Steps that give a log more partitions, while others send to it and count it
(docs/architecture.md, "More partitions"). Each may be taken again at any time, by whoever
goes on after a crash.
"""

from meterline.event import GrowingLog, Layout, RecordKind, check_growth, encode_mark, grown
from meterline.ports import Unsuitable
from meterline.usage import ProgressStore


async def begin_growth(
    log: GrowingLog, progress: ProgressStore, partitions: int, now_ms: int
) -> Layout:
    """Register the new partitions, then have the log get them: so nothing is claimed complete
    without them from before the first event that one of them takes in. The log is asked before
    whether it may get them. Raises `Unavailable`, `Unsuitable` with words for a number that the log
    cannot have, `Problem` where another growth is under way.
    """
    layout = await progress.layout(log.number)
    log.lay_out(layout)  # its ends are to be those of the history, not of the topic
    if layout.partitions != partitions:
        if layout.uncounted(await progress.marks(log.number)):
            raise Unsuitable(
                f"the log is about to have {layout.partitions} partitions: run the command with"
                " this number until it has ended"
            )
        check_growth(layout.partitions, await log.ask_to_grow(partitions), partitions)
        ends = [await log.end(number) for number in range(layout.partitions)]
        layout = grown(layout, partitions, ends)
        await progress.begin_growth(log.number, layout, now_ms)
        layout = await progress.layout(log.number)  # somebody else may have been faster
        log.lay_out(layout)
    await log.grow(partitions)
    return layout


async def set_marks(log: GrowingLog, layout: Layout) -> None:
    """Append the mark of the last growth to each partition that was there before it. To be called
    GROWTH_WAIT_S after `begin_growth` has returned: by then no gateway tells success by the number
    before, so behind a mark nothing is missed that belongs elsewhere. Raises `Unavailable`.
    """
    growth = layout.growths[-1]
    await log.grow(growth.partitions)  # brokers that came back since then know of it, too
    for number in range(growth.before):
        await log.append(number, encode_mark(growth.partitions), RecordKind.MARK)
