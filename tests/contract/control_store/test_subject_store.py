"""What every SubjectStore promises (meterline/access/subject_ports.py), on both databases."""

import asyncio
from dataclasses import replace

import pytest
from sqlalchemy import insert

from meterline.access import Change, Kind, Subject, SubjectDraft, SubjectStore
from meterline.backends.control_store.access.changes import read_changes
from meterline.backends.control_store.access.subjects import SqlSubjectStore
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.tables.access import subjects as subjects_table
from meterline.limits import SUBJECTS_MAX, SUBJECTS_UPSERT_MAX
from meterline.problem import Problem, ProblemType

NOW_MS = 1_700_000_000_123
LATER_MS = NOW_MS + 9_000
DRAFT = SubjectDraft(
    "customer/1 ä",
    display_name="Customer One",
    metadata='{"hubspotId":"1","nested":{"n":[1.5,null]}}',
    current_period_start_ms=5,
    current_period_end_ms=6,
    stripe_customer_id="cus_1",
)


@pytest.fixture
def store(control_database: Database) -> SubjectStore:
    """An empty store."""
    return SqlSubjectStore(control_database)


async def _told(database: Database, namespace: str = "default") -> list[tuple[str, ...]]:
    """Author, action, name and detail of every change, first one first."""

    async def ask(connection: Connection) -> list[Change]:
        return await read_changes(connection, namespace, 1_000)

    found = await database.read(ask)
    assert all(change.kind is Kind.SUBJECT and change.subject_id for change in found)
    return [(c.author, c.action.value, c.name, c.detail) for c in reversed(found)]


async def test_a_subject_reads_back_as_it_was_described(
    store: SubjectStore, control_database: Database
) -> None:
    assert await store.subjects("default") == []
    (made,) = await store.upsert_subjects("default", [DRAFT], NOW_MS, author="key:1")
    assert made == Subject(
        id=made.id,
        namespace="default",
        key="customer/1 ä",
        created_at_ms=NOW_MS,
        updated_at_ms=NOW_MS,
        display_name="Customer One",
        metadata='{"hubspotId":"1","nested":{"n":[1.5,null]}}',
        current_period_start_ms=5,
        current_period_end_ms=6,
        stripe_customer_id="cus_1",
    )
    assert len(made.id) == 26
    assert await store.subjects("default") == [made]
    for name in (made.id, made.id.lower(), made.key):
        assert await store.subject("default", name) == made
    assert await _told(control_database) == [("key:1", "create", "customer/1 ä", "")]


async def test_what_is_not_said_stays_and_none_takes_away(
    store: SubjectStore, control_database: Database
) -> None:
    (made,) = await store.upsert_subjects("default", [DRAFT], NOW_MS)
    draft = SubjectDraft(DRAFT.key, display_name="One", metadata=None)
    (after,) = await store.upsert_subjects("default", [draft], LATER_MS, author="key:2")
    assert after == replace(made, display_name="One", metadata=None, updated_at_ms=LATER_MS)
    assert await store.subject("default", made.id) == after
    gone = SubjectDraft(DRAFT.key, None, None, None, None, None)
    (bare,) = await store.upsert_subjects("default", [gone], LATER_MS)
    assert bare == Subject(made.id, "default", made.key, NOW_MS, LATER_MS)
    told = await _told(control_database)
    assert told[1] == ("key:2", "update", DRAFT.key, "displayName, metadata")
    assert told[2][3] == "displayName, currentPeriodStart, currentPeriodEnd, stripeCustomerId"


async def test_an_upsert_that_changes_nothing_is_no_change(
    store: SubjectStore, control_database: Database
) -> None:
    (made,) = await store.upsert_subjects("default", [DRAFT], NOW_MS)
    for draft in (DRAFT, SubjectDraft(DRAFT.key)):
        assert await store.upsert_subjects("default", [draft], LATER_MS) == [made]
    assert await store.upsert_subjects("default", [], LATER_MS) == []
    assert len(await _told(control_database)) == 1


async def test_many_are_upserted_at_once_in_the_order_given(store: SubjectStore) -> None:
    (old,) = await store.upsert_subjects("default", [SubjectDraft("b")], NOW_MS)
    drafts = [
        SubjectDraft("c", display_name="C"),
        SubjectDraft("b", display_name="B"),
        SubjectDraft("a"),
        SubjectDraft("c", stripe_customer_id="cus_c"),
    ]
    after = await store.upsert_subjects("default", drafts, LATER_MS)
    assert [one.key for one in after] == ["c", "b", "a", "c"]
    assert after[0] == after[3]
    assert (after[3].display_name, after[3].stripe_customer_id) == ("C", "cus_c")
    assert after[1] == replace(old, display_name="B", updated_at_ms=LATER_MS)
    assert await store.subjects("default") == [after[1], after[2], after[0]]


async def test_a_request_may_hold_its_bound(store: SubjectStore) -> None:
    drafts = [SubjectDraft(f"s{n:05d}", display_name="S") for n in range(SUBJECTS_UPSERT_MAX)]
    after = await store.upsert_subjects("default", drafts, NOW_MS)
    assert await store.subjects("default") == after
    assert len({one.id for one in after}) == SUBJECTS_UPSERT_MAX


async def test_namespaces_are_walls(store: SubjectStore) -> None:
    (made,) = await store.upsert_subjects("default", [DRAFT], NOW_MS)
    (other,) = await store.upsert_subjects("other", [SubjectDraft(DRAFT.key)], NOW_MS)
    assert other.id != made.id
    assert await store.subjects("other") == [other]
    assert await store.subject("other", made.id) is None
    with pytest.raises(Problem) as caught:
        await store.delete_subject("other", made.id, NOW_MS)
    assert caught.value.type is ProblemType.NOT_FOUND
    await store.delete_subject("other", DRAFT.key, NOW_MS)
    assert await store.subjects("default") == [made]


async def test_an_id_wins_over_a_key(store: SubjectStore) -> None:
    (by_id,) = await store.upsert_subjects("default", [SubjectDraft("a")], NOW_MS)
    (by_key,) = await store.upsert_subjects("default", [SubjectDraft(by_id.id)], NOW_MS)
    assert await store.subject("default", by_key.key) == by_id
    await store.delete_subject("default", by_id.id, NOW_MS)
    assert await store.subject("default", by_key.key) == by_key


async def test_a_deleted_subject_is_erased_and_may_come_again(
    store: SubjectStore, control_database: Database
) -> None:
    (made,) = await store.upsert_subjects("default", [DRAFT], NOW_MS)
    await store.delete_subject("default", made.key, LATER_MS, author="key:3")
    assert await store.subject("default", made.id) is None
    assert await store.subjects("default") == []
    with pytest.raises(Problem) as caught:
        await store.delete_subject("default", made.key, LATER_MS)
    assert caught.value.type is ProblemType.NOT_FOUND
    (again,) = await store.upsert_subjects("default", [SubjectDraft(made.key)], LATER_MS)
    assert again.id != made.id
    assert again.display_name is None
    told = await _told(control_database)
    assert [change[1] for change in told] == ["create", "delete", "create"]
    assert told[1][0] == "key:3"


async def test_a_namespace_has_a_bound_of_subjects_and_a_refused_upsert_leaves_nothing(
    store: SubjectStore, control_database: Database
) -> None:
    async def fill(connection: Connection) -> None:
        rows = [
            {"id": f"{n:026d}", "namespace": "default", "key": f"k{n}"} | _AT
            for n in range(SUBJECTS_MAX - 1)
        ]
        await connection.execute(insert(subjects_table), rows)

    await control_database.write(fill)
    with pytest.raises(Problem) as caught:
        await store.upsert_subjects("default", [SubjectDraft("a"), SubjectDraft("b")], NOW_MS)
    assert caught.value.type is ProblemType.CONFLICT
    assert str(SUBJECTS_MAX) in caught.value.detail
    assert await store.subject("default", "a") is None
    assert await _told(control_database) == []
    await store.upsert_subjects("default", [SubjectDraft("a")], NOW_MS)
    await store.upsert_subjects("default", [SubjectDraft("k0", display_name="K")], NOW_MS)
    await store.upsert_subjects("other", [SubjectDraft("b")], NOW_MS)


_AT = {"created_at_ms": 0, "updated_at_ms": 0}


async def test_upserts_at_once_make_each_subject_once(
    store: SubjectStore, control_database: Database
) -> None:
    drafts = [
        [SubjectDraft("a", display_name=f"A{n}"), SubjectDraft("b", stripe_customer_id=f"cus_{n}")]
        for n in range(6)
    ]
    after = await asyncio.gather(
        *(
            store.upsert_subjects("default", pair[:: 1 - n % 2 * 2], NOW_MS)
            for n, pair in enumerate(drafts)
        )
    )
    there = await store.subjects("default")
    assert [one.key for one in there] == ["a", "b"]
    assert {one.id for pair in after for one in pair} == {one.id for one in there}
    told = await _told(control_database)
    assert sorted(name for _, action, name, _ in told if action == "create") == ["a", "b"]
    assert len(told) == 12
