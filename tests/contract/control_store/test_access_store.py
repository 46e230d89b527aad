"""What every AccessStore promises (meterline/access/ports.py), on SQLite and PostgreSQL."""

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from meterline.access import (
    EVERY_SCOPE,
    AccessStore,
    Action,
    ApiKey,
    Change,
    KeyUpdate,
    Kind,
    Rotation,
    Scope,
    hash_of,
    members_of,
)
from meterline.backends.control_store.access.changes import record_change
from meterline.backends.control_store.access.keys import SqlAccessStore
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database
from meterline.problem import Problem, ProblemType

NOW_MS = 1_700_000_000_123
ID = "01HF7YAT3V0000000000000000"
KEY = ApiKey(
    id=ID,
    namespace="default",
    name="gateway",
    scopes=frozenset({Scope.EVENTS_WRITE, Scope.USAGE_READ}),
    created_at_ms=NOW_MS,
    created_by="command",
    secret_hash=hash_of("first"),
    plan="small",
    expires_at_ms=NOW_MS + 1_000,
)
ROTATION = Rotation(hash_of("second"), NOW_MS + 500)


@pytest.fixture
def store(control_database: Database) -> AccessStore:
    """A store without keys."""
    return SqlAccessStore(control_database, keys_max=3, held_max=4)


def _named(number: int, namespace: str = "default") -> ApiKey:
    key_id = f"{ID[:-2]}{number:02d}"
    return replace(
        KEY, id=key_id, name=f"key {number}", namespace=namespace, expires_at_ms=None, plan=None
    )


async def _refusal(awaited: object) -> Problem:
    assert asyncio.iscoroutine(awaited)
    with pytest.raises(Problem) as caught:
        await awaited
    return caught.value


async def _told(store: AccessStore, **only: str) -> list[tuple[str, str, str, str]]:
    """Changes of the default namespace, oldest first: author, action, name and detail."""
    found = await store.changes("default", 100, **only)  # type: ignore[arg-type]
    return [(c.author, c.action.value, c.name, c.detail) for c in reversed(found)]


async def test_without_keys_there_is_nothing(store: AccessStore) -> None:
    assert await store.keys_version() == 0
    assert await store.keys("default", 10) == []
    assert await store.keys_changed((0, ""), 10) == []
    assert await store.key("default", ID) is None
    assert await store.changes("default", 10) == []


async def test_a_key_reads_back_as_it_was_given(store: AccessStore) -> None:
    await store.create_key(KEY, author="key:other")
    assert await store.key("default", ID) == KEY
    assert await store.key("default", ID.lower()) == KEY
    assert await store.keys("default", 10) == [KEY]
    assert await store.keys_version() == 1
    assert await store.keys_changed((0, ""), 10) == [((1, ID), KEY)]
    assert await _told(store) == [("key:other", "create", "gateway", "")]


async def test_every_scope_reads_back(store: AccessStore) -> None:
    key = replace(KEY, scopes=EVERY_SCOPE)
    await store.create_key(key)
    assert await store.key("default", ID) == key


async def test_a_repeated_create_changes_nothing(store: AccessStore) -> None:
    await store.create_key(KEY)
    await store.create_key(KEY)
    assert await store.keys("default", 10) == [KEY]
    assert len(await store.changes("default", 10)) == 1


async def test_a_namespace_has_so_many_keys_and_revoked_or_expired_ones_make_room(
    store: AccessStore,
) -> None:
    for number in range(3):
        await store.create_key(_named(number))
    problem = await _refusal(store.create_key(_named(3)))
    assert problem.type is ProblemType.CONFLICT
    assert "3 API keys" in problem.detail
    await store.revoke_key("default", _named(0).id, NOW_MS)
    await store.create_key(_named(3))
    later = replace(_named(4), namespace="other", created_at_ms=NOW_MS + 5_000)
    await store.create_key(later)
    problem = await _refusal(store.create_key(_named(5, "other")))
    assert "4 API keys" in problem.detail, "all namespaces together"


async def test_an_expired_key_leaves_room(control_database: Database) -> None:
    store = SqlAccessStore(control_database, keys_max=1)
    await store.create_key(KEY)
    assert KEY.expires_at_ms is not None
    assert (await _refusal(store.create_key(_named(1)))).type is ProblemType.CONFLICT
    await store.create_key(replace(_named(1), created_at_ms=KEY.expires_at_ms))


async def test_pages_go_by_creation(store: AccessStore) -> None:
    for number in (2, 0, 1):
        await store.create_key(_named(number))
    assert [key.name for key in await store.keys("default", 2)] == ["key 0", "key 1"]
    assert [key.name for key in await store.keys("default", 2, _named(1).id)] == ["key 2"]
    assert await store.keys("default", 2, _named(2).id) == []


async def test_a_rotated_key_keeps_the_previous_secret_for_its_overlap(store: AccessStore) -> None:
    await store.create_key(KEY)
    rotated = await store.rotate_key("default", ID, ROTATION, NOW_MS + 7, author="key:a")
    assert rotated == replace(
        KEY,
        secret_hash=hash_of("second"),
        previous_hash=hash_of("first"),
        previous_until_ms=NOW_MS + 500,
        rotated_at_ms=NOW_MS + 7,
    )
    assert await store.key("default", ID) == rotated
    again = await store.rotate_key("default", ID, ROTATION, NOW_MS + 9)
    assert again == rotated, "the same secret again is no rotation"
    assert await _told(store) == [
        ("command", "create", "gateway", ""),
        ("key:a", "rotate", "gateway", ""),
    ]


async def test_a_second_rotation_forgets_the_first_secret(store: AccessStore) -> None:
    await store.create_key(KEY)
    await store.rotate_key("default", ID, ROTATION, NOW_MS)
    third = await store.rotate_key("default", ID, Rotation(hash_of("third"), NOW_MS), NOW_MS)
    assert (third.secret_hash, third.previous_hash) == (hash_of("third"), hash_of("second"))


async def test_an_update_changes_what_it_names(store: AccessStore) -> None:
    await store.create_key(KEY)
    scopes = frozenset({Scope.EVENTS_WRITE})
    changed = await store.update_key(
        "default", ID, KeyUpdate(name="door", scopes=scopes), NOW_MS + 1, author="key:a"
    )
    assert changed == replace(KEY, name="door", scopes=scopes)
    assert await store.update_key("default", ID, KeyUpdate(plan=""), NOW_MS + 2) == replace(
        changed, plan=None
    )
    await store.update_key("default", ID, KeyUpdate(name="door", scopes=scopes, plan=""), NOW_MS)
    assert await _told(store) == [
        ("command", "create", "gateway", ""),
        ("key:a", "update", "door", "name, scopes"),
        ("command", "update", "door", "plan"),
    ]
    plan, named, _ = await store.changes("default", 10)
    assert [(it.member, it.before, it.after) for it in members_of(plan.members)] == [
        ("plan", KEY.plan, None)
    ]
    assert [(it.member, it.before, it.after) for it in members_of(named.members)] == [
        ("name", KEY.name, "door"),
        ("scopes", sorted(KEY.scopes), ["events:write"]),
    ]


async def test_a_revoked_key_stays_revoked_and_can_not_be_changed(store: AccessStore) -> None:
    await store.create_key(KEY)
    revoked = await store.revoke_key("default", ID, NOW_MS + 3, author="key:a")
    assert revoked == replace(KEY, revoked_at_ms=NOW_MS + 3)
    assert await store.revoke_key("default", ID, NOW_MS + 4) == revoked
    assert await store.keys("default", 10) == [revoked]
    for refused in (
        store.rotate_key("default", ID, ROTATION, NOW_MS),
        store.update_key("default", ID, KeyUpdate(name="x"), NOW_MS),
    ):
        assert (await _refusal(refused)).type is ProblemType.CONFLICT
    assert [action for _, action, _, _ in await _told(store)] == ["create", "revoke"]


async def test_a_key_of_another_namespace_is_not_there(store: AccessStore) -> None:
    await store.create_key(KEY)
    assert await store.key("other", ID) is None
    assert await store.keys("other", 10) == []
    for refused in (
        store.rotate_key("other", ID, ROTATION, NOW_MS),
        store.update_key("other", ID, KeyUpdate(name="x"), NOW_MS),
        store.revoke_key("other", ID, NOW_MS),
    ):
        assert (await _refusal(refused)).type is ProblemType.NOT_FOUND
    assert await store.key("default", ID) == KEY
    assert await store.changes("other", 10) == []


async def test_every_change_is_a_later_place_and_no_key_is_missed(store: AccessStore) -> None:
    for number in range(3):
        await store.create_key(_named(number))
    seen = await store.keys_changed((0, ""), 2)
    assert [key.name for _, key in seen] == ["key 0", "key 1"]
    seen = await store.keys_changed(seen[-1][0], 2)
    assert [key.name for _, key in seen] == ["key 2"]
    before = await store.keys_version()
    await store.revoke_key("default", _named(1).id, NOW_MS)
    assert await store.keys_version() > before
    ((place, key),) = await store.keys_changed(seen[-1][0], 2)
    assert (key.name, key.revoked_at_ms) == ("key 1", NOW_MS)
    assert place[0] == await store.keys_version()


async def test_keys_of_all_namespaces_are_seen_by_whoever_checks_them(store: AccessStore) -> None:
    await store.create_key(_named(1))
    await store.create_key(_named(2, "other"))
    found = [key.namespace for _, key in await store.keys_changed((0, ""), 10)]
    assert found == ["default", "other"]


async def test_many_changes_at_once_all_take_place(store: AccessStore) -> None:
    await asyncio.gather(*(store.create_key(_named(number)) for number in range(3)))
    assert await store.keys_version() == 3
    places = [place for place, _ in await store.keys_changed((0, ""), 10)]
    assert sorted(version for version, _ in places) == [1, 2, 3]


async def test_last_use_goes_forward_and_is_no_change(store: AccessStore) -> None:
    await store.create_key(_named(1))
    await store.create_key(_named(2))
    version = await store.keys_version()
    await store.note_used({})
    await store.note_used({_named(1).id: NOW_MS + 10, _named(2).id: NOW_MS + 5})
    await store.note_used({_named(1).id: NOW_MS + 8, _named(2).id: NOW_MS + 6, "gone": NOW_MS})
    used = [key.last_used_at_ms for key in await store.keys("default", 10)]
    assert used == [NOW_MS + 10, NOW_MS + 6]
    assert await store.keys_version() == version
    assert len(await store.changes("default", 10)) == 2


# --- changes ---


def _change(at_ms: int, subject_id: str, kind: Kind = Kind.METER) -> Change:
    return Change(
        namespace="default",
        at_ms=at_ms,
        author="key:a",
        action=Action.UPDATE,
        kind=kind,
        subject_id=subject_id,
        name=subject_id.upper(),
        detail="dimensions",
    )


async def _recorded(database: Database, *changes: Change) -> list[Change]:
    return [await database.write(partial(_record, change)) for change in changes]


async def _record(change: Change, connection: Connection) -> Change:
    return await record_change(connection, change)


async def test_a_change_reads_back_as_it_was_recorded(
    store: AccessStore, control_database: Database
) -> None:
    (recorded,) = await _recorded(control_database, _change(NOW_MS, "a"))
    assert len(recorded.id) == 26
    assert recorded == replace(_change(NOW_MS, "a"), id=recorded.id)
    assert await store.changes("default", 10) == [recorded]
    assert await store.changes("other", 10) == []


async def test_the_newest_change_comes_first_also_within_a_millisecond(
    store: AccessStore, control_database: Database
) -> None:
    recorded = await _recorded(
        control_database,
        *(_change(at_ms, f"m{n}") for n, at_ms in enumerate([NOW_MS, NOW_MS, NOW_MS, NOW_MS + 1])),
    )
    assert await store.changes("default", 10) == recorded[::-1]
    first = await store.changes("default", 3)
    assert first == recorded[:0:-1]
    assert await store.changes("default", 3, after=first[-1].id) == recorded[:1]
    assert await store.changes("default", 3, after=recorded[0].id) == []


async def test_a_cursor_of_another_namespace_leads_nowhere(
    store: AccessStore, control_database: Database
) -> None:
    await _recorded(control_database, _change(NOW_MS, "a"))
    (other,) = await _recorded(
        control_database, replace(_change(NOW_MS + 1, "b"), namespace="other")
    )
    assert await store.changes("default", 10, after=other.id) == []


async def test_changes_are_found_by_kind_and_by_what_was_changed(
    store: AccessStore, control_database: Database
) -> None:
    a, b, c = await _recorded(
        control_database,
        _change(NOW_MS, "a"),
        _change(NOW_MS + 1, "b", Kind.REPORT),
        _change(NOW_MS + 2, "a"),
    )
    assert await store.changes("default", 10, kind=Kind.REPORT) == [b]
    assert await store.changes("default", 10, kind=Kind.METER) == [c, a]
    assert await store.changes("default", 10, subject_id="a", after=c.id) == [a]
    assert await store.changes("default", 10, kind=Kind.REPORT, subject_id="a") == []


async def test_what_is_undone_leaves_no_change(
    store: AccessStore, control_database: Database
) -> None:
    async def fail(connection: Connection) -> None:
        await record_change(connection, _change(NOW_MS, "a"))
        raise LookupError

    with pytest.raises(LookupError):
        await control_database.write(fail)
    assert await store.changes("default", 10) == []
