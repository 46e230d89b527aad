"""The rules of sessions: what a token is worth, and when a session ends."""

import hmac
from base64 import urlsafe_b64encode
from dataclasses import replace

import pytest

from meterline.access import (
    ApiKey,
    Scope,
    SessionToken,
    Verdict,
    hash_of,
    new_session,
    parse_session_token,
    session_token,
    session_verdict,
)
from meterline.limits import SESSION_S, SESSION_WHOLE_S

NOW_MS = 1_700_000_000_123
KEY = ApiKey(
    id="01HF7YAT3V0000000000000000",
    namespace="default",
    name="billing",
    scopes=frozenset({Scope.USAGE_READ}),
    created_at_ms=NOW_MS,
    created_by="command",
    secret_hash=hash_of("first"),
)
TOKEN = session_token(KEY, bytes(range(32)))


def test_a_token_is_read_as_it_was_written_and_tells_no_secret() -> None:
    assert parse_session_token(TOKEN.text) == TOKEN
    assert KEY.secret_hash not in TOKEN.text.encode()
    assert TOKEN.random not in repr(TOKEN)
    assert TOKEN.tag not in repr(TOKEN)
    assert session_token(KEY, bytes(32)).digest != TOKEN.digest


@pytest.mark.parametrize("text", ["", "x", TOKEN.text[:-1], TOKEN.text + "A", "mtl_" + TOKEN.text])
def test_anything_else_is_no_token(text: str) -> None:
    assert parse_session_token(text) is None


@pytest.mark.parametrize(
    ("key", "found"),
    [
        (None, Verdict.UNKNOWN),
        (KEY, Verdict.GOOD),
        (replace(KEY, secret_hash=hash_of("other")), Verdict.WRONG),
        (replace(KEY, revoked_at_ms=NOW_MS), Verdict.REVOKED),
        (replace(KEY, expires_at_ms=NOW_MS), Verdict.EXPIRED),
        (
            replace(
                KEY,
                secret_hash=hash_of("second"),
                previous_hash=KEY.secret_hash,
                previous_until_ms=NOW_MS + 1,
            ),
            Verdict.PREVIOUS,
        ),
        (
            replace(
                KEY,
                secret_hash=hash_of("second"),
                previous_hash=KEY.secret_hash,
                previous_until_ms=NOW_MS,
            ),
            Verdict.REPLACED,
        ),
    ],
)
def test_a_session_is_worth_what_its_key_is(key: ApiKey | None, found: Verdict) -> None:
    assert session_verdict(key, TOKEN, NOW_MS) is found


def test_a_tag_that_anybody_can_make_is_worth_nothing() -> None:
    known = hmac.digest(bytes(32), f"session:{KEY.id}:{TOKEN.random}".encode(), "sha256")
    forged = SessionToken(KEY.id, TOKEN.random, urlsafe_b64encode(known).rstrip(b"=").decode())
    assert session_verdict(KEY, forged, NOW_MS) is Verdict.WRONG


def test_renewed_it_ends_later_but_not_beyond_a_day_of_work() -> None:
    session = new_session(TOKEN, NOW_MS)
    assert session.expires_at_ms == NOW_MS + SESSION_S * 1_000
    assert not session.is_over(session.expires_at_ms - 1)
    assert session.is_over(session.expires_at_ms)
    assert session.renewed(NOW_MS + 7).expires_at_ms == session.expires_at_ms + 7
    assert session.renewed(NOW_MS - 7) == session, "a clock that was set back shortens nothing"
    last_ms = NOW_MS + SESSION_WHOLE_S * 1_000
    assert session.renewed(last_ms - 1).expires_at_ms == session.renewable_until_ms == last_ms
