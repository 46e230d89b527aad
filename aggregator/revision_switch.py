"""The switch of meter revisions: a step of housekeeping, done by any worker, any number of times
(design.md section 4.4).
"""

from meterline.meter import CatalogueStore
from meterline.usage import ProgressStore


async def switch_filled(
    catalogue: CatalogueStore, progress: ProgressStore, log: int, partitions: int, now_ms: int
) -> list[int]:
    """Switch the revisions that wait and are filled in, in every partition of the log; their
    numbers. The store lets one worker do it.
    """
    done = []
    for revision in await catalogue.filling():
        until_ms = await progress.complete_until(log, partitions, revision)
        if until_ms is not None and await catalogue.switch_filled(revision, now_ms) is not None:
            done.append(revision)
    return done
