"""What every `SettlementStore` promises (meterline/refusal_ports.py), on SQLite and PostgreSQL."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from meterline.access import Kind
from meterline.backends.control_store.access.keys import SqlAccessStore
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.progress.redrives import SqlSettlementStore
from meterline.event import Place, RefusalKind, RefusalState, Settlement, SettlementStore

WANTED = Settlement(
    (1, 2, 3, 4), "default", RefusalKind.INBOX, 10, RefusalState.REDRIVING, "default", "key:1", 20,
    source="s", id="i", check=b"12345678", text=b'{"\xc3\xa9": 1}',
)  # fmt: skip
DISMISSAL = replace(
    WANTED, state=RefusalState.DISMISSED, note="why", source="", id="", check=b"", text=None
)
ALL_STATES = (RefusalState.REDRIVING, RefusalState.REDRIVEN, RefusalState.DISMISSED)


@pytest.fixture
def store(control_database: Database) -> SettlementStore:
    """Nothing is settled."""
    return SqlSettlementStore(control_database)


def at(offset: int, one: Settlement = WANTED, **more: object) -> Settlement:
    return replace(one, position=(1, 2, offset, 0), **more)  # type: ignore[arg-type]


async def changes(database: Database) -> list[tuple[str, str, str, str, str]]:
    """What was recorded, the first one first."""
    found = await SqlAccessStore(database).changes("default", 100, kind=Kind.REFUSAL)
    return [
        (one.author, one.action.value, one.subject_id, one.name, one.detail)
        for one in reversed(found)
    ]


async def test_without_settlements_there_are_none(store: SettlementStore) -> None:
    assert await store.settlements([]) == {}
    assert await store.settlements([WANTED.position]) == {}
    assert await store.begin([]) == []
    await store.finish([])
    await store.finish([WANTED.position])
    for state in ALL_STATES:
        assert await store.settled(["default"], state, None, 10) == []


async def test_an_event_is_put_down_and_then_is_in(
    store: SettlementStore, control_database: Database
) -> None:
    others = [at(number, id=str(number)) for number in range(9, 0, -1)]
    assert await store.begin([WANTED, *others]) == [WANTED, *others]
    assert await store.settlements([WANTED.position, (9, 9, 9, 9)]) == {WANTED.position: WANTED}
    await store.finish([WANTED.position, (9, 9, 9, 9)])
    done = replace(WANTED, state=RefusalState.REDRIVEN, text=None)
    await store.finish([WANTED.position])
    assert await store.settlements([WANTED.position]) == {WANTED.position: done}
    assert await store.begin([replace(WANTED, at_ms=99)]) == [done]
    found = await store.settlements([one.position for one in others])
    assert found == {one.position: one for one in others}
    assert ("key:1", "redrive", "1.2.3.4", "s i", "") in await changes(control_database)
    assert len(await changes(control_database)) == 10


async def test_the_first_event_that_is_put_down_stays(
    store: SettlementStore, control_database: Database
) -> None:
    rivals = [replace(WANTED, id=str(number), author=f"key:{number}") for number in range(8)]
    stood = await asyncio.gather(*(store.begin([one, at(7)]) for one in rivals))
    winners = {one.id for one, _ in stood}
    assert len(winners) == 1
    assert [other for _, other in stood] == [at(7)] * 8
    assert (await store.settlements([WANTED.position]))[WANTED.position].id in winners
    assert len(await changes(control_database)) == 2, "only what was done is recorded"


async def test_what_is_dismissed_can_be_sent_and_not_the_other_way(
    store: SettlementStore, control_database: Database
) -> None:
    assert await store.dismiss(DISMISSAL) == DISMISSAL
    assert await store.dismiss(replace(DISMISSAL, at_ms=99)) == DISMISSAL
    told = replace(DISMISSAL, note="x" * 256, author="key:2")
    assert await store.dismiss(told) == told
    assert await store.begin([WANTED]) == [WANTED]
    assert await store.dismiss(DISMISSAL) == WANTED
    assert await store.settlements([WANTED.position]) == {WANTED.position: WANTED}
    assert await changes(control_database) == [
        ("key:1", "dismiss", "1.2.3.4", "inbox", "why"),
        ("key:2", "dismiss", "1.2.3.4", "inbox", "x" * 256),
        ("key:1", "redrive", "1.2.3.4", "s i", ""),
    ]


async def test_lists_are_by_owner_and_state_the_last_first(store: SettlementStore) -> None:
    rng = random.Random(1)
    made = []
    for number in range(60):
        owner = rng.choice(["default", "other", ""])
        state = rng.choice(ALL_STATES)
        one = at(number, WANTED, owner=owner, append_ms=rng.randrange(5), id=str(number))
        if state is RefusalState.DISMISSED:
            one = at(number, DISMISSAL, owner=owner, append_ms=one.append_ms)
            await store.dismiss(one)
        else:
            await store.begin([one])
        if state is RefusalState.REDRIVEN:
            await store.finish([one.position])
            one = replace(one, state=state, text=None)
        made.append(one)
    for owners in (["default"], ["other", ""], ["nobody"]):
        for state in ALL_STATES:
            wanted = [one for one in made if one.owner in owners and one.state is state]
            wanted.sort(key=place, reverse=True)
            assert await listed(store, owners, state) == wanted
            assert bool(wanted) == (owners != ["nobody"])


def place(one: Settlement) -> Place:
    return Place(one.append_ms, *one.position)


async def listed(
    store: SettlementStore, owners: Sequence[str], state: RefusalState
) -> list[Settlement]:
    """The list, page by page."""
    found: list[Settlement] = []
    while page := await store.settled(owners, state, place(found[-1]) if found else None, 4):
        found += page
    return found


async def test_there_may_be_many_at_once(store: SettlementStore) -> None:
    many = [at(number, id=str(number)) for number in range(1_200)]
    assert len(await store.begin(many[:500])) == 500
    await store.finish([one.position for one in many])
    found = await store.settlements([one.position for one in many])
    assert {one.state for one in found.values()} == {RefusalState.REDRIVEN}
    assert len(found) == 500
