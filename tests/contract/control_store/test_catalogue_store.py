"""What every CatalogueStore promises (meterline/ports.py), on SQLite and PostgreSQL."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Column, insert, update

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.tables.meters import meters as meters_table
from meterline.backends.control_store.tables.reports import reports
from meterline.limits import METERS_MAX
from meterline.meter import (
    Aggregation,
    CatalogueStore,
    ListedMeter,
    Meter,
    MeterChange,
    MeterDraft,
    NewestRevisions,
)
from meterline.problem import Problem, ProblemType
from meterline.window import DAY_MS

NOW_MS = 1_700_000_000_123
DRAFT = MeterDraft(
    key="distance",
    name="Distance flown",
    aggregation=Aggregation.SUM,
    event_type="flight",
    value_property="$.distance",
    description="Miles",
    dimensions=(("origin", "$.origin"), ("dest", "$['dest']")),
    events_from_ms=5,
    labels=(("team", "air"),),
)


@pytest.fixture
def store(control_database: Database) -> CatalogueStore:
    """A fresh catalogue."""
    return SqlCatalogueStore(control_database)


def _draft(key: str) -> MeterDraft:
    return replace(DRAFT, key=key)


async def _refusal(awaited: object) -> Problem:
    assert asyncio.iscoroutine(awaited)
    with pytest.raises(Problem) as caught:
        await awaited
    return caught.value


async def test_an_empty_catalogue_has_version_zero(store: CatalogueStore) -> None:
    found = await store.catalogue()
    assert (found.version, found.meters) == (0, ())
    assert await store.catalogue_version() == 0
    assert await store.meters("default") == []


async def test_a_created_meter_reads_back_as_it_was_given(store: CatalogueStore) -> None:
    made = await store.create_meter("default", DRAFT, NOW_MS)
    assert made == Meter(
        id=made.id,
        revision=1,
        namespace="default",
        key="distance",
        name="Distance flown",
        description="Miles",
        aggregation=Aggregation.SUM,
        event_type="flight",
        value_property="$.distance",
        dimensions=(("dest", "$['dest']"), ("origin", "$.origin")),  # sorted by name
        created_at_ms=NOW_MS,
        updated_at_ms=NOW_MS,
        from_settings=False,
        events_from_ms=5,
        labels=(("team", "air"),),
    )
    assert len(made.id) == 26
    assert (await store.catalogue()).meters == (made,)
    assert await store.meters("default") == [made]


async def test_every_change_of_what_is_measured_makes_a_version_and_a_revision_is_its_version(
    store: CatalogueStore,
) -> None:
    first = await store.create_meter("default", _draft("a"), NOW_MS)
    second = await store.create_meter("other", _draft("a"), NOW_MS)
    assert (first.revision, second.revision) == (1, 2)
    await store.delete_meter("default", "a", NOW_MS)
    third = await store.create_meter("default", _draft("a"), NOW_MS + 1)
    assert third.revision == await store.catalogue_version() == 4
    assert third.id != first.id
    assert [m.revision for m in (await store.catalogue()).meters] == [2, 4]


async def test_a_meter_is_found_by_id_in_any_case_and_by_key(store: CatalogueStore) -> None:
    made = await store.create_meter("default", DRAFT, NOW_MS)
    for name in (made.id, made.id.lower(), "distance"):
        assert await store.meter("default", name) == made
    assert await store.meter("other", made.id) is None
    assert await store.meter("default", "Distance") is None


async def test_an_id_wins_over_a_key(store: CatalogueStore) -> None:
    by_id = await store.create_meter("default", _draft("a"), NOW_MS)
    by_key = await store.create_meter("default", _draft(by_id.id.lower()), NOW_MS)
    assert await store.meter("default", by_key.key) == by_id
    await store.delete_meter("default", by_id.id, NOW_MS)
    assert await store.meter("default", by_key.key) == by_key


async def test_a_taken_key_is_a_conflict_and_changes_nothing(store: CatalogueStore) -> None:
    await store.create_meter("default", DRAFT, NOW_MS)
    problem = await _refusal(store.create_meter("default", DRAFT, NOW_MS))
    assert problem.type is ProblemType.CONFLICT
    assert "'distance'" in problem.detail
    assert await store.catalogue_version() == 1


async def test_a_deleted_meter_is_gone_and_a_second_delete_is_not_found(
    store: CatalogueStore,
) -> None:
    made = await store.create_meter("default", DRAFT, NOW_MS)
    assert (await _refusal(store.delete_meter("other", made.id, 1))).type is ProblemType.NOT_FOUND
    await store.delete_meter("default", made.id, NOW_MS)
    assert await store.meter("default", made.id) is None
    assert (await store.catalogue()).meters == ()
    problem = await _refusal(store.delete_meter("default", made.id, NOW_MS))
    assert problem.type is ProblemType.NOT_FOUND
    assert await store.catalogue_version() == 2


async def test_a_meter_with_a_report_is_in_use_until_the_report_is_deleted(
    store: CatalogueStore, control_database: Database
) -> None:
    made = await store.create_meter("default", DRAFT, NOW_MS)

    async def report(connection: Connection) -> None:
        row = {c.name: _some_value(c) for c in reports.c if not c.nullable}
        named = {"id": "r", "slug": "monthly", "meter_id": made.id, "group_by": "[]"}
        await connection.execute(insert(reports).values({**row, **named}))

    async def drop(connection: Connection) -> None:
        await connection.execute(update(reports).values(deleted_at_ms=NOW_MS))

    await control_database.write(report)
    problem = await _refusal(store.delete_meter("default", made.id, NOW_MS))
    assert problem.type is ProblemType.CONFLICT
    assert "'monthly'" in problem.detail
    assert await store.catalogue_version() == 1
    await control_database.write(drop)
    await store.delete_meter("default", made.id, NOW_MS)
    assert await store.meter("default", made.id) is None


def _some_value(column: Column[object]) -> object:
    return {str: "", int: 0, bytes: b""}[column.type.python_type]


async def test_the_newest_revisions_are_those_of_the_catalogue(store: CatalogueStore) -> None:
    async def agree() -> NewestRevisions:
        told, found = await store.newest_revisions(), await store.catalogue()
        in_force = max((meter.revision for meter in found.in_force), default=0)
        assert told == NewestRevisions(found.version, found.newest, in_force)
        assert await store.newest_in_force(NOW_MS) == in_force
        numbers = tuple(meter.revision for meter in found.meters)
        assert await store.folded_revisions() == (found.version, numbers)
        return told

    assert await agree() == NewestRevisions(0, 0, 0)
    await store.create_meter("default", _draft("a"), NOW_MS)
    last = await store.create_meter("other", _draft("b"), NOW_MS)
    assert (await agree()).in_force == last.revision
    await store.update_meter("default", "a", MeterChange(event_type="trip"), NOW_MS)
    waiting = await agree()
    assert waiting.newest > waiting.in_force == last.revision
    await store.delete_meter("other", "b", NOW_MS)
    assert (await agree()).in_force < last.revision


async def test_what_is_in_force_for_long_is_told(store: CatalogueStore) -> None:
    first = await store.create_meter("default", _draft("a"), NOW_MS)
    second = await store.create_meter("other", _draft("b"), NOW_MS + 10)
    asked = [(NOW_MS - 1, 0), (NOW_MS, first.revision), (NOW_MS + 9, first.revision)]
    for until_ms, expected in [*asked, (NOW_MS + 10, second.revision)]:
        assert await store.newest_in_force(until_ms) == expected
    await store.update_meter("other", "b", MeterChange(event_type="trip"), NOW_MS + 20)
    assert await store.newest_in_force(NOW_MS + 20) == second.revision  # the newer one is filling
    await store.delete_meter("other", "b", NOW_MS + 30)
    assert await store.newest_in_force(NOW_MS + 30) == first.revision


async def test_meters_come_by_creation(store: CatalogueStore) -> None:
    for key in ("c", "a", "b"):
        await store.create_meter("default", _draft(key), NOW_MS)
    await store.create_meter("other", _draft("d"), NOW_MS)
    assert [m.key for m in await store.meters("default")] == ["c", "a", "b"]


async def test_some_meters_are_read_and_all_are_listed(store: CatalogueStore) -> None:
    made = [
        await store.create_meter("default", replace(_draft(key), event_type=type_), NOW_MS + at)
        for at, (key, type_) in enumerate([("c", "trip"), ("a", "flight"), ("b", "walk")])
    ]
    await store.create_meter("other", _draft("d"), NOW_MS)
    listed = await store.listed_meters("default")
    assert listed == [
        ListedMeter(it.id, it.key, it.name, it.aggregation, it.created_at_ms, it.updated_at_ms)
        for it in made
    ]

    async def keys(**asked: Any) -> list[str]:
        return [meter.key for meter in await store.meters("default", **asked)]

    assert await keys(ids=[made[2].id, made[0].id, "none"]) == ["c", "b"]
    assert await keys(event_types={"flight", "walk"}) == ["a", "b"]
    assert await keys(ids=[made[0].id], event_types={"walk"}) == []
    assert await keys(ids=[]) == []
    await store.delete_meter("default", "a", NOW_MS)
    assert await keys(event_types={"flight"}) == []
    assert [it.key for it in await store.listed_meters("default")] == ["c", "b"]


async def test_a_meter_is_read_by_types_that_it_counted_before(store: CatalogueStore) -> None:
    made = await store.create_meter("default", _draft("a"), NOW_MS)
    change = MeterChange(event_type="trip", effective_from_ms=NOW_MS - NOW_MS % DAY_MS)
    await store.update_meter("default", "a", change, NOW_MS)
    (revision,) = await store.filling()
    assert await store.switch_filled(revision, NOW_MS) is not None
    for type_ in ("flight", "trip"):
        (found,) = await store.meters("default", event_types=[type_])
        assert (found.id, found.event_type) == (made.id, "trip")
        assert found.before is not None
        assert found.before.event_type == "flight"


async def test_a_namespace_has_a_bound_of_meters(
    store: CatalogueStore, control_database: Database
) -> None:
    async def fill(connection: Connection) -> None:
        await connection.execute(insert(meters_table), [_row(n) for n in range(METERS_MAX - 1)])

    await control_database.write(fill)
    await store.create_meter("default", _draft("last"), NOW_MS)
    problem = await _refusal(store.create_meter("default", _draft("more"), NOW_MS))
    assert problem.type is ProblemType.CONFLICT
    assert str(METERS_MAX) in problem.detail
    await store.create_meter("other", _draft("more"), NOW_MS)
    more = SqlCatalogueStore(control_database, METERS_MAX + 1)  # as the operator set it
    await more.create_meter("default", _draft("one_more"), NOW_MS)
    assert (await _refusal(more.create_meter("default", _draft("more"), NOW_MS))).type is (
        ProblemType.CONFLICT
    )
    await store.delete_meter("default", "one_more", NOW_MS)
    await store.delete_meter("default", "last", NOW_MS)
    await store.create_meter("default", _draft("more"), NOW_MS)


def _row(number: int) -> dict[str, object]:
    return {
        "id": f"{number:026d}",
        "namespace": "default",
        "key": f"m{number}",
        "name": "",
        "description": "",
        "labels": "{}",
        "from_settings": False,
        "created_version": 0,
        "created_at_ms": 0,
        "updated_at_ms": 0,
    }


async def test_changes_at_once_have_versions_of_their_own(store: CatalogueStore) -> None:
    drafts = [_draft(f"m{n}") for n in range(12)]
    made = await asyncio.gather(*(store.create_meter("default", d, NOW_MS) for d in drafts))
    assert sorted(m.revision for m in made) == list(range(1, 13))
    found = await store.catalogue()
    assert [m.revision for m in found.meters] == list(range(1, found.version + 1))


async def test_one_of_many_takes_a_key(store: CatalogueStore) -> None:
    tries = [store.create_meter("default", DRAFT, NOW_MS) for _ in range(6)]
    ended = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(end, Meter) for end in ended) == 1
    refused = [end.type for end in ended if isinstance(end, Problem)]
    assert refused == [ProblemType.CONFLICT] * 5
    assert await store.catalogue_version() == 1


async def test_a_meter_of_the_settings_file_is_made_once(store: CatalogueStore) -> None:
    (made,) = await store.put_settings_meters("default", [DRAFT], NOW_MS)
    assert made.from_settings
    assert await store.put_settings_meters("default", [DRAFT], NOW_MS + 9) == [made]
    assert await store.catalogue_version() == 1


async def test_several_meters_of_the_settings_file_are_made_together_or_not_at_all(
    control_database: Database,
) -> None:
    store = SqlCatalogueStore(control_database, meters_max=4)
    drafts = [_draft("a"), DRAFT, _draft("z")]
    made = await store.put_settings_meters("default", drafts, NOW_MS)
    assert [it.key for it in made] == [it.key for it in drafts]
    assert all(it.from_settings for it in made)
    assert await store.put_settings_meters("default", drafts, NOW_MS + 9) == made
    assert await store.catalogue_version() == len(drafts)
    with pytest.raises(Problem, match="4 meters"):
        await store.put_settings_meters("default", [_draft("b"), _draft("c")], NOW_MS + 10)
    assert [it.key for it in await store.meters("default")] == ["a", DRAFT.key, "z"]


async def test_a_changed_settings_meter_is_a_new_revision_of_the_same_meter(
    store: CatalogueStore,
) -> None:
    (made,) = await store.put_settings_meters("default", [DRAFT], NOW_MS)
    await store.create_meter("default", _draft("b"), NOW_MS)
    longer = replace(DRAFT, dimensions=(*DRAFT.dimensions, ("carrier", "$.carrier")))
    (changed,) = await store.put_settings_meters("default", [longer], NOW_MS + 9)
    assert changed == replace(made, updated_at_ms=NOW_MS + 9)  # it answers until the switch
    assert [m.revision for m in (await store.catalogue()).meters] == [1, 2, 3]
    assert await store.put_settings_meters("default", [longer], NOW_MS + 10) == [changed]
    after = await store.switch_filled(3, NOW_MS + 11)
    assert after is not None
    assert (after.id, after.revision, after.updated_at_ms) == (made.id, 3, NOW_MS + 11)
    assert after.dimension_names == ("carrier", "dest", "origin")
    assert [m.key for m in (await store.catalogue()).meters] == ["b", "distance"]
    assert [m.key for m in await store.meters("default")] == ["distance", "b"]


async def test_other_words_need_no_new_revision(store: CatalogueStore) -> None:
    (made,) = await store.put_settings_meters("default", [DRAFT], NOW_MS)
    named = replace(DRAFT, name="Miles", description="", labels=())
    (changed,) = await store.put_settings_meters("default", [named], NOW_MS + 9)
    assert changed == replace(
        made, name="Miles", description="", labels=(), updated_at_ms=NOW_MS + 9
    )
    assert await store.catalogue_version() == 1


async def test_the_settings_file_takes_a_meter_over_and_only_it_may_delete(
    store: CatalogueStore,
) -> None:
    made = await store.create_meter("default", DRAFT, NOW_MS)
    (taken,) = await store.put_settings_meters("default", [DRAFT], NOW_MS)
    assert taken == replace(made, from_settings=True)
    assert await store.catalogue_version() == 1
    problem = await _refusal(store.delete_meter("default", made.id, NOW_MS))
    assert problem.type is ProblemType.CONFLICT
    assert "settings file" in problem.detail


async def test_a_meter_that_left_the_settings_file_is_changed_and_ended_by_hand(
    store: CatalogueStore,
) -> None:
    (kept,) = await store.put_settings_meters("default", [_draft("kept")], NOW_MS)
    (made,) = await store.put_settings_meters("default", [DRAFT], NOW_MS)
    by_hand = await store.create_meter("default", _draft("by_hand"), NOW_MS)
    (elsewhere,) = await store.put_settings_meters("other", [DRAFT], NOW_MS)
    version = await store.catalogue_version()
    assert await store.release_settings_meters("default", {"kept"}, NOW_MS + 9) == [made]
    released = replace(made, from_settings=False, updated_at_ms=NOW_MS + 9)
    assert await store.meters("default") == [kept, released, by_hand]
    assert await store.meters("other") == [elsewhere]
    assert await store.catalogue_version() == version  # it is folded as before
    assert await store.release_settings_meters("default", {"kept"}, NOW_MS + 10) == []
    assert await store.put_settings_meters("default", [DRAFT], NOW_MS + 11) == [
        replace(made, updated_at_ms=NOW_MS + 11)
    ]
    await store.release_settings_meters("default", {"kept"}, NOW_MS + 12)
    await store.delete_meter("default", made.id, NOW_MS + 13)
    assert [meter.key for meter in await store.meters("default")] == ["kept", "by_hand"]


async def test_a_deleted_settings_key_can_be_made_by_the_file_again(store: CatalogueStore) -> None:
    made = await store.create_meter("default", DRAFT, NOW_MS)
    await store.delete_meter("default", made.id, NOW_MS)
    (again,) = await store.put_settings_meters("default", [DRAFT], NOW_MS)
    assert again.id != made.id
    assert again.revision == 3
