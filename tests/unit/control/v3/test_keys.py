"""Keys and changes over HTTP, with the gate in mode `keys`: each call is by a key of its own."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from ulid import ULID

from control.v3.access.changes import V3Changes
from control.v3.access.keys import V3Keys
from meterline.access import (
    EVERY_SCOPE,
    ApiKey,
    Kind,
    Policy,
    Scope,
    Throttle,
    Token,
    hash_of,
    token_of,
)
from meterline.backends.control_store.access.keys import SqlAccessStore
from meterline.backends.control_store.engine import open_database
from meterline.backends.key_ring import KeyRing
from meterline.http import SERVER_OPTIONS, problem_middleware
from meterline.http.gate import Gate
from meterline.http.mounting import V3_PREFIXES, mount
from tests.openapi import documented
from tests.unit.control.conftest import NOW_MS, Client, HandClock

KEYS = "/api/v3/metering/api-keys"
CHANGES = "/api/v3/metering/changes"
AT = "2023-11-14T22:13:20Z"
PLANS = {"small": (Policy("requests", 5, 60),), "large": ()}
ADMIN = EVERY_SCOPE - {Scope.OPERATE}
UNKNOWN = "01HF7YAT00V3TVHZZZZZZZZZZZ"


@dataclass(slots=True)
class Keyed:
    """An API that asks for keys, and its parts."""

    client: Client
    access: SqlAccessStore
    ring: KeyRing
    clock: HandClock

    async def key(
        self,
        *scopes: Scope,
        namespace: str = "default",
        plan: str | None = None,
        expires_at_ms: int | None = None,
    ) -> str:
        """Make a key as the command does; returns what is sent."""
        token = token_of(str(ULID()), bytes([len(scopes)] * 32))
        key = ApiKey(
            id=token.key_id,
            namespace=namespace,
            name="made by command",
            scopes=frozenset(scopes),
            created_at_ms=NOW_MS,
            created_by="command",
            secret_hash=hash_of(token.secret),
            plan=plan,
            expires_at_ms=expires_at_ms,
        )
        await self.access.create_key(key)
        await self.ring.refresh()
        return token.text

    async def ask(
        self, key: str | None, method: str, path: str, expected: int = 200, **more: Any
    ) -> Any:
        """The JSON of an answer that has the expected status."""
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        async with self.client.request(method, path, headers=headers, **more) as response:
            text = await response.text()
            assert response.status == expected, text
            if '"key":"mtl_' in text:
                assert response.headers["Cache-Control"] == "no-store"
            return await response.json(content_type=None) if text else None

    async def rules(self, key: str, method: str, path: str, **more: Any) -> dict[str, str]:
        """Fields and rules that a 400 names."""
        problem = await self.ask(key, method, path, 400, **more)
        assert problem["type"] == "urn:meterline:problem:bad-request"
        return {fault["field"]: fault.get("rule", "") for fault in problem["invalid_parameters"]}


@pytest.fixture
async def keyed(tmp_path: Path, migrated: Path) -> AsyncIterator[Keyed]:
    """An installation that asks for keys, and has none yet."""
    clock = HandClock()
    shutil.copy(migrated, tmp_path / "control.db")
    database = open_database(f"sqlite:///{tmp_path / 'control.db'}")
    access = SqlAccessStore(database, keys_max=20)
    ring = KeyRing(access, clock)
    await ring.start()
    gate = Gate(clock, ring.identify, Throttle(PLANS))
    app = web.Application(middlewares=[documented, problem_middleware(clock)])
    bound = [*V3Keys(access, clock, PLANS, ring.catch_up).bound(), *V3Changes(access).bound()]
    app.add_routes(mount(bound, V3_PREFIXES, gate))
    server = TestServer(app)
    await server.start_server(**SERVER_OPTIONS)
    client: Client = TestClient(server)
    yield Keyed(client, access, ring, clock)
    await client.close()
    await database.close()


def _id(key: str) -> str:
    return key.split("_")[1]


async def test_a_key_is_shown_once_and_works_at_once(keyed: Keyed) -> None:
    admin = await keyed.key(*ADMIN)
    body = {"name": "gateway", "scopes": ["usage:read", "events:write", "keys:read"]}
    made = await keyed.ask(admin, "POST", KEYS, 201, json=body)
    shown = {
        "id": made["id"],
        "name": "gateway",
        "scopes": ["events:write", "keys:read", "usage:read"],
        "state": "active",
        "created_at": AT,
        "created_by": f"key:{_id(admin)}",
    }
    assert made == {**shown, "key": made["key"]}
    assert _id(made["key"]) == made["id"]
    assert await keyed.ask(made["key"], "GET", f"{KEYS}/{made['id']}") == shown
    assert await keyed.ask(made["key"], "GET", f"/api/v3/openmeter/api-keys/{made['id']}") == shown


async def test_without_a_good_key_nobody_gets_in(keyed: Keyed) -> None:
    admin = await keyed.key(*ADMIN)
    for bad in (None, "x", admin[:-1], admin[:-1] + ("A" if admin[-1] != "A" else "B")):
        problem = await keyed.ask(bad, "GET", KEYS, 401)
        assert problem["type"] == "urn:meterline:problem:unauthenticated"


async def test_every_operation_asks_for_its_scope(keyed: Keyed) -> None:
    reader = await keyed.key(Scope.KEYS_READ)
    writer = await keyed.key(Scope.KEYS_WRITE, Scope.EVENTS_READ)
    one = f"{KEYS}/{_id(writer)}"
    calls: list[tuple[str, str, Any]] = [
        ("POST", KEYS, {"name": "a", "scopes": ["keys:read"]}),
        ("PUT", one, {}),
        ("POST", f"{one}/rotate", {}),
        ("DELETE", one, None),
    ]
    for method, path, body in calls:
        problem = await keyed.ask(reader, method, path, 403, json=body)
        assert "keys:write" in problem["detail"]
    for path in (KEYS, one, CHANGES):
        problem = await keyed.ask(writer, "GET", path, 403)
        assert ":read" in problem["detail"]


async def test_all_faults_of_a_key_are_told(keyed: Keyed) -> None:
    admin = await keyed.key(*ADMIN)
    body: dict[str, Any] = {"name": "", "scopes": ["root"], "expires_at": "soon", "secret": "x"}
    assert await keyed.rules(admin, "POST", KEYS, json=body) == {
        "name": "min_length",
        "scopes.0": "enum",
        "expires_at": "is_date_time",
        "secret": "unknown_property",
    }
    body = {"name": "a\x00", "scopes": [], "plan": None, "expires_at": None}
    assert await keyed.rules(admin, "POST", KEYS, json=body) == {
        "name": "matches_regex",
        "scopes": "min_items",
        "plan": "type",
        "expires_at": "type",
    }
    body = {"name": "a", "scopes": ["operate"], "plan": "large", "expires_at": AT}
    assert await keyed.rules(admin, "POST", KEYS, json=body) == {
        "scopes": "scope_by_command",
        "plan": "plan_beyond_own",
        "expires_at": "minimum",
    }


async def test_a_key_gives_no_more_than_it_has(keyed: Keyed) -> None:
    giver = await keyed.key(Scope.KEYS_WRITE, Scope.EVENTS_WRITE, plan="small")
    body = {"name": "a", "scopes": ["events:write", "secrets:read"]}
    assert await keyed.rules(giver, "POST", KEYS, json=body) == {"scopes": "scope_beyond_own"}
    body = {"name": "a", "scopes": ["events:write"]}
    made = await keyed.ask(giver, "POST", KEYS, 201, json=body)
    assert made["plan"] == "small", "or it would be without limits"


async def test_the_secret_of_a_stronger_key_is_not_to_be_had(keyed: Keyed) -> None:
    admin = await keyed.key(*ADMIN)
    giver = await keyed.key(Scope.KEYS_WRITE, Scope.EVENTS_WRITE)
    one = f"{KEYS}/{_id(admin)}"
    for method, path, body in (
        ("POST", f"{one}/rotate", {}),
        ("PUT", one, {"name": "mine"}),
        ("DELETE", one, None),
    ):
        problem = await keyed.ask(giver, method, path, 403, json=body)
        assert "you do not have" in problem["detail"]
    assert (await keyed.ask(admin, "GET", one))["name"] == "made by command"


async def test_the_secret_of_a_key_with_another_plan_is_not_to_be_had(keyed: Keyed) -> None:
    other = await keyed.key(Scope.EVENTS_WRITE, plan="large")
    giver = await keyed.key(Scope.KEYS_WRITE, Scope.EVENTS_WRITE, plan="small")
    problem = await keyed.ask(giver, "POST", f"{KEYS}/{_id(other)}/rotate", 403, json={})
    assert "another plan" in problem["detail"]
    await keyed.ask(giver, "DELETE", f"{KEYS}/{_id(other)}", 204)


async def test_a_rotated_key_has_two_secrets_until_its_overlap_ends(keyed: Keyed) -> None:
    old = await keyed.key(*ADMIN)
    one = f"{KEYS}/{_id(old)}"
    rotated = await keyed.ask(old, "POST", f"{one}/rotate", json={"overlap_seconds": 60})
    new = rotated["key"]
    assert new != old
    assert _id(new) == _id(old)
    assert rotated["previous_secret_until"] == "2023-11-14T22:14:20Z"
    assert rotated["rotated_at"] == AT
    for key in (old, new):
        assert (await keyed.ask(key, "GET", one))["state"] == "active"
    keyed.clock.at_ms += 60_000
    assert "previous_secret_until" not in await keyed.ask(new, "GET", one)
    assert "replaced" in (await keyed.ask(old, "GET", one, 401))["detail"]
    faults = await keyed.rules(new, "POST", f"{one}/rotate", json={"overlap_seconds": -1})
    assert faults == {"overlap_seconds": "minimum"}


async def test_a_revoked_key_is_refused_and_stays_in_the_list(keyed: Keyed) -> None:
    admin, other = await keyed.key(*ADMIN), await keyed.key(Scope.KEYS_READ)
    one = f"{KEYS}/{_id(other)}"
    for _ in range(2):
        assert await keyed.ask(admin, "DELETE", one, 204) is None
    assert "revoked" in (await keyed.ask(other, "GET", KEYS, 401))["detail"]
    shown = await keyed.ask(admin, "GET", one)
    assert (shown["state"], shown["revoked_at"]) == ("revoked", AT)
    await keyed.ask(admin, "PUT", one, 409, json={"name": "again"})
    await keyed.ask(admin, "POST", f"{one}/rotate", 409, json={})


async def test_a_key_can_be_renamed_and_narrowed(keyed: Keyed) -> None:
    admin, other = await keyed.key(*ADMIN), await keyed.key(Scope.KEYS_READ, Scope.USAGE_READ)
    one = f"{KEYS}/{_id(other)}"
    changed = await keyed.ask(admin, "PUT", one, json={"scopes": ["usage:read"], "name": "b"})
    assert (changed["name"], changed["scopes"]) == ("b", ["usage:read"])
    assert await keyed.ask(admin, "PUT", one, json={}) == changed
    await keyed.ask(other, "GET", KEYS, 403)
    faults = await keyed.rules(admin, "PUT", one, json={"plan": "large", "scopes": ["operate"]})
    assert faults == {"plan": "plan_beyond_own", "scopes": "scope_by_command"}


async def test_an_operator_gives_plans(keyed: Keyed) -> None:
    operator, other = await keyed.key(*EVERY_SCOPE), await keyed.key(Scope.KEYS_READ)
    one = f"{KEYS}/{_id(other)}"
    assert (await keyed.ask(operator, "PUT", one, json={"plan": "large"}))["plan"] == "large"
    assert "plan" not in await keyed.ask(operator, "PUT", one, json={"plan": ""})
    assert await keyed.rules(operator, "PUT", one, json={"plan": "huge"}) == {"plan": "enum"}


async def test_pages_of_keys_and_changes(keyed: Keyed) -> None:
    admin = await keyed.key(*ADMIN)
    names = ["made by command", "a", "b", "c"]
    for name in names[1:]:
        keyed.clock.at_ms += 1
        # ids of tests and of the API are made by different clocks: only the order of the API's
        # own is looked at
        body = {"name": name, "scopes": ["keys:read"]}
        await keyed.ask(admin, "POST", KEYS, 201, json=body)
    for path, order in ((KEYS, 1), (CHANGES, -1)):
        found: list[str] = []
        after: dict[str, str] = {}
        while True:
            page = await keyed.ask(admin, "GET", path, params={"page[size]": "3", **after})
            found += [entry["name"] for entry in page["data"]]
            if page["meta"]["page"]["next"] is None:
                break
            after = {"page[after]": page["meta"]["page"]["next"]}
        assert [name for name in found if len(name) == 1] == names[1:][::order]
        assert sorted(found) == sorted(names)
        for bad in ("x", "\x00", "8" * 26):
            faults = await keyed.rules(admin, "GET", path, params={"page[after]": bad})
            assert faults == {"page[after]": "matches_regex"}


async def test_what_was_done_is_told_with_who_did_it(keyed: Keyed) -> None:
    admin = await keyed.key(*ADMIN)
    body = {"name": "a", "scopes": ["keys:read"]}
    made = await keyed.ask(admin, "POST", KEYS, 201, json=body)
    one = f"{KEYS}/{made['id']}"
    await keyed.ask(admin, "PUT", one, json={"name": "b"})
    await keyed.ask(admin, "POST", f"{one}/rotate", json={})
    await keyed.ask(admin, "DELETE", one, 204)
    only = {"filter[kind]": "api_key", "filter[resource_id]": made["id"]}
    found = await keyed.ask(admin, "GET", CHANGES, params=only)
    told = [(entry["action"], entry["name"], entry.get("detail")) for entry in found["data"]]
    assert told == [
        ("revoke", "b", None),
        ("rotate", "b", None),
        ("update", "b", "name"),
        ("create", "a", None),
    ]
    assert {entry["author"] for entry in found["data"]} == {f"key:{_id(admin)}"}
    assert {entry["at"] for entry in found["data"]} == {AT}
    everything = await keyed.ask(admin, "GET", CHANGES)
    assert [entry["author"] for entry in everything["data"]][-1] == "command"
    assert "mtl_" not in str(everything)
    assert (await keyed.ask(admin, "GET", CHANGES, params={"filter[kind]": "meter"}))["data"] == []
    for wrong in ({"filter[kind]": "moon"}, {"filter[author]": "x"}):
        assert list(await keyed.rules(admin, "GET", CHANGES, params=wrong)) == list(wrong)


async def test_namespaces_are_walls(keyed: Keyed) -> None:
    mine, theirs = await keyed.key(*ADMIN), await keyed.key(*ADMIN, namespace="other")
    one = f"{KEYS}/{_id(theirs)}"
    never = f"{KEYS}/{UNKNOWN}"
    calls: list[tuple[str, str, Any]] = [
        ("GET", "", None),
        ("PUT", "", {"name": "x"}),
        ("POST", "/rotate", {}),
        ("DELETE", "", None),
    ]
    for method, rest, body in calls:
        problems = []
        for path in (one, never):
            problem = await keyed.ask(mine, method, path + rest, 404, json=body)
            problem.pop("instance")
            problems.append(str(problem).replace(_id(theirs), "ID").replace(UNKNOWN, "ID"))
        assert problems[0] == problems[1], "as if it never was"
    assert [entry["id"] for entry in (await keyed.ask(mine, "GET", KEYS))["data"]] == [_id(mine)]
    changes = (await keyed.ask(mine, "GET", CHANGES))["data"]
    assert [entry["resource_id"] for entry in changes] == [_id(mine)]
    made = await keyed.ask(theirs, "POST", KEYS, 201, json={"name": "a", "scopes": ["keys:read"]})
    found = await keyed.access.key("other", made["id"])
    assert found is not None
    assert found.namespace == "other"


async def test_so_many_keys_and_no_more(keyed: Keyed) -> None:
    admin = await keyed.key(*ADMIN)
    body = {"name": "a", "scopes": ["keys:read"]}
    await asyncio.gather(*(keyed.ask(admin, "POST", KEYS, 201, json=body) for _ in range(19)))
    problem = await keyed.ask(admin, "POST", KEYS, 409, json=body)
    assert "revoke one first" in problem["detail"]


async def test_limits_are_told_on_every_answer_and_end_in_a_429(keyed: Keyed) -> None:
    key = await keyed.key(Scope.KEYS_READ, plan="small")
    headers = {"Authorization": f"Bearer {key}"}
    seen = []
    for path in (KEYS, CHANGES, f"{KEYS}/nothing", KEYS, KEYS, KEYS):
        async with keyed.client.get(path, headers=headers) as response:
            assert response.headers["RateLimit-Policy"] == '"requests";q=5;w=60'
            limit = response.headers["RateLimit"]
            seen.append((response.status, limit, response.headers.get("Retry-After")))
    assert seen == [
        (200, '"requests";r=4;t=12', None),
        (403, '"requests";r=3;t=24', None),
        (404, '"requests";r=2;t=36', None),
        (200, '"requests";r=1;t=48', None),
        (200, '"requests";r=0;t=60', None),
        (429, '"requests";r=0;t=12', "12"),
    ]
    keyed.clock.at_ms += 12_000
    await keyed.ask(key, "GET", KEYS)


async def test_an_expired_key_is_told_so(keyed: Keyed) -> None:
    key = await keyed.key(Scope.KEYS_READ, expires_at_ms=NOW_MS + 1_000)
    await keyed.ask(key, "GET", KEYS)
    keyed.clock.at_ms += 1_000
    assert "expired" in (await keyed.ask(key, "GET", KEYS, 401))["detail"]


async def test_secrets_are_in_no_line_of_the_log(
    keyed: Keyed, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = await keyed.key(*ADMIN)
    made = await keyed.ask(admin, "POST", KEYS, 201, json={"name": "a", "scopes": ["keys:read"]})
    await keyed.ask(made["key"], "GET", KEYS)
    await keyed.ask(made["key"] + "x", "GET", KEYS, 401)
    told = "".join(capsys.readouterr())
    for key in (admin, made["key"]):
        assert key.split("_", 2)[2] not in told
    kept = await keyed.access.key("default", made["id"])
    assert kept is not None
    assert kept == replace(kept, secret_hash=hash_of(made["key"].split("_", 2)[2]))
    assert Token(made["id"], made["key"].split("_", 2)[2]).text == made["key"]
    assert {change.kind for change in await keyed.access.changes("default", 9)} == {Kind.API_KEY}
