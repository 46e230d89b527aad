"""Sessions of the console over HTTP: the key in, a cookie out, and nothing for other origins."""

import shutil
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from control import front
from control.front import Console
from control.routes import all_scopes
from control.v3.access.keys import V3Keys
from control.v3.access.sessions import V3Sessions
from meterline.access import Scope, hash_of, parse_token
from meterline.backends.control_store.access.keys import SqlAccessStore
from meterline.backends.control_store.access.sessions import SqlSessionStore
from meterline.backends.control_store.engine import Database, open_database
from meterline.backends.key_ring import KeyRing
from meterline.http import SERVER_OPTIONS, problem_middleware
from meterline.http.gate import Gate
from meterline.http.mounting import V3_PREFIXES, mount
from meterline.http.origins import HostRule
from meterline.http.sessions import COOKIE, HEADER, Sessions, session_middleware
from meterline.limits import (
    SESSION_REMEMBERED_MS,
    SESSION_S,
    SIGN_IN_REFUSALS_MAX,
)
from meterline.ports import Unavailable
from tests.openapi import documented
from tests.unit.control.conftest import NOW_MS, Client, HandClock
from tests.unit.control.v3.test_keys import Keyed

SESSION = "/api/v3/metering/session"
KEYS = "/api/v3/metering/api-keys"
OWN = {HEADER: "1"}
SIGNED_OUT = {"access_mode": "keys", "signed_in": False, "scopes": [], "console": "b1"}
INDEX = b'<meta name="meterline-scopes" content="" />'
NEW_KEY = {"name": "more", "scopes": ["keys:read"]}


class AwayStore(SqlSessionStore):
    """A store of sessions that can be away."""

    away = False

    async def session(self, token_hash: bytes) -> Any:
        if self.away:
            raise Unavailable("control store: connection refused")
        return await super().session(token_hash)


@dataclass(slots=True)
class Page:
    """A browser's page: it has a cookie, or none."""

    client: Client
    keyed: Keyed
    store: AwayStore
    cookie: str = ""

    async def ask(
        self,
        method: str,
        path: str,
        expected: int = 200,
        headers: Mapping[str, str] = OWN,
        **more: Any,
    ) -> Any:
        """The JSON of an answer that has the expected status; a cookie that it sets is kept."""
        sent = {**headers, **({"Cookie": f"{COOKIE}={self.cookie}"} if self.cookie else {})}
        async with self.client.request(method, path, headers=sent, **more) as response:
            text = await response.text()
            assert response.status == expected, text
            if (line := response.headers.get("Set-Cookie")) is not None:
                morsel = SimpleCookie(line)[COOKIE]
                flags = (morsel["secure"], morsel["httponly"], morsel["samesite"], morsel["path"])
                assert flags == (True, True, "Strict", "/")
                assert not morsel["domain"]
                self.cookie = morsel.value
            return await response.json(content_type=None) if text else None

    async def told(self) -> list[str]:
        """The scopes that the console's page names."""
        headers = {"Cookie": f"{COOKIE}={self.cookie}"} if self.cookie else {}
        async with self.client.get("/console/", headers=headers) as response:
            assert response.status == 200
            return (await response.text()).split('content="')[1].split('"')[0].split()

    async def sign_in(self, *scopes: Scope) -> str:
        """Sign in with a fresh key; the key."""
        key = await self.keyed.key(*scopes)
        await self.ask("POST", SESSION, 201, json={"key": key})
        return key


async def served(database: Database, clock: HandClock, mode: str) -> Page:
    """A server in a mode, and a page of it."""
    access, store = SqlAccessStore(database), AwayStore(database)
    ring = KeyRing(access, clock)
    await ring.start()
    rule = HostRule(frozenset(), any_host=True)
    sessions = Sessions(store, ring, clock, rule) if mode == "keys" else None
    guards = [session_middleware(sessions)] if sessions else []
    app = web.Application(middlewares=[documented, problem_middleware(clock), *guards])
    gate = Gate(clock, ring.identify if sessions else None)
    bound = [
        *V3Keys(access, clock, {}, ring.catch_up).bound(),
        *V3Sessions(sessions, clock, "b1").bound(),
    ]
    app.add_routes(mount(bound, V3_PREFIXES, gate))
    console = Console({"index.html": INDEX})
    app.add_routes(front.routes(console, sessions.scopes_of if sessions else all_scopes))
    server = TestServer(app)
    await server.start_server(**SERVER_OPTIONS)
    client: Client = TestClient(server, cookie_jar=None)
    return Page(client, Keyed(client, access, ring, clock), store)


@pytest.fixture
async def database(tmp_path: Path, migrated: Path) -> AsyncIterator[Database]:
    shutil.copy(migrated, tmp_path / "control.db")
    opened = open_database(f"sqlite:///{tmp_path / 'control.db'}")
    yield opened
    await opened.close()


@pytest.fixture
async def page(database: Database) -> AsyncIterator[Page]:
    found = await served(database, HandClock(), "keys")
    yield found
    await found.client.close()


async def test_a_key_signs_in_and_its_scopes_are_told(page: Page) -> None:
    assert await page.ask("GET", SESSION) == SIGNED_OUT
    key = await page.sign_in(Scope.KEYS_READ, Scope.KEYS_WRITE)
    token = parse_token(key)
    assert token is not None
    assert token.secret not in page.cookie
    assert hash_of(token.secret).hex() not in page.cookie
    assert await page.ask("GET", SESSION) == {
        "access_mode": "keys",
        "signed_in": True,
        "scopes": ["keys:read", "keys:write"],
        "namespace": "default",
        "key": {"id": token.key_id, "name": "made by command"},
        "expires_at": "2023-11-14T22:43:20Z",
        "renewable_until": "2023-11-15T10:13:20Z",
        "console": "b1",
    }
    made = await page.ask("POST", KEYS, 201, json=NEW_KEY)
    assert made["created_by"] == f"key:{token.key_id}"
    problem = await page.ask("GET", "/api/v3/metering/api-keys/x", 404)
    assert problem["type"] == "urn:meterline:problem:not-found"


async def test_the_page_names_what_its_viewer_may_do(page: Page) -> None:
    assert await page.told() == []
    await page.sign_in(Scope.KEYS_WRITE, Scope.KEYS_READ)
    assert await page.told() == ["keys:read", "keys:write"]
    await page.ask("DELETE", SESSION, 204)
    assert await page.told() == []
    page.cookie = "made-up"
    assert await page.told() == []


async def test_the_page_is_answered_while_sessions_cannot_be_read(page: Page) -> None:
    await page.sign_in(Scope.KEYS_READ)
    page.store.away = True
    assert await page.told() == []


async def test_a_key_may_do_by_cookie_no_more_than_by_itself(page: Page) -> None:
    await page.sign_in(Scope.KEYS_READ)
    await page.ask("GET", KEYS)
    problem = await page.ask("POST", KEYS, 403, json=NEW_KEY)
    assert "keys:write" in problem["detail"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "same-origin"},
        {**OWN, "Sec-Fetch-Site": "same-site"},
        {**OWN, "Sec-Fetch-Site": "cross-site"},
        {**OWN, "Sec-Fetch-Site": "none"},
        {**OWN, "Origin": "https://evil.example"},
        {**OWN, "Origin": "null"},
    ],
)
async def test_a_change_by_cookie_is_from_the_console_only(
    page: Page, headers: dict[str, str]
) -> None:
    await page.sign_in(Scope.KEYS_READ, Scope.KEYS_WRITE)
    before = await page.ask("GET", KEYS)
    for method, path in (("POST", KEYS), ("POST", SESSION), ("DELETE", SESSION)):
        problem = await page.ask(method, path, 403, headers, json={"key": "x", **NEW_KEY})
        assert problem["type"] == "urn:meterline:problem:forbidden"
    assert await page.ask("GET", KEYS) == before
    page.cookie = ""
    await page.ask("POST", SESSION, 403, headers, json={"key": "x"})


async def test_behind_a_proxy_the_browser_says_where_a_change_is_from(page: Page) -> None:
    await page.sign_in(Scope.KEYS_WRITE)
    proxied = {**OWN, "Origin": "https://meter.example.com", "Sec-Fetch-Site": "same-origin"}
    await page.ask("DELETE", f"{KEYS}/01HF7YAT00V3TVHZZZZZZZZZZZ", 404, proxied)


async def test_a_link_on_a_page_of_another_origin_reads_nothing(page: Page) -> None:
    await page.sign_in(Scope.KEYS_READ)
    for site, expected in (("same-origin", 200), ("none", 200), ("same-site", 401)):
        await page.ask("GET", KEYS, expected, {"Sec-Fetch-Site": site})


async def test_a_browser_would_drop_the_cookie_over_plain_http(page: Page) -> None:
    key = await page.keyed.key(Scope.KEYS_READ)
    host, same = {"Host": "10.0.0.5:8888"}, {"Sec-Fetch-Site": "same-origin"}
    plain = {**OWN, **host, "Origin": "http://10.0.0.5:8888"}
    problem = await page.ask("POST", SESSION, 403, plain, json={"key": key})
    assert "HTTPS" in problem["detail"]
    for origin in ("http://localhost:8888", "http://127.0.0.1:8888", "https://meter.example.com"):
        headers = {**OWN, **same, "Origin": origin}
        await page.ask("POST", SESSION, 201, headers, json={"key": key})


async def test_signing_out_is_final(page: Page) -> None:
    await page.sign_in(Scope.KEYS_READ)
    stolen = page.cookie
    await page.ask("DELETE", SESSION, 204)
    assert page.cookie == ""
    page.cookie = stolen
    problem = await page.ask("GET", KEYS, 401)
    assert "Sign in again" in problem["detail"]
    assert await page.ask("GET", SESSION) == SIGNED_OUT
    await page.ask("POST", f"{SESSION}/renew", 401)
    await page.ask("DELETE", SESSION, 204)


async def test_another_process_learns_of_it_in_a_moment(page: Page, database: Database) -> None:
    await page.sign_in(Scope.KEYS_READ)
    other = await served(database, page.keyed.clock, "keys")
    try:
        other.cookie = page.cookie
        await other.ask("GET", KEYS)
        await page.ask("DELETE", SESSION, 204)
        page.keyed.clock.at_ms += SESSION_REMEMBERED_MS
        await other.ask("GET", KEYS, 401)
    finally:
        await other.client.close()


async def test_a_new_session_ends_the_one_before(page: Page) -> None:
    key = await page.sign_in(Scope.KEYS_READ)
    before = page.cookie
    await page.ask("POST", SESSION, 201, json={"key": f" {key}\n"})
    assert page.cookie != before
    await page.ask("GET", KEYS)
    page.cookie = before
    await page.ask("GET", KEYS, 401)


async def test_a_session_ends_with_its_key(page: Page) -> None:
    key = await page.sign_in(Scope.KEYS_READ)
    token = parse_token(key)
    assert token is not None
    await page.ask("GET", KEYS)
    await page.keyed.access.revoke_key("default", token.key_id, NOW_MS)
    await page.keyed.ring.refresh()
    problem = await page.ask("GET", KEYS, 401)
    assert "revoked" in problem["detail"]
    assert await page.ask("GET", SESSION) == SIGNED_OUT


async def test_a_session_ends_by_itself_unless_it_is_renewed(page: Page) -> None:
    await page.sign_in(Scope.KEYS_READ)
    clock = page.keyed.clock
    clock.at_ms += SESSION_S * 1_000 - 1
    renewed = await page.ask("POST", f"{SESSION}/renew")
    assert renewed["expires_at"] == "2023-11-14T23:13:19.999Z"
    clock.at_ms += SESSION_S * 1_000 - 1
    await page.ask("GET", KEYS)
    clock.at_ms += 1
    await page.ask("GET", KEYS, 401)


async def test_an_outage_of_the_store_signs_nobody_out(page: Page) -> None:
    await page.sign_in(Scope.KEYS_READ)
    await page.ask("GET", SESSION)
    page.store.away = True
    page.keyed.clock.at_ms += SESSION_REMEMBERED_MS * 5
    shown = await page.ask("GET", SESSION)
    assert shown["signed_in"]
    page.keyed.clock.at_ms += SESSION_S * 1_000
    assert await page.ask("GET", SESSION) == SIGNED_OUT


async def test_wrong_keys_are_limited_and_the_right_one_is_not(page: Page) -> None:
    key = await page.keyed.key(Scope.KEYS_READ)
    wrong = key[:-1] + ("A" if key[-1] != "A" else "B")
    for number in range(SIGN_IN_REFUSALS_MAX):
        problem = await page.ask("POST", SESSION, 401, json={"key": wrong if number % 2 else "x"})
        assert problem["type"] == "urn:meterline:problem:unauthenticated"
    await page.ask("POST", SESSION, 429, json={"key": wrong})
    await page.ask("POST", SESSION, 201, json={"key": key})


async def test_an_authorization_header_wins(page: Page) -> None:
    await page.sign_in(Scope.KEYS_READ)
    key = await page.keyed.key(Scope.KEYS_READ, Scope.KEYS_WRITE)
    bearer = {"Authorization": f"Bearer {key}"}
    await page.ask("POST", KEYS, 201, bearer, json=NEW_KEY)
    await page.ask("GET", KEYS, 401, {"Authorization": "Bearer nonsense"})


async def test_a_made_up_cookie_is_nobody(page: Page) -> None:
    key = await page.sign_in(Scope.KEYS_READ)
    for cookie in ("x", page.cookie[:-2] + "AA", key):
        page.cookie = cookie
        page.store.away = True  # it is not even asked
        await page.ask("GET", KEYS, 401)


async def test_nobody_signs_in_where_no_keys_are_asked_for(database: Database) -> None:
    page = await served(database, HandClock(), "none")
    try:
        shown = await page.ask("GET", SESSION)
        assert (shown["access_mode"], shown["signed_in"]) == ("none", True)
        assert shown["scopes"] == sorted(Scope) == await page.told()
        await page.ask("POST", SESSION, 409, json={"key": "x"})
        await page.ask("POST", f"{SESSION}/renew", 409)
        await page.ask("DELETE", SESSION, 204)
    finally:
        await page.client.close()
