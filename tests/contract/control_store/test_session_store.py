"""What every SessionStore promises (meterline/access/session_ports.py), on both databases."""

from dataclasses import replace

import pytest

from meterline.access import Session, SessionStore
from meterline.backends.control_store.access.sessions import SqlSessionStore
from meterline.backends.control_store.engine import Database

NOW_MS = 1_700_000_000_123
KEY_ID = "01HF7YAT3V0000000000000000"


def _session(number: int, key_id: str = KEY_ID) -> Session:
    at_ms = NOW_MS + number
    return Session(bytes([number] * 32), key_id, at_ms, at_ms + 1_000)


@pytest.fixture
def store(control_database: Database) -> SessionStore:
    """A store without sessions; a key has two at most."""
    return SqlSessionStore(control_database, per_key_max=2)


async def test_a_session_is_kept_until_it_is_ended(store: SessionStore) -> None:
    session = _session(1)
    assert await store.session(session.token_hash) is None
    for _ in range(2):  # what writes may be repeated
        await store.start_session(session)
    assert await store.session(session.token_hash) == session
    for _ in range(2):
        await store.end_session(session.token_hash)
    assert await store.session(session.token_hash) is None


async def test_it_ends_later_and_never_earlier(store: SessionStore) -> None:
    session = _session(1)
    await store.start_session(session)
    later_ms = session.expires_at_ms + 5
    for expires_at_ms in (later_ms, session.expires_at_ms):
        await store.renew_session(session.token_hash, expires_at_ms)
    kept = await store.session(session.token_hash)
    assert kept == replace(session, expires_at_ms=later_ms)
    await store.end_session(session.token_hash)
    await store.renew_session(session.token_hash, later_ms + 1)
    assert await store.session(session.token_hash) is None, "a renewal brings nothing back"


async def test_the_oldest_of_a_key_goes(store: SessionStore) -> None:
    other = _session(1, KEY_ID[:-1] + "1")
    mine = [_session(number) for number in range(2, 5)]
    for one in (other, *mine):
        await store.start_session(one)
    found = [await store.session(one.token_hash) for one in (other, *mine)]
    assert found == [other, None, *mine[1:]]


async def test_what_is_over_goes_when_a_session_begins(store: SessionStore) -> None:
    old = _session(1)
    await store.start_session(old)
    at_ms = old.expires_at_ms
    new = replace(_session(9), created_at_ms=at_ms, expires_at_ms=at_ms + 1_000)
    await store.start_session(new)
    assert await store.session(old.token_hash) is None
    assert await store.session(new.token_hash) == new
