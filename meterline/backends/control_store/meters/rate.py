"""How often the meters of a namespace may change (design.md section 4.4).

Each change that measures something anew makes aggregators read their open slices again, and fill in
all that is sealed. Counted are recorded changes of meters: they are written in the transactions of
the changes themselves, which take turns, so all processes see one count.
"""

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from meterline.access import AGGREGATOR, SETTINGS, Kind
from meterline.backends.control_store.tables.access import changes
from meterline.limits import METER_CHANGES_MAX, METER_CHANGES_WINDOW_MS
from meterline.problem import Problem, ProblemType


async def mind_rate(connection: AsyncConnection, namespace: str, now_ms: int) -> None:
    """Raise `Problem` (rate limited) where the namespace has had all changes of meters that it may
    have in a minute; those of the settings file and of the aggregators are free.

    To be called within a turn.
    """
    nth_newest = (
        select(changes.c.at_ms)
        .where(
            changes.c.namespace == namespace,
            changes.c.at_ms > now_ms - METER_CHANGES_WINDOW_MS,
            changes.c.kind == Kind.METER,
            changes.c.author.not_in((SETTINGS, AGGREGATOR)),
        )
        .order_by(changes.c.at_ms.desc())
        .offset(METER_CHANGES_MAX - 1)
        .limit(1)
    )
    at_ms = (await connection.execute(nth_newest)).scalar_one_or_none()
    if at_ms is None:
        return
    free_in_s = -(-(int(at_ms) + METER_CHANGES_WINDOW_MS - now_ms) // 1_000)
    wait_s = min(max(1, free_in_s), METER_CHANGES_WINDOW_MS // 1_000)
    detail = (
        f"The meters of this namespace were changed {METER_CHANGES_MAX} times in a minute, and each"
        f" change makes counting go back a little. The next one may come in {wait_s} s."
    )
    raise Problem(ProblemType.RATE_LIMITED, detail, retry_after_s=wait_s)
