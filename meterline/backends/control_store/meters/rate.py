"""How often the meters of a namespace may change (docs/architecture.md, "Meters that change").

Each change that measures something anew makes aggregators read their open slices again, and fill in
all that is sealed. Counted are recorded changes of meters: they are written in the transactions of
the changes themselves, which take turns, so all processes see one count.
"""

from meterline.access import AGGREGATOR, SETTINGS, Kind
from meterline.backends.control_store.access import changes as recorded
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.tables.access import changes
from meterline.limits import METER_CHANGES_MAX, METER_CHANGES_WINDOW_MS


async def mind_rate(connection: Connection, namespace: str, now_ms: int) -> None:
    """Raise `Problem` (rate limited) where the namespace has had all changes of meters that it may
    have in a minute; those of the settings file and of the aggregators are free.

    To be called within a turn.
    """
    which = (
        changes.c.namespace == namespace,
        changes.c.kind == Kind.METER,
        changes.c.author.not_in((SETTINGS, AGGREGATOR)),
    )
    refusal = (
        f"The meters of this namespace were changed {METER_CHANGES_MAX} times in a minute, and each"
        " change makes counting go back a little."
    )
    rate = METER_CHANGES_MAX, METER_CHANGES_WINDOW_MS
    await recorded.mind_rate(connection, which, *rate, now_ms, refusal)
