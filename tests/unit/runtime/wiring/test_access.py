from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from meterline.access import ANONYMOUS, ApiKey, Principal, Scope, hash_of, token_of
from meterline.backends.control_store.access.keys import SqlAccessStore
from meterline.backends.control_store.engine import Database, open_database
from meterline.backends.control_store.migrate import migrate
from meterline.http.answers import LIMIT_HEADERS
from meterline.ports import Unavailable
from meterline.problem import Problem, ProblemType
from meterline.runtime.settings.reading import Settings
from meterline.runtime.wiring.access import host_guard, open_gate, session_guard
from meterline.runtime.wiring.adapters import CLOCK, open_control_database

TOKEN = token_of("01HF7YAT00V3TVHZZZZZZZZZZZ", bytes(32))
KEY = ApiKey(
    id=TOKEN.key_id,
    namespace="shop",
    name="gateway",
    scopes=frozenset({Scope.EVENTS_WRITE}),
    created_at_ms=1,
    created_by="command",
    secret_hash=hash_of(TOKEN.secret),
    plan="small",
)
PLANS = {"small": {"requests": {"quota": 10, "window_s": 60}}, "default": {}}


def _request(key: str | None) -> web.Request:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    return make_mocked_request("GET", "/", headers=headers)


async def _with_key(database: Database) -> None:
    await migrate(database)
    await SqlAccessStore(database).create_key(KEY)


async def test_in_mode_none_nobody_is_asked_and_a_header_is_ignored(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    async with AsyncExitStack() as stack:
        database = open_control_database(settings, stack)
        gate, checks, *_ = await open_gate(settings, database, stack, CLOCK)
        assert checks == {}
        for key in (None, "nonsense"):
            assert gate.enter(_request(key), Scope.EVENTS_WRITE) == ANONYMOUS
    assert not (tmp_path / "control.db").exists(), "the control store is not asked"


async def test_in_mode_keys_a_key_is_asked_for_and_its_plan_applies(tmp_path: Path) -> None:
    settings = Settings.model_validate(
        {"data_dir": tmp_path, "access_mode": "keys", "plans": PLANS, "limit_shares": 2}
    )
    async with AsyncExitStack() as stack:
        database = open_control_database(settings, stack)
        await _with_key(database)
        gate, checks, *_ = await open_gate(settings, database, stack, CLOCK)
        await checks["keys"]()
        request = _request(TOKEN.text)
        assert gate.enter(request, Scope.EVENTS_WRITE) == KEY.principal
        assert request[LIMIT_HEADERS]["RateLimit-Policy"] == '"requests";q=5;w=60'
        for key, kind in ((None, ProblemType.UNAUTHENTICATED), ("x", ProblemType.UNAUTHENTICATED)):
            with pytest.raises(Problem) as refused:
                gate.enter(_request(key), Scope.EVENTS_WRITE)
            assert refused.value.type is kind
    after = open_database(settings.control_database_url)
    (kept,) = await SqlAccessStore(after).keys("shop", 9)
    await after.close()
    assert kept.last_used_at_ms is not None, "written when the stack was closed"


async def test_without_the_control_store_the_door_opens_and_refuses_as_unavailable(
    tmp_path: Path,
) -> None:
    settings = Settings(data_dir=tmp_path, access_mode="keys")
    database = open_database(f"sqlite:///{tmp_path / 'control.db'}")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(database.close)
        gate, checks, *_ = await open_gate(settings, database, stack, CLOCK)  # it was not migrated
        with pytest.raises(Unavailable):
            await checks["keys"]()
        with pytest.raises(Problem) as refused:
            gate.enter(_request(TOKEN.text), Scope.EVENTS_WRITE)
        assert refused.value.type is ProblemType.UNAVAILABLE
        await _with_key(database)
        gate, checks, *_ = await open_gate(settings, database, stack, CLOCK)
        await checks["keys"]()
        entered: Principal = gate.enter(_request(TOKEN.text), Scope.EVENTS_WRITE)
        assert entered.namespace == "shop"


async def test_sessions_are_there_where_keys_are(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        for mode, middlewares in (("none", 0), ("keys", 1)):
            settings = Settings.model_validate({"data_dir": tmp_path, "access_mode": mode})
            database = open_control_database(settings, stack)
            gate = await open_gate(settings, database, stack, CLOCK)
            assert len(session_guard(gate)) == middlewares


def test_hosts_are_judged_in_mode_none_only() -> None:
    assert len(host_guard(Settings(allowed_hosts=("Meter.Example.COM.:8443", "[::1]")))) == 1
    assert host_guard(Settings(access_mode="keys")) == ()
