"""The ring over a real control store, by hand; how fresh it is, by a clock that jumps."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import structlog

from meterline.access import AccessStore, ApiKey, Rotation, Scope, Token, hash_of, token_of
from meterline.backends.control_store.access.keys import SqlAccessStore
from meterline.backends.control_store.engine import open_database
from meterline.backends.control_store.migrate import migrate
from meterline.backends.key_ring import KeyRing
from meterline.limits import KEY_REVOKED_SHOWN_MS, KEYS_READ_ROWS
from meterline.ports import Unavailable, Unsuitable
from meterline.problem import Problem, ProblemType
from tests.simulation.network import Time
from tests.simulation.virtual_loop import VirtualLoop

NOW_MS = 1_700_000_000_000
IDS = [f"01HF7YAT00V3TVHZZZZZZZZZZ{letter}" for letter in "ABC"]
TOKENS = [token_of(key_id, bytes([n] * 32)) for n, key_id in enumerate(IDS)]


def _key(token: Token, **more: object) -> ApiKey:
    key = ApiKey(
        id=token.key_id,
        namespace="shop",
        name="gateway",
        scopes=frozenset({Scope.EVENTS_WRITE}),
        created_at_ms=NOW_MS,
        created_by="command",
        secret_hash=hash_of(token.secret),
    )
    return replace(key, **more)  # type: ignore[arg-type]


@dataclass
class HandClock:
    """A clock that stands still until it is moved by hand."""

    at_ms: int = NOW_MS

    def now_ms(self) -> int:
        return self.at_ms


class Wire:
    """The way to a store: it can be cut, or be slow."""

    def __init__(self, store: AccessStore) -> None:
        self.store = store
        self.cut = False
        self.slow_s = 0.0
        self.used: list[Mapping[str, int]] = []
        self.noted = asyncio.Event()

    async def _pass(self) -> None:
        await asyncio.sleep(self.slow_s)
        if self.cut:
            raise Unavailable("control store: connection refused")

    async def keys_version(self) -> int:
        await self._pass()
        return await self.store.keys_version()

    async def keys_changed(
        self, after: tuple[int, str], limit: int
    ) -> list[tuple[tuple[int, str], ApiKey]]:
        await self._pass()
        return await self.store.keys_changed(after, limit)

    async def note_used(self, used_at_ms: Mapping[str, int]) -> None:
        await self._pass()
        self.used.append(used_at_ms)
        self.noted.set()
        await self.store.note_used(used_at_ms)

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"a ring does not call {name}")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlAccessStore]:
    """An empty store."""
    database = open_database(f"sqlite:///{tmp_path / 'control.db'}")
    await migrate(database)
    yield SqlAccessStore(database)
    await database.close()


@pytest.fixture
def wire(store: SqlAccessStore) -> Wire:
    """The way to the store."""
    return Wire(store)


def _ring(wire: Wire, clock: HandClock | None = None, **more: float) -> KeyRing:
    """One that waits for an answer for as long as a busy machine may take, unless told."""
    patient = {"read_timeout_s": 60.0} | more
    return KeyRing(wire, clock or HandClock(), **patient)  # type: ignore[arg-type]


def _refused(ring: KeyRing, header: str | None, now_ms: int = NOW_MS) -> Problem:
    with pytest.raises(Problem) as caught:
        ring.identify(header, now_ms)
    return caught.value


def _header(token: Token) -> str:
    return f"Bearer {token.text}"


async def test_until_the_keys_were_read_everybody_is_unavailable(wire: Wire) -> None:
    wire.cut = True
    ring = _ring(wire)
    await ring.start()
    problem = _refused(ring, _header(TOKENS[0]))
    assert (problem.type, problem.retry_after_s) == (ProblemType.UNAVAILABLE, 1)
    with pytest.raises(Unavailable, match="API keys were not read yet"):
        await ring.check()
    wire.cut = False
    await ring.start()
    await ring.check()
    assert _refused(ring, _header(TOKENS[0])).type is ProblemType.UNAUTHENTICATED


async def test_a_good_token_says_who_asks(wire: Wire, store: SqlAccessStore) -> None:
    key = _key(TOKENS[0], plan="small")
    await store.create_key(key)
    ring = _ring(wire)
    await ring.start()
    assert ring.identify(_header(TOKENS[0]), NOW_MS) == key.principal


async def test_what_is_not_good_is_told_in_one_way(wire: Wire, store: SqlAccessStore) -> None:
    await store.create_key(_key(TOKENS[0]))
    ring = _ring(wire)
    await ring.start()
    wrong = Token(TOKENS[0].key_id, TOKENS[1].secret)
    shown = [_header(TOKENS[1]), _header(wrong), "Bearer x", "Bearer mtl_x", "Bearer " + "x" * 99]
    told = {str(_refused(ring, header)) for header in shown}
    assert told == {"unauthenticated: The API key is not known."}
    asked = {str(_refused(ring, header)) for header in (None, "", "Basic eDp5", "Bearer " * 99)}
    assert len(asked) == 1
    assert "Authorization: Bearer" in asked.pop()


async def test_revoked_expired_and_replaced_are_told_to_who_knows_the_secret(
    wire: Wire, store: SqlAccessStore
) -> None:
    clock = HandClock()
    for token in TOKENS:
        expires = NOW_MS + 50 if token is TOKENS[1] else None
        await store.create_key(_key(token, expires_at_ms=expires))
    ring = _ring(wire, clock)
    await ring.start()
    await store.revoke_key("shop", IDS[0], NOW_MS)
    new = token_of(IDS[2], bytes([9] * 32))
    await store.rotate_key("shop", IDS[2], Rotation(hash_of(new.secret), NOW_MS + 30), NOW_MS)
    for token in TOKENS:
        ring.identify(_header(token), NOW_MS)  # nothing was heard of it yet
    await ring.refresh()
    assert "revoked" in _refused(ring, _header(TOKENS[0])).detail
    assert "expired" in _refused(ring, _header(TOKENS[1]), NOW_MS + 50).detail
    assert ring.identify(_header(TOKENS[2]), NOW_MS + 29) == ring.identify(_header(new), NOW_MS)
    assert "replaced" in _refused(ring, _header(TOKENS[2]), NOW_MS + 30).detail
    wrong = [Token(key_id, "B" * 43) for key_id in IDS]
    told = {_refused(ring, _header(token), NOW_MS + 99).detail for token in wrong}
    assert told == {"The API key is not known."}


async def test_a_key_revoked_long_ago_is_not_held(wire: Wire, store: SqlAccessStore) -> None:
    clock = HandClock()
    await store.create_key(_key(TOKENS[0]))
    await store.revoke_key("shop", IDS[0], NOW_MS)
    ring = _ring(wire, clock)
    await ring.start()
    assert "revoked" in _refused(ring, _header(TOKENS[0])).detail
    clock.at_ms += KEY_REVOKED_SHOWN_MS
    later = _ring(wire, clock)
    await later.start()
    assert "not known" in _refused(later, _header(TOKENS[0])).detail


async def test_it_goes_on_with_what_it_knows_and_tells_once(
    wire: Wire, store: SqlAccessStore
) -> None:
    await store.create_key(_key(TOKENS[0]))
    clock = HandClock()
    ring = _ring(wire, clock)
    with structlog.testing.capture_logs() as lines:
        await ring.start()
        wire.cut = True
        clock.at_ms += 5_000
        for _ in range(3):
            await ring.start()
        assert ring.identify(_header(TOKENS[0]), NOW_MS).namespace == "shop"
        await ring.check()
        assert ring.confirmed_at_ms == NOW_MS, "honest about how old it is"
        await store.revoke_key("shop", IDS[0], NOW_MS)
        wire.cut = False
        await ring.start()
    assert "revoked" in _refused(ring, _header(TOKENS[0])).detail
    assert ring.confirmed_at_ms == NOW_MS + 5_000
    assert [(line["action"], line["log_level"]) for line in lines] == [
        ("stale", "warning"),
        ("fresh", "info"),
    ]
    assert lines[0]["going_on_with"] == 1
    assert TOKENS[0].secret not in str(lines)


async def test_a_slow_answer_is_given_up(wire: Wire, store: SqlAccessStore) -> None:
    await store.create_key(_key(TOKENS[0]))
    ring = _ring(wire, read_timeout_s=1)
    await ring.start()
    wire.slow_s = 30
    with pytest.raises(Unavailable, match="no answer"):
        await ring.refresh()
    assert ring.identify(_header(TOKENS[0]), NOW_MS).namespace == "shop"


async def test_a_store_that_was_not_migrated_is_told_in_words_and_tried_again(
    wire: Wire,
) -> None:
    tries: list[int] = []

    async def prepare() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise Unsuitable("run `meterline migrate`")

    ring = KeyRing(wire, HandClock(), prepare)  # type: ignore[arg-type]
    with structlog.testing.capture_logs() as lines:
        await ring.start()
        with pytest.raises(Unavailable, match="not read yet: run `meterline migrate`"):
            await ring.check()
        for _ in range(4):
            await ring.start()
    await ring.check()
    assert len(tries) == 3, "once it is there, it is not asked again"
    assert [line.get("reason") for line in lines] == ["run `meterline migrate`", None]


async def test_a_fault_of_ours_does_not_end_the_polls(wire: Wire, store: SqlAccessStore) -> None:
    broken = Wire(wire)  # type: ignore[arg-type]
    broken.store = None  # type: ignore[assignment]
    ring = _ring(broken)
    with structlog.testing.capture_logs() as lines:
        await ring.start()
        broken.store = store
        await ring.start()
    await ring.check()
    assert [line["action"] for line in lines] == ["failed", "stale", "fresh"]


async def test_a_store_that_was_put_back_is_read_anew(
    wire: Wire, store: SqlAccessStore, tmp_path: Path
) -> None:
    for token in TOKENS[:2]:
        await store.create_key(_key(token))
    ring = _ring(wire)
    await ring.start()
    database = open_database(f"sqlite:///{tmp_path / 'backup.db'}")
    await migrate(database)
    wire.store = SqlAccessStore(database)
    await wire.store.create_key(_key(TOKENS[2]))
    await ring.refresh()
    assert ring.identify(_header(TOKENS[2]), NOW_MS).namespace == "shop"
    assert "not known" in _refused(ring, _header(TOKENS[0])).detail
    await database.close()


async def test_last_use_is_written_together_and_kept_while_the_store_is_away(
    wire: Wire, store: SqlAccessStore
) -> None:
    for token in TOKENS[:2]:
        await store.create_key(_key(token))
    ring = _ring(wire)
    await ring.start()
    ring.identify(_header(TOKENS[0]), NOW_MS + 1)
    ring.identify(_header(TOKENS[1]), NOW_MS + 2)
    _refused(ring, _header(TOKENS[2]), NOW_MS)
    _refused(ring, _header(Token(IDS[0], "B" * 43)), NOW_MS + 9)
    wire.cut = True
    await ring.close()
    ring.identify(_header(TOKENS[0]), NOW_MS + 3)
    wire.cut = False
    await ring.close()
    assert wire.used == [{IDS[0]: NOW_MS + 3, IDS[1]: NOW_MS + 2}]
    assert [key.last_used_at_ms for key in await store.keys("shop", 9)] == [NOW_MS + 3, NOW_MS + 2]


@asynccontextmanager
async def _kept(ring: KeyRing) -> AsyncIterator[None]:
    stop = asyncio.Event()
    running = asyncio.create_task(ring.run(stop))
    yield
    stop.set()
    await running


class OneKey:
    """A store with one key, in memory: on a clock that jumps there are no threads to wait for."""

    def __init__(self) -> None:
        self.version = 1
        self.key = _key(TOKENS[0])

    def revoke(self) -> None:
        self.version += 1
        self.key = replace(self.key, revoked_at_ms=NOW_MS)

    async def keys_version(self) -> int:
        return self.version

    async def keys_changed(
        self, after: tuple[int, str], _limit: int
    ) -> list[tuple[tuple[int, str], ApiKey]]:
        place = (self.version, self.key.id)
        return [(place, self.key)] if place > after else []

    async def note_used(self, _used_at_ms: Mapping[str, int]) -> None:
        """It keeps none."""


async def _refused_after_s(loop: VirtualLoop, after_poll_s: float, slow_s: float) -> float:
    """How long after its revocation a key is refused; from then on no answer for `slow_s`."""
    store: Any = OneKey()
    wire = Wire(store)
    ring: KeyRing = KeyRing(wire, Time(loop))  # type: ignore[arg-type]
    await ring.start()
    async with _kept(ring):
        await asyncio.sleep(after_poll_s)
        store.revoke()
        revoked_s = loop.time()
        if slow_s:
            wire.slow_s = 30
            loop.call_later(slow_s, setattr, wire, "slow_s", 0.0)
        while True:
            try:
                ring.identify(_header(TOKENS[0]), NOW_MS)
            except Problem:
                return loop.time() - revoked_s
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(("slow_s", "within_s"), [(0, 2), (2, 4)])
@pytest.mark.parametrize("after_poll_s", [0, 0.1, 0.5, 0.99, 1, 1.5])
def test_a_revoked_key_is_refused_within_five_seconds(
    slow_s: float, within_s: float, after_poll_s: float
) -> None:
    loop = VirtualLoop()
    try:
        took_s = loop.run_until_complete(_refused_after_s(loop, after_poll_s, slow_s))
    finally:
        loop.end()
    assert 0 < took_s < within_s


async def test_what_was_used_is_written_while_it_runs(wire: Wire, store: SqlAccessStore) -> None:
    await store.create_key(_key(TOKENS[0]))
    ring = _ring(wire, last_used_write_s=0.05, poll_s=0.01)
    await ring.start()
    async with _kept(ring):
        ring.identify(_header(TOKENS[0]), NOW_MS + 7)
        async with asyncio.timeout(60):
            await wire.noted.wait()
        assert wire.used[0] == {IDS[0]: NOW_MS + 7}


async def test_more_keys_than_one_page_are_all_known(wire: Wire, store: SqlAccessStore) -> None:
    for token in TOKENS:
        await store.create_key(_key(token))
    pages: list[int] = []

    async def keys_changed(
        after: tuple[int, str], limit: int
    ) -> list[tuple[tuple[int, str], ApiKey]]:
        assert limit == KEYS_READ_ROWS
        found = await store.keys_changed(after, 1)
        pages.append(len(found))
        # a page is full: as if there were thousands
        return found * (limit if found else 0)

    wire.keys_changed = keys_changed  # type: ignore[method-assign]
    ring = _ring(wire)
    await ring.start()
    assert pages == [1, 1, 1, 0]
    for token in TOKENS:
        assert ring.identify(_header(token), NOW_MS).namespace == "shop"
