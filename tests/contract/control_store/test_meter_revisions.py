"""What every CatalogueStore and RevisionStore promise of revisions, on SQLite and PostgreSQL."""

from collections.abc import Awaitable
from dataclasses import replace

import pytest

from meterline.backends.control_store.access.changes import read_changes
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.meters.revisions import SqlRevisionStore
from meterline.backends.control_store.report_store import SqlReportStore
from meterline.limits import METER_PROPOSALS_MAX, SUPERSEDED_KEPT_MS
from meterline.meter import (
    Aggregation,
    CatalogueStore,
    Meter,
    MeterChange,
    MeterDraft,
    RevisionState,
    RevisionStore,
    revision_at,
    timeline,
)
from meterline.problem import Problem, ProblemType
from meterline.report import INTERVALS, Report, ReportChange, ReportFilter, Schedule
from meterline.window import DAY_MS, MINUTE_MS, rfc3339

NOW_MS = 1_700_000_000_000
BORDER_MS = 28_000_000 * MINUTE_MS
DRAFT = MeterDraft(
    "tokens", "Tokens", Aggregation.SUM, "prompt", "$.tokens", dimensions=(("model", "$.model"),)
)
BILLED = MeterChange(value_property="$.billed")


@pytest.fixture
def store(control_database: Database) -> CatalogueStore:
    return SqlCatalogueStore(control_database)


@pytest.fixture
def revisions(control_database: Database) -> RevisionStore:
    return SqlRevisionStore(control_database)


@pytest.fixture
async def made(store: CatalogueStore) -> Meter:
    return await store.create_meter("default", DRAFT, NOW_MS)


async def _refusal(awaited: Awaitable[object]) -> Problem:
    with pytest.raises(Problem) as caught:
        await awaited
    return caught.value


async def _folded(store: CatalogueStore) -> list[int]:
    return [meter.revision for meter in (await store.catalogue()).meters]


async def _in_force(store: CatalogueStore) -> Meter:
    (meter,) = (await store.catalogue()).in_force
    assert meter == await store.meter("default", "tokens")
    assert [meter] == await store.meters("default")
    return meter


async def _told(database: Database) -> list[tuple[str, str, str]]:
    async def ask(connection: Connection) -> list[tuple[str, str, str]]:
        found = await read_changes(connection, "default", 100)
        return [(one.author, one.action.value, one.detail) for one in reversed(found)]

    return await database.read(ask)


async def test_a_proposal_is_folded_and_answers_nothing_until_it_is_switched(
    store: CatalogueStore, revisions: RevisionStore, made: Meter, control_database: Database
) -> None:
    one = await revisions.propose("default", "tokens", BILLED, NOW_MS + 1, author="key:1")
    assert (one.number, one.state) == (2, RevisionState.PROPOSED)
    assert (one.meter.value_property, one.made_at_ms) == ("$.billed", NOW_MS + 1)
    assert await _in_force(store) == made
    assert await _folded(store) == [1, 2]
    assert await store.filling() == []
    assert await store.switch_filled(2, NOW_MS) is None  # nobody asked for it
    asked = await revisions.request_switch("default", made.id, 2, None, NOW_MS + 2, author="key:1")
    assert asked.state is RevisionState.FILLING
    assert await revisions.waiting("default") == {made.id: asked}
    assert await store.filling() == [2]
    assert await _in_force(store) == made
    after = await store.switch_filled(2, NOW_MS + 3)
    assert after == await _in_force(store)
    assert after == replace(made, revision=2, value_property="$.billed", updated_at_ms=NOW_MS + 3)
    assert await store.switch_filled(2, NOW_MS + 4) is None  # again, by another worker
    assert await _folded(store) == [2]
    assert await store.filling() == []
    assert (await _told(control_database))[1:] == [
        ("key:1", "propose", "value_property, revision 2"),
        ("key:1", "switch", "revision 2 asked for"),
        ("aggregator", "switch", "revision 2"),
    ]
    old = await revisions.revision("default", "tokens", 1)
    assert (old.state, old.ended_at_ms, old.folded) == (
        RevisionState.SUPERSEDED,
        NOW_MS + 3,
        False,
    )


async def test_a_version_is_made_where_what_is_folded_changes_and_only_there(
    store: CatalogueStore, revisions: RevisionStore, made: Meter
) -> None:
    await revisions.propose("default", made.id, BILLED, NOW_MS)
    assert await store.catalogue_version() == 2
    await revisions.request_switch("default", made.id, 2, BORDER_MS, NOW_MS)
    assert await store.catalogue_version() == 2
    await store.switch_filled(2, NOW_MS)
    assert await store.catalogue_version() == 2  # the old one answers earlier windows
    await store.update_meter("default", made.id, MeterChange(event_type="other"), NOW_MS)
    assert await store.catalogue_version() == 3
    await store.switch_filled(3, NOW_MS)
    assert await store.catalogue_version() == 4
    assert await _folded(store) == [3]


async def test_with_a_first_instant_the_older_one_answers_before(
    store: CatalogueStore, made: Meter
) -> None:
    change = replace(BILLED, effective_from_ms=BORDER_MS)
    await store.update_meter("default", "tokens", change, NOW_MS)
    there = await _in_force(store)
    assert (there.revision, there.before) == (1, None)
    await store.switch_filled(2, NOW_MS)
    there = await _in_force(store)
    assert there.effective_from_ms == BORDER_MS
    assert there.before == replace(
        made, state=RevisionState.EARLIER, updated_at_ms=there.updated_at_ms
    )
    assert await _folded(store) == [1, 2]
    later = replace(MeterChange(event_type="other"), effective_from_ms=BORDER_MS + DAY_MS)
    await store.update_meter("default", "tokens", later, NOW_MS)
    await store.switch_filled(3, NOW_MS)
    there = await _in_force(store)
    instants = [BORDER_MS - 1, BORDER_MS, BORDER_MS + DAY_MS - 1, BORDER_MS + DAY_MS]
    assert [revision_at(there, at_ms).revision for at_ms in instants] == [1, 2, 2, 3]
    # from an instant before both on: what lies behind it answers nothing any more
    early = replace(MeterChange(dimensions=()), effective_from_ms=BORDER_MS - DAY_MS)
    await store.update_meter("default", "tokens", early, NOW_MS)
    await store.switch_filled(4, NOW_MS)
    assert [part.revision for part in timeline(await _in_force(store))] == [1, 4]
    assert await _folded(store) == [1, 4]


async def test_a_proposal_made_before_another_may_be_switched_after_it(
    store: CatalogueStore, revisions: RevisionStore, made: Meter
) -> None:
    await revisions.propose("default", made.id, BILLED, NOW_MS)
    await store.update_meter("default", made.id, MeterChange(event_type="other"), NOW_MS)
    await store.switch_filled(3, NOW_MS)
    await revisions.request_switch("default", made.id, 2, BORDER_MS, NOW_MS)
    await store.switch_filled(2, NOW_MS)
    assert [part.revision for part in timeline(await _in_force(store))] == [3, 2]


async def test_a_second_change_replaces_the_one_that_waits_and_adds_to_it(
    store: CatalogueStore, revisions: RevisionStore, made: Meter, control_database: Database
) -> None:
    dated = replace(BILLED, effective_from_ms=BORDER_MS)
    await store.update_meter("default", "tokens", dated, NOW_MS)
    await store.update_meter("default", "tokens", MeterChange(dimensions=()), NOW_MS)
    (waiting,) = (await revisions.waiting("default")).values()
    assert (waiting.number, waiting.effective_from_ms) == (3, BORDER_MS)
    assert (waiting.meter.value_property, waiting.meter.dimensions) == ("$.billed", ())
    assert await _folded(store) == [1, 3]
    assert (await revisions.revision("default", "tokens", 2)).state is RevisionState.DISCARDED
    # the same again, and other words: nothing is measured anew
    await store.update_meter("default", "tokens", replace(BILLED, name="Billed"), NOW_MS)
    assert await store.filling() == [3]
    # back to what is in force
    back = MeterChange(value_property="$.tokens", dimensions=DRAFT.dimensions)
    assert (await store.update_meter("default", "tokens", back, NOW_MS)).name == "Billed"
    assert await store.filling() == []
    assert await _folded(store) == [1]
    assert [detail for _, _, detail in await _told(control_database)] == [
        "",
        f"value_property, revision 2 from {rfc3339(BORDER_MS)}",
        f"dimensions, in place of revision 2, revision 3 from {rfc3339(BORDER_MS)}",
        "name",
        "value_property, dimensions, in place of revision 3",
    ]
    assert made.revision == (await _in_force(store)).revision


async def test_asking_for_a_proposal_replaces_what_waits(
    store: CatalogueStore, revisions: RevisionStore, made: Meter
) -> None:
    await revisions.propose("default", made.id, BILLED, NOW_MS)
    await store.update_meter("default", made.id, MeterChange(event_type="other"), NOW_MS)
    await revisions.request_switch("default", made.id, 2, None, NOW_MS)
    assert await store.filling() == [2]
    assert await _folded(store) == [1, 2]


async def test_the_instant_of_what_waits_can_be_changed(
    store: CatalogueStore, revisions: RevisionStore, made: Meter
) -> None:
    await store.update_meter("default", made.id, BILLED, NOW_MS)
    dated = replace(BILLED, effective_from_ms=BORDER_MS)
    await store.update_meter("default", made.id, dated, NOW_MS)
    assert await store.filling() == [2]
    assert (await revisions.revision("default", made.id, 2)).effective_from_ms == BORDER_MS
    await revisions.request_switch("default", made.id, 2, None, NOW_MS)
    assert (await revisions.revision("default", made.id, 2)).effective_from_ms is None
    problem = await _refusal(
        store.update_meter("default", made.id, replace(BILLED, effective_from_ms=7), NOW_MS)
    )
    assert [fault.field for fault in problem.faults] == ["effective_from"]
    await store.switch_filled(2, NOW_MS)
    problem = await _refusal(store.update_meter("default", made.id, dated, NOW_MS))
    assert [fault.field for fault in problem.faults] == ["effective_from"]
    assert await store.filling() == []


async def test_what_is_discarded_is_folded_no_more_and_what_answered_stays(
    store: CatalogueStore, revisions: RevisionStore, made: Meter, control_database: Database
) -> None:
    await revisions.propose("default", made.id, BILLED, NOW_MS)
    await revisions.discard("default", made.id, 2, NOW_MS, author="key:7")
    await revisions.discard("default", made.id, 2, NOW_MS)
    assert await _folded(store) == [1]
    assert (await _told(control_database))[2:] == [("key:7", "discard", "revision 2")]
    for number in (1, 2):
        if number == 1:
            problem = await _refusal(revisions.discard("default", made.id, number, NOW_MS))
        else:
            asked = revisions.request_switch("default", made.id, number, None, NOW_MS)
            problem = await _refusal(asked)
        assert problem.type is ProblemType.CONFLICT
    assert (await revisions.request_switch("default", made.id, 1, None, NOW_MS)).number == 1


async def test_proposals_are_few_differ_and_are_of_live_meters_of_the_api(
    store: CatalogueStore, revisions: RevisionStore, made: Meter
) -> None:
    same = revisions.propose("default", made.id, MeterChange(event_type="prompt"), NOW_MS)
    assert (await _refusal(same)).type is ProblemType.BAD_REQUEST
    bad = revisions.propose("default", made.id, MeterChange(value_property="x"), NOW_MS)
    assert [fault.field for fault in (await _refusal(bad)).faults] == ["value_property"]
    for number in range(METER_PROPOSALS_MAX):
        change = MeterChange(event_type=f"other{number}")
        await revisions.propose("default", made.id, change, NOW_MS)
    problem = await _refusal(revisions.propose("default", made.id, BILLED, NOW_MS))
    assert problem.type is ProblemType.CONFLICT
    for namespace, name, number in (
        ("other", made.id, 2),
        ("default", "nothing", 2),
        ("default", made.id, 99),
    ):
        asked = revisions.revision(namespace, name, number)
        assert (await _refusal(asked)).type is ProblemType.NOT_FOUND
        gone = revisions.discard(namespace, name, number, NOW_MS)
        assert (await _refusal(gone)).type is ProblemType.NOT_FOUND
    page = await revisions.listed("default", "tokens", 2, None)
    rest = await revisions.listed("default", "tokens", 100, page[-1].number)
    assert [one.number for one in page + rest] == [6, 5, 4, 3, 2, 1]
    await store.put_settings_meters("default", [DRAFT], NOW_MS)
    problem = await _refusal(revisions.propose("default", made.id, BILLED, NOW_MS))
    assert "settings file" in problem.detail


async def test_the_end_of_a_meter_ends_what_waits(
    store: CatalogueStore, revisions: RevisionStore, made: Meter
) -> None:
    await revisions.propose("default", made.id, MeterChange(event_type="other"), NOW_MS)
    await store.update_meter("default", made.id, BILLED, NOW_MS)
    await store.delete_meter("default", made.id, NOW_MS)
    assert await _folded(store) == []
    assert await store.filling() == []
    assert await store.switch_filled(3, NOW_MS) is None
    (gone,) = await store.deleted_meters("default", 5)
    assert gone.revision == 1


def _report(meter: Meter, *group_by: str) -> Report:
    return Report(
        id="01M7ZMF4YA7D2SQ292V0W9JPT8",
        namespace="default",
        slug="daily",
        meter_id=meter.id,
        schedule=Schedule(INTERVALS["1d"], 0),
        group_by=group_by,
        endpoint="https://receiver.example.com/",
        signing_secret_sealed=b"x",
        created_at_ms=NOW_MS,
        updated_at_ms=NOW_MS,
        filter=ReportFilter(),
    )


async def test_a_superseded_revision_is_kept_for_the_runs_of_a_report(
    store: CatalogueStore, made: Meter, control_database: Database
) -> None:
    reports = SqlReportStore(control_database)
    report = _report(made, "model")
    await reports.create_report(report, 0, author="key:1")
    await store.update_meter("default", made.id, BILLED, NOW_MS)
    await store.switch_filled(2, NOW_MS)
    assert await _folded(store) == [1, 2]
    assert (await _in_force(store)).revision == 2
    assert await store.retire(NOW_MS + SUPERSEDED_KEPT_MS - 1) == set()
    version = await store.catalogue_version()
    assert await store.retire(NOW_MS + SUPERSEDED_KEPT_MS) == {1}
    assert await store.retire(NOW_MS + SUPERSEDED_KEPT_MS) == set()
    assert await store.catalogue_version() == version + 1
    assert await _folded(store) == [2]
    await store.update_meter("default", made.id, MeterChange(event_type="o"), NOW_MS)
    await store.switch_filled(4, NOW_MS)
    assert await _folded(store) == [2, 4]
    await reports.delete_report(report.id, NOW_MS, author="key:1")
    assert await store.retire(NOW_MS) == {2}


async def test_no_report_comes_to_group_by_what_goes(
    store: CatalogueStore, made: Meter, control_database: Database
) -> None:
    reports = SqlReportStore(control_database)
    await store.update_meter("default", made.id, MeterChange(dimensions=()), NOW_MS)
    grouped = reports.create_report(_report(made, "model"), 0, author="key:1")
    problem = await _refusal(grouped)
    assert problem.type is ProblemType.CONFLICT
    assert "'model'" in problem.detail
    await reports.create_report(_report(made), 0, author="key:1")
    change = ReportChange(group_by=("model",))
    problem = await _refusal(
        reports.update_report("01M7ZMF4YA7D2SQ292V0W9JPT8", change, NOW_MS, author="key:1")
    )
    assert problem.type is ProblemType.CONFLICT
