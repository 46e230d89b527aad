"""How often the meters of a namespace may change, on SQLite and PostgreSQL."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from sqlalchemy import insert

from meterline.access import SETTINGS
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.tables.access import changes
from meterline.limits import METER_CHANGES_MAX, METER_CHANGES_WINDOW_MS
from meterline.meter import CatalogueStore, MeterChange
from meterline.problem import Problem, ProblemType
from tests.contract.control_store.test_catalogue_store import DRAFT, NOW_MS


@pytest.fixture
def store(control_database: Database) -> CatalogueStore:
    """A fresh catalogue."""
    return SqlCatalogueStore(control_database)


async def _had(database: Database, at_ms: Sequence[int], author: str = "key:1") -> None:
    """The namespace had changes of meters at these instants."""
    rows = [
        {
            "id": f"{author}.{n}", "namespace": "default", "at_ms": at, "author": author,
            "action": "create", "kind": "meter", "subject_id": "m", "name": "m", "detail": "",
        }
        for n, at in enumerate(at_ms)
    ]  # fmt: skip

    async def act(connection: Connection) -> None:
        await connection.execute(insert(changes), rows)

    await database.write(act)


async def test_beyond_the_bound_a_change_is_refused_until_the_oldest_is_a_minute_old(
    store: CatalogueStore, control_database: Database
) -> None:
    there = await store.create_meter("default", DRAFT, NOW_MS - METER_CHANGES_WINDOW_MS)
    oldest_ms = NOW_MS - METER_CHANGES_WINDOW_MS + 2_500
    await _had(control_database, [oldest_ms, *[NOW_MS] * (METER_CHANGES_MAX - 1)])
    draft = replace(DRAFT, key="more")
    version = await store.catalogue_version()
    for change in (
        store.create_meter("default", draft, NOW_MS),
        store.update_meter("default", there.id, MeterChange(event_type="other"), NOW_MS),
    ):
        with pytest.raises(Problem) as caught:
            await change
        assert caught.value.type is ProblemType.RATE_LIMITED
        assert caught.value.retry_after_s == 3
        assert str(METER_CHANGES_MAX) in caught.value.detail
    assert await store.catalogue_version() == version, "what is refused changes nothing"
    await store.update_meter("default", there.id, MeterChange(name="a word"), NOW_MS)
    await store.create_meter("other", draft, NOW_MS)
    later_ms = NOW_MS + METER_CHANGES_WINDOW_MS
    await store.create_meter("default", draft, later_ms)


async def test_the_settings_file_is_free(store: CatalogueStore, control_database: Database) -> None:
    await _had(control_database, [NOW_MS] * METER_CHANGES_MAX)
    await store.put_settings_meters("default", [DRAFT], NOW_MS)
    await store.put_settings_meters("default", [replace(DRAFT, event_type="other")], NOW_MS)


async def test_what_the_settings_file_made_is_not_counted(
    store: CatalogueStore, control_database: Database
) -> None:
    await _had(control_database, [NOW_MS] * METER_CHANGES_MAX, SETTINGS)
    await store.create_meter("default", DRAFT, NOW_MS)
