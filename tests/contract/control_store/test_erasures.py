"""What erasures promise in the control store (meterline/usage/erasure.py), on both databases."""

from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import Table, insert, select, update
from sqlalchemy.types import BigInteger, Boolean, Integer, LargeBinary

from meterline.access import Action, Change, Kind
from meterline.backends.control_store.access.changes import read_changes
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.progress.erased import FAILURE
from meterline.backends.control_store.progress.erasures import SqlErasureStore
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.backends.control_store.tables.access import changes, subjects
from meterline.backends.control_store.tables.columns import metadata
from meterline.backends.control_store.tables.erasures import erasures
from meterline.backends.control_store.tables.meters import meter_revisions, meters
from meterline.backends.control_store.tables.redrives import redrives
from meterline.backends.control_store.tables.reports import (
    replays,
    report_attempts,
    report_bodies,
    report_deliveries,
    report_last_errors,
    report_runs,
    reports,
    run_corrections,
)
from meterline.event import Growth, Layout
from meterline.ports import Unavailable
from meterline.problem import Problem
from meterline.usage import (
    Erasure,
    ErasureState,
    Seal,
    hidden_of,
)

NOW = 1_770_000_000_000
NAME = 'alice "the" first'
SPELLED = r"alice \"the\" first"
OTHER = "bob"


@pytest.fixture
def store(control_database: Database) -> SqlErasureStore:
    return SqlErasureStore(control_database)


async def _put(database: Database, table: Table, **values: object) -> None:
    """A row with something in every column that must have a value."""

    async def act(connection: Connection) -> None:
        row = {it.name: _some(it.type) for it in table.c if not it.nullable} | values
        await connection.execute(insert(table).values(row))

    await database.write(act)


def _some(kind: object) -> object:
    if isinstance(kind, LargeBinary):
        return b""
    if isinstance(kind, Boolean):
        return False
    return 0 if isinstance(kind, BigInteger | Integer) else ""


async def _everything(database: Database) -> dict[str, str]:
    """All rows of each table, as text."""

    async def ask(connection: Connection) -> dict[str, str]:
        found = {}
        for table in metadata.sorted_tables:
            rows = (await connection.execute(select(table))).all()
            found[table.name] = repr([tuple(row) for row in rows])
        return found

    return await database.read(ask)


def _named(everything: Mapping[str, str]) -> set[str]:
    """The tables that have the name in any spelling, or the payload."""
    spelled = (NAME, SPELLED, repr(NAME)[1:-1], "alice", "payload of hers")
    return {name for name, rows in everything.items() if any(it in rows for it in spelled)}


async def _told(database: Database) -> None:
    """A store that speaks of the subject in every table that can."""
    filter_ = f'{{"subject":{{"$in":["{SPELLED}","{OTHER}"]}}}}'
    groups = f'{{"who":"{SPELLED}"}}'
    await _put(database, subjects, id="S", namespace="n", key=NAME, metadata='{"alice":1}')
    await _put(database, changes, id="C1", namespace="n", kind="subject", name=NAME)
    members = f'[{{"member":"filter","before":{filter_},"after":null}}]'
    await _put(database, changes, id="C2", namespace="n", kind="report", members=members)
    await _put(database, meters, id="M", namespace="n", key="k")
    await _put(
        database, reports, id="R", namespace="n", meter_id="M", filter=filter_, deleted_at_ms=1
    )
    run = {"report_id": "R", "namespace": "n", "filter": filter_}
    reason = f"1 of 2: The body for subject {NAME!r} is too large."
    await _put(
        database, report_runs, id="run", state="delivering", deliveries=2, reason=reason, **run
    )
    made = {"run_id": "run", "report_id": "R", "holder": "h"}
    await _put(
        database, report_deliveries, id="d1", subject=NAME, number=1, state="pending",
        sequence=1, due_at_ms=1, **made,
    )  # fmt: skip
    await _put(
        database, report_deliveries, id="d2", subject=OTHER, number=2, state="delivered",
        sequence=2, **made,
    )  # fmt: skip
    for number, subject in ((1, NAME), (2, OTHER)):
        body = b"payload of hers" if subject == NAME else b"his"
        await _put(
            database, report_bodies, run_id="run", holder="h", number=number, subject=subject,
            body=body,
        )  # fmt: skip
    await _put(database, report_attempts, delivery_id="d1", number=1, answer=b"payload of hers")
    await _put(database, report_last_errors, report_id="R", delivery_id="d1", reason=NAME)
    await _put(database, run_corrections, run_id="run", holder="h", subject=NAME, groups=groups)
    await _put(database, replays, id="P", namespace="n", subject=NAME)
    await _put(
        database, redrives, log=1, owner="n", note=NAME, source="s", id="alice-1", namespace="n"
    )


async def _erased(store: SqlErasureStore, asked: Erasure) -> None:
    await store.set_borders(asked.id, 1, {}, NOW + 9)
    assert await store.begin_copying(asked.id, NOW) is None
    await store.erase_refusals([(1, 0, 0, 0)])
    await store.switch(asked.id, [], NOW)
    await store.settle(asked.id, NOW)
    await store.compact()


async def test_nothing_of_a_subject_is_left(
    store: SqlErasureStore, control_database: Database
) -> None:
    await _told(control_database)
    before = _named(await _everything(control_database))
    assert before >= {
        "subjects", "changes", "reports", "report_runs", "report_deliveries", "report_bodies",
        "report_attempts", "report_last_errors", "run_corrections", "replays", "redrives",
    }  # fmt: skip
    asked = await store.ask("n", NAME, NOW, author="key:1")
    await _erased(store, asked)
    assert _named(await _everything(control_database)) == {"erasures"}
    await store.finish(asked.id, NOW + 5)
    everything = await _everything(control_database)
    assert _named(everything) == set()
    assert OTHER in everything["report_deliveries"]
    assert "his" in everything["report_bodies"]
    assert FAILURE in everything["report_deliveries"]
    assert "cancelled" in everything["report_deliveries"]
    assert asked.pseudonym in everything["report_runs"], "its filter is renamed"
    done = await store.erasure("n", asked.id)
    assert done is not None
    assert (done.state, done.subject, done.done_at_ms) == (ErasureState.DONE, None, NOW + 5)
    assert await store.unfinished() == []


async def test_the_files_of_a_settled_erasure_have_no_payload(
    store: SqlErasureStore, control_database: Database, tmp_path: Any
) -> None:
    """SQLite overwrites what it deletes, and its journal is cut off."""
    await _told(control_database)
    asked = await store.ask("n", NAME, NOW)
    await _erased(store, asked)
    await store.finish(asked.id, NOW)
    await store.compact()
    for path in tmp_path.glob("control.db*"):
        content = path.read_bytes()
        assert b"payload of hers" not in content, path.name
        assert b"alice" not in content, path.name


async def test_a_run_that_is_being_made_is_made_again(
    store: SqlErasureStore, control_database: Database
) -> None:
    await _put(control_database, meters, id="M", namespace="n", key="k")
    await _put(control_database, reports, id="R", namespace="n", meter_id="M", filter="{}")
    run = {"report_id": "R", "namespace": "n", "state": "materializing", "lease_holder": "h"}
    await _put(control_database, report_runs, id="run", **run)
    await _put(control_database, report_bodies, run_id="run", holder="h", subject=NAME)
    await _erased(store, await store.ask("n", NAME, NOW))
    everything = await _everything(control_database)
    assert "materializing" not in everything["report_runs"]
    assert everything["report_bodies"] == "[]"


async def test_a_request_is_recorded_without_the_name_and_stands_once(
    store: SqlErasureStore, control_database: Database
) -> None:
    asked = await store.ask("n", NAME, NOW, author="key:1")
    assert await store.ask("n", NAME, NOW + 1) == asked
    assert (await store.ask("other", NAME, NOW)).id != asked.id

    async def ask(connection: Connection) -> list[Change]:
        return await read_changes(connection, "n", 10)

    (change,) = await control_database.read(ask)
    told = (change.kind, change.action, change.subject_id, change.name, change.author)
    assert told == (Kind.SUBJECT, Action.ERASE, asked.id, asked.pseudonym, "key:1")
    assert [one.id for one in await store.erasures("n", 10)] == [asked.id]
    assert await store.erasures("n", 10, asked.id) == []
    assert await store.erasure("other", asked.id) is None
    await store.set_borders(asked.id, 1, {}, NOW)
    await store.begin_copying(asked.id, NOW)
    with pytest.raises(Problem, match="being erased"):
        await store.ask("n", NAME, NOW)


async def test_a_settled_subject_can_be_erased_again_from_its_borders_on(
    store: SqlErasureStore, control_database: Database
) -> None:
    progress = SqlProgressStore(control_database)
    log = await progress.register_log("log", 2)
    await progress.seal(Seal(log, 0, 0, 7, 1, 1, NOW))
    asked = await store.ask("n", NAME, NOW)
    await store.set_borders(asked.id, log, {0: 5, 1: 0}, NOW)
    assert await store.begin_copying(asked.id, NOW) is None
    await store.switch(asked.id, [], NOW)
    await store.settle(asked.id, NOW)
    again = await store.ask("n", NAME, NOW + 1)
    assert again.firsts == {0: 7, 1: 0}, "where the slice ends that the request fell into"


async def test_it_waits_for_its_slices(store: SqlErasureStore, control_database: Database) -> None:
    progress = SqlProgressStore(control_database)
    log = await progress.register_log("log", 1)
    asked = await store.ask("n", NAME, NOW)
    assert await store.begin_copying(asked.id, NOW), "borders are not known"
    await store.set_borders(asked.id, log, {0: 5}, NOW)
    assert await store.begin_copying(asked.id, NOW), "nothing is sealed"
    await progress.seal(Seal(log, 0, 0, 3, 1, 1, NOW))
    assert await store.begin_copying(asked.id, NOW), "not all is sealed"
    await progress.seal(Seal(log, 0, 3, 9, 1, 1, NOW))
    assert await store.begin_copying(asked.id, NOW) is None


async def test_it_has_borders_in_all_partitions_and_waits_for_none_that_is_empty(
    store: SqlErasureStore, control_database: Database
) -> None:
    progress = SqlProgressStore(control_database)
    log = await progress.register_log("log", 1)
    await progress.begin_growth(log, Layout(3, (Growth(1, 3, 100),)), NOW)
    asked = await store.ask("n", NAME, NOW)
    with pytest.raises(Unavailable, match="more partitions"):
        await store.set_borders(asked.id, log, {0: 0}, NOW)
    await store.set_borders(asked.id, log, {0: 0, 1: 100, 2: 102}, NOW)
    assert await store.begin_copying(asked.id, NOW), "not all is sealed"
    await progress.seal(Seal(log, 2, 100, 103, 1, 1, NOW))
    assert await store.begin_copying(asked.id, NOW) is None
    (copying,) = await store.unfinished()
    assert copying.ends == {0: 0, 1: 100, 2: 103}


async def _with_meters(database: Database, *revisions: int) -> None:
    """Meters of the namespace, a revision each."""
    for revision in revisions:
        name = f"M{revision}"
        await _put(database, meters, id=name, namespace="n", key=name.lower())
        await _put(database, meter_revisions, revision=revision, meter_id=name, dimensions="{}")


async def test_a_slice_whose_rows_go_is_not_sealed_by_a_newer_catalogue(
    store: SqlErasureStore, control_database: Database
) -> None:
    """What somebody late counts of a new meter is hidden, or deleted: it is filled in."""
    progress = SqlProgressStore(control_database)
    log = await progress.register_log("log", 1)
    await _with_meters(control_database, 1)
    sealed = Seal(log, 0, 0, 5, 1, 1, NOW)
    for one in (sealed, sealed._replace(slice=5, end=9)):
        await progress.seal(one)
    asked = await store.ask("n", NAME, NOW)
    await store.set_borders(asked.id, log, {0: 5}, NOW)
    await progress.seal(sealed._replace(catalogue=2))
    assert await progress.unfilled(log, 0, 2, 9) == [sealed._replace(slice=5, end=9)]
    assert await store.begin_copying(asked.id, NOW) is None
    await _with_meters(control_database, 3)
    (copying,) = await store.unfinished()
    assert await store.unfilled(copying) == [3]
    await progress.seal(sealed._replace(slice=9, end=12, catalogue=0))
    assert await store.unfilled(copying) == [3], "1 lacks only what lies behind the border"
    for state in ("copying", "switched", "settled"):
        if state == "switched":
            await store.switch(asked.id, [], NOW)
        if state == "settled":
            await store.settle(asked.id, NOW)
        for late in (sealed, sealed._replace(slice=5, end=9)):
            await progress.seal(late._replace(catalogue=3))
        left = [] if state == "copying" else [0, 9]  # nobody fills in while it is copied
        assert [it.slice for it in await progress.unfilled(log, 0, 3, 9)] == left, state
    await store.finish(asked.id, NOW)
    await progress.seal(sealed._replace(catalogue=3))
    assert [it.slice for it in await progress.unfilled(log, 0, 3, 9)] == [9]


async def test_subjects_are_erased_from_slices_once_it_is_switched(
    store: SqlErasureStore, control_database: Database
) -> None:
    progress = SqlProgressStore(control_database)
    log = await progress.register_log("log", 1)
    await _with_meters(control_database, 1)
    await _put(control_database, meters, id="other", namespace="other", key="k")
    for one in (Seal(log, 0, 0, 7, 1, 1, NOW), Seal(log, 0, 7, 9, 1, 1, NOW)):
        await progress.seal(one)
    asked = await store.ask("n", NAME, NOW)
    await store.set_borders(asked.id, log, {0: 5}, NOW)
    assert await store.begin_copying(asked.id, NOW) is None
    await _with_meters(control_database, 3)
    await _put(control_database, meter_revisions, revision=4, meter_id="other", dimensions="{}")
    for state in ("copying", "switched", "settled", "done"):
        if state == "switched":
            await store.switch(asked.id, [], NOW)
        if state == "settled":
            await store.settle(asked.id, NOW)
        if state == "done":
            await store.finish(asked.id, NOW)
        found = {it.seal.slice: it for it in await progress.lacking(log, 0, [3, 4], 9)}
        lack = (4,) if state == "copying" else (3, 4)  # nobody fills in while it is copied
        assert {at: it.revisions for at, it in found.items()} == {0: lack, 7: lack}, state
        gone = (("n", NAME, asked.pseudonym),) if state in ("switched", "settled") else ()
        assert (found[0].erased, found[7].erased) == (gone, ()), state
        (other, _) = await progress.lacking(log, 0, [4], 9)
        assert other.erased == (), "of another namespace"


async def test_a_report_that_names_the_subject_stands_in_the_way(
    store: SqlErasureStore, control_database: Database
) -> None:
    await _put(control_database, meters, id="M", namespace="n", key="k")
    filter_ = f'{{"subject":{{"$in":["{SPELLED}"]}}}}'
    report = {"id": "R", "namespace": "n", "meter_id": "M", "slug": "monthly"}
    await _put(control_database, reports, filter=filter_, **report)
    with pytest.raises(Problem, match="monthly"):
        await store.ask("n", NAME, NOW)


async def test_what_is_hidden_follows_from_the_state(
    store: SqlErasureStore, control_database: Database
) -> None:
    asked = await store.ask("n", NAME, NOW)
    hidden = hidden_of(await store.unfinished())["n"]
    assert (hidden.pseudonyms, hidden.erased) == ((asked.pseudonym,), ())

    async def act(connection: Connection) -> None:
        values = {"state": "switched", "log": 3, "ends": '{"0":4,"2":5}'}
        await connection.execute(update(erasures).values(values))

    await control_database.write(act)
    hidden = hidden_of(await store.unfinished())["n"]
    assert (hidden.pseudonyms, hidden.erased) == ((), ((NAME, 3, (4, 0, 5)),))
