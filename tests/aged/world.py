"""An installation that has counted for a year, or for as long as an `Age` says: made in minutes by
SQL, with its blocks by the code of the product. Its log holds nothing of that time any more, as
after a restore without it. Roles are started on it as on any other.
"""

import random
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

from aggregator.blocks import BlockMaker
from meterline.backends.clickhouse.blocks.store import ClickHouseBlockRows
from meterline.backends.control_store.migrate import migrate
from meterline.backends.control_store.progress.blocks import SqlBlockLedger
from meterline.backends.kafka.log import KafkaLog
from meterline.event import DEFAULT_NAMESPACE
from meterline.meter import MeterDraft
from meterline.runtime.settings.reading import Settings
from meterline.runtime.wiring import adapters
from meterline.runtime.wiring.adapters import OpenLog
from tests.aged import control, usage
from tests.aged.age import Age


async def make(settings: Settings, age: Age, drafts: Sequence[MeterDraft] = ()) -> None:
    """Make these stores old. They must be empty; no role may run. Meters of `drafts` are of the
    default namespace, and as old as all: no event of the past was theirs.
    """
    async with AsyncExitStack() as stack:
        log = await adapters.open_log(settings, stack)
        assert log.partitions == age.partitions
        database = adapters.open_control_database(settings, stack)
        await migrate(database)
        store = await adapters.open_usage(settings, stack)
        opened = await adapters.open_all(settings, database, store, log)
        assert log.number == control.LOG
        for draft in drafts:
            await opened.stores.catalogue.create_meter(DEFAULT_NAMESPACE, draft, age.begin_ms)
        age = replace(age, before=len(drafts))
        await control.put(database, age)
        await usage.put(store.connection, age)
        await _goes_on(opened, log, age)
        await _make_blocks(opened, age)


async def _goes_on(opened: adapters.Opened, log: OpenLog, age: Age) -> None:
    """The next record of each partition lies behind the old ones."""
    if isinstance(log, KafkaLog):
        await control.goes_on(opened.database, age)
        return
    for partition in range(age.partitions):
        await log.put_back(partition, age.each, [])


async def _make_blocks(opened: adapters.Opened, age: Age) -> None:
    """All blocks that are due."""
    maker = BlockMaker(
        control.LOG,
        age.partitions,
        SqlBlockLedger(opened.database),
        ClickHouseBlockRows(opened.connection),
        opened.stores.catalogue,
        adapters.CLOCK,
        random.Random(age.seals),
    )
    while await maker.step():
        pass
