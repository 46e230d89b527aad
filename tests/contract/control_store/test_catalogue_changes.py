"""What every CatalogueStore promises of updates and of the record of changes, on SQLite and
PostgreSQL.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace

import pytest
from sqlalchemy import Column, insert, update

from meterline.access import AGGREGATOR, COMMAND, SETTINGS, Action, Change, Kind
from meterline.backends.control_store.access.changes import read_changes
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.tables.reports import reports
from meterline.meter import Aggregation, CatalogueStore, Meter, MeterChange, MeterDraft
from meterline.problem import Problem, ProblemType

NOW_MS = 1_700_000_000_123
LATER_MS = NOW_MS + 9_000
DRAFT = MeterDraft(
    key="distance",
    name="Distance flown",
    aggregation=Aggregation.SUM,
    event_type="flight",
    value_property="$.distance",
    description="Miles",
    dimensions=(("dest", "$.dest"), ("origin", "$.origin")),
    events_from_ms=5,
    labels=(("team", "air"),),
)


@pytest.fixture
def store(control_database: Database) -> CatalogueStore:
    """A fresh catalogue."""
    return SqlCatalogueStore(control_database)


@pytest.fixture
async def made(store: CatalogueStore) -> Meter:
    """A meter in it."""
    return await store.create_meter("default", DRAFT, NOW_MS, author="key:1")


async def _refusal(awaited: Awaitable[object]) -> Problem:
    with pytest.raises(Problem) as caught:
        await awaited
    return caught.value


async def _told(database: Database, namespace: str = "default") -> list[tuple[str, ...]]:
    """Author, action, name and detail of every change, first one first."""

    async def ask(connection: Connection) -> list[Change]:
        return await read_changes(connection, namespace, 100)

    found = await database.read(ask)
    assert all(change.kind is Kind.METER and change.subject_id for change in found)
    return [(c.author, c.action.value, c.name, c.detail) for c in reversed(found)]


async def test_other_words_change_at_once_and_cost_no_version(
    store: CatalogueStore, made: Meter, control_database: Database
) -> None:
    change = MeterChange(name="Miles", description="", labels=(("b", "2"), ("a", "1")))
    after = await store.update_meter("default", "distance", change, LATER_MS, author="key:2")
    assert after == replace(
        made,
        name="Miles",
        description="",
        labels=(("a", "1"), ("b", "2")),
        updated_at_ms=LATER_MS,
    )
    assert await store.meter("default", made.id) == after
    assert (await store.catalogue()).meters == (after,)
    assert await store.catalogue_version() == 1
    assert await _told(control_database) == [
        ("key:1", "create", "distance", ""),
        ("key:2", "update", "distance", "name, description, labels"),
    ]


@pytest.mark.parametrize(
    ("change", "after", "told"),
    [
        (MeterChange(event_type="trip"), {"event_type": "trip"}, "event_type"),
        (MeterChange(value_property="$.miles"), {"value_property": "$.miles"}, "value_property"),
        (MeterChange(dimensions=()), {"dimensions": ()}, "dimensions"),
        (
            MeterChange(name="N", dimensions=(("b", "$.b"), ("a", "$.a"))),
            {"name": "N", "dimensions": (("a", "$.a"), ("b", "$.b"))},
            "name, dimensions",
        ),
    ],
)
async def test_what_is_measured_changes_by_a_new_revision_of_the_same_meter(
    store: CatalogueStore,
    made: Meter,
    control_database: Database,
    change: MeterChange,
    after: dict[str, object],
    told: str,
) -> None:
    await store.create_meter("other", DRAFT, NOW_MS)
    kept = replace(made, updated_at_ms=LATER_MS, name=change.name or made.name)
    assert await store.update_meter("default", made.id, change, LATER_MS) == kept
    assert [m.revision for m in (await store.catalogue()).meters] == [1, 2, 3]
    expected = replace(made, revision=3, updated_at_ms=LATER_MS + 1, **after)  # type: ignore[arg-type]
    assert await store.switch_filled(3, LATER_MS + 1) == expected
    assert await store.meter("default", "distance") == expected
    assert [m.revision for m in (await store.catalogue()).meters] == [2, 3]
    assert await store.catalogue_version() == 4  # the one before it is folded no more
    assert (await _told(control_database))[1:] == [
        (COMMAND, "update", "distance", f"{told}, revision 3"),
        (AGGREGATOR, "switch", "distance", "revision 3"),
    ]


@pytest.mark.parametrize(
    "change",
    [
        MeterChange(),
        MeterChange(
            name=DRAFT.name,
            description=DRAFT.description,
            labels=DRAFT.labels,
            event_type=DRAFT.event_type,
            value_property=DRAFT.value_property,
            dimensions=DRAFT.dimensions[::-1],
        ),
    ],
)
async def test_an_update_that_changes_nothing_is_no_change(
    store: CatalogueStore, made: Meter, control_database: Database, change: MeterChange
) -> None:
    assert await store.update_meter("default", "distance", change, LATER_MS) == made
    assert await store.catalogue_version() == 1
    assert len(await _told(control_database)) == 1


async def test_a_bad_definition_is_refused_with_all_its_faults(
    store: CatalogueStore, made: Meter, control_database: Database
) -> None:
    change = MeterChange(name="", event_type="", dimensions=(("d", DRAFT.value_property or ""),))
    problem = await _refusal(store.update_meter("default", "distance", change, LATER_MS))
    assert problem.type is ProblemType.BAD_REQUEST
    assert [fault.field for fault in problem.faults] == ["name", "event_type", "dimensions.d"]
    assert await store.meter("default", "distance") == made
    assert len(await _told(control_database)) == 1


async def test_what_is_not_there_or_elsewhere_is_not_found(
    store: CatalogueStore, made: Meter
) -> None:
    change = MeterChange(name="N")
    for namespace, name in (("other", made.id), ("other", "distance"), ("default", "nothing")):
        problem = await _refusal(store.update_meter(namespace, name, change, LATER_MS))
        assert problem.type is ProblemType.NOT_FOUND
    await store.delete_meter("default", made.id, NOW_MS)
    problem = await _refusal(store.update_meter("default", made.id, change, LATER_MS))
    assert problem.type is ProblemType.NOT_FOUND


async def test_a_meter_of_the_settings_file_is_changed_only_there(
    store: CatalogueStore, control_database: Database
) -> None:
    await store.put_settings_meters("default", [DRAFT], NOW_MS)
    problem = await _refusal(
        store.update_meter("default", "distance", MeterChange(name="N"), LATER_MS)
    )
    assert problem.type is ProblemType.CONFLICT
    assert "settings file" in problem.detail
    await store.put_settings_meters("default", [DRAFT], LATER_MS)
    shorter = replace(DRAFT, dimensions=())
    await store.put_settings_meters("default", [shorter], LATER_MS)
    assert await _told(control_database) == [
        (SETTINGS, "create", "distance", ""),
        (SETTINGS, "update", "distance", "dimensions, revision 2"),
    ]


@pytest.mark.usefixtures("made")
async def test_a_meter_that_the_settings_file_takes_over_says_so(
    store: CatalogueStore, control_database: Database
) -> None:
    await store.put_settings_meters("default", [DRAFT], LATER_MS)
    told = await _told(control_database)
    assert told[-1] == (SETTINGS, "update", "distance", "taken over by the settings file")


async def test_a_dimension_that_a_report_groups_by_stays(
    store: CatalogueStore, made: Meter, control_database: Database
) -> None:
    await _add_report(control_database, made, '["origin"]')
    without = MeterChange(dimensions=(("dest", "$.dest"),))
    problem = await _refusal(store.update_meter("default", "distance", without, LATER_MS))
    assert problem.type is ProblemType.CONFLICT
    assert "'monthly'" in problem.detail
    assert "'origin'" in problem.detail
    other = MeterChange(dimensions=(("origin", "$.from"), ("carrier", "$.carrier")))
    await store.update_meter("default", "distance", other, LATER_MS)
    after = await store.switch_filled(2, LATER_MS)
    assert after is not None
    assert after.dimensions == (("carrier", "$.carrier"), ("origin", "$.from"))

    async def drop(connection: Connection) -> None:
        await connection.execute(update(reports).values(deleted_at_ms=NOW_MS))

    await control_database.write(drop)
    await store.update_meter("default", "distance", without, LATER_MS)
    assert await store.filling() == [3]


async def _add_report(database: Database, meter: Meter, group_by: str) -> None:
    async def report(connection: Connection) -> None:
        row = {c.name: _some_value(c) for c in reports.c if not c.nullable}
        named = {"id": "r", "slug": "monthly", "meter_id": meter.id, "group_by": group_by}
        await connection.execute(insert(reports).values({**row, **named}))

    await database.write(report)


def _some_value(column: Column[object]) -> object:
    return {str: "", int: 0, bytes: b""}[column.type.python_type]


@pytest.mark.usefixtures("made")
async def test_updates_at_once_are_all_made_one_after_the_other(
    store: CatalogueStore, control_database: Database
) -> None:
    changes = [MeterChange(dimensions=((f"d{n}", "$.d"),)) for n in range(6)]
    words = [MeterChange(name=f"N{n}") for n in range(6)]
    after = await asyncio.gather(
        *(store.update_meter("default", "distance", change, LATER_MS) for change in changes + words)
    )
    assert {meter.revision for meter in after} == {1}
    (waiting,) = await store.filling()
    assert waiting == await store.catalogue_version() == 7  # each took the place of the one before
    last = await store.meter("default", "distance")
    assert last is not None
    assert last.name in {change.name for change in words}
    assert len(await _told(control_database)) == 13


@pytest.mark.usefixtures("made")
async def test_what_is_refused_or_finds_nothing_to_do_is_not_recorded(
    store: CatalogueStore, control_database: Database
) -> None:
    await _refusal(store.create_meter("default", DRAFT, NOW_MS))
    await _refusal(store.delete_meter("default", "nothing", NOW_MS))
    await store.delete_meter("default", "distance", LATER_MS, author="key:9")
    await _refusal(store.delete_meter("default", "distance", NOW_MS))
    assert await _told(control_database) == [
        ("key:1", Action.CREATE.value, "distance", ""),
        ("key:9", Action.DELETE.value, "distance", ""),
    ]
    assert await _told(control_database, "other") == []


async def test_deleted_meters_are_listed_apart_the_last_first(
    store: CatalogueStore, made: Meter
) -> None:
    await store.delete_meter("default", made.id, LATER_MS)
    again = await store.create_meter("default", DRAFT, NOW_MS)
    await store.delete_meter("default", again.id, LATER_MS + 1)
    living = await store.create_meter("default", DRAFT, NOW_MS)
    await store.create_meter("other", DRAFT, NOW_MS)
    gone = [replace(again, deleted_at_ms=LATER_MS + 1), replace(made, deleted_at_ms=LATER_MS)]
    assert await store.deleted_meters("default", 10) == gone
    assert await store.deleted_meters("default", 1) == gone[:1]
    assert await store.deleted_meters("other", 10) == []
    assert await store.meters("default") == [living]
