"""A revision takes over when every partition of the log has it filled in, once, by any worker."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aggregator.housekeeping import switch_filled
from meterline.backends.control_store.engine import Database, open_database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.meter import Aggregation, MeterChange, MeterDraft
from meterline.usage import Seal

LOG, PARTITIONS, NOW_MS = 1, 2, 1_700_000_000_000


@pytest.fixture
async def database(tmp_path: Path, migrated: Path) -> AsyncIterator[Database]:
    shutil.copy(migrated, tmp_path / "control.db")
    made = open_database(f"sqlite:///{tmp_path / 'control.db'}")
    yield made
    await made.close()


async def test_it_takes_over_when_all_partitions_have_it(database: Database) -> None:
    catalogue, progress = SqlCatalogueStore(database), SqlProgressStore(database)
    draft = MeterDraft("calls", "Calls", Aggregation.COUNT, "call")
    made = await catalogue.create_meter("default", draft, NOW_MS)
    await progress.seal(Seal(LOG, 1, 0, 7, 5, made.revision, NOW_MS))
    change = MeterChange(event_type="other")
    await catalogue.update_meter("default", "calls", change, NOW_MS)

    async def step() -> list[int]:
        return await switch_filled(catalogue, progress, LOG, PARTITIONS, NOW_MS)

    assert await step() == []
    await progress.complete(LOG, 1, {0: NOW_MS, 1: NOW_MS})  # by a catalogue that has it not
    await progress.complete(LOG, 2, {0: NOW_MS})
    assert await step() == []
    await progress.complete(LOG, 2, {1: NOW_MS})
    assert await step() == []  # a sealed slice of before lacks it
    await progress.mark_filled(LOG, 1, [0], [2])
    assert await step() == [2]
    assert await step() == []
    (there,) = (await catalogue.catalogue()).meters
    assert (there.id, there.revision, there.event_type) == (made.id, 2, "other")
