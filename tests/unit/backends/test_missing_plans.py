"""Keys whose plan the settings do not have are told once, at start and when they are used."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog

from meterline.backends.control_store.access.keys import SqlAccessStore
from meterline.backends.control_store.engine import open_database
from meterline.backends.control_store.migrate import migrate
from meterline.backends.key_ring import KeyRing
from meterline.backends.missing_plans import MissingPlans
from meterline.limits import MISSING_PLANS_LOGGED_MAX
from tests.unit.backends.test_key_ring import IDS, NOW_MS, TOKENS, HandClock, _key

PLANS = ("large", None, "gone")


def said(lines: Sequence[Mapping[str, Any]]) -> list[tuple[object, object, object]]:
    assert all(line["log_level"] == "warning" and line["hint"] for line in lines)
    return [(line["action"], line["plan"], line.get("key", line.get("keys"))) for line in lines]


async def test_they_are_told_at_start_and_when_they_are_used_first(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'control.db'}")
    await migrate(database)
    store = SqlAccessStore(database)
    for token, plan in zip(TOKENS, PLANS, strict=True):
        await store.create_key(_key(token, plan=plan))
    ring = KeyRing(store, HandClock(), missing_plans=MissingPlans(["large"]))
    with structlog.testing.capture_logs() as lines:
        await ring.start()
        await store.revoke_key("shop", IDS[0], NOW_MS)
        await ring.refresh()  # what changes later is told when it is used
    assert said(lines) == [("plan missing", "gone", 1)]
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            for token in TOKENS[1:]:
                ring.identify(f"Bearer {token.text}", NOW_MS)
    assert said(lines) == [("plan missing", "gone", IDS[2])]
    await database.close()


@pytest.mark.parametrize(("state", "told"), [("active", 2), ("expired", 0), ("revoked", 0)])
def test_only_keys_that_work_are_told_at_start(state: str, told: int) -> None:
    ended = {"expired": {"expires_at_ms": 1}, "revoked": {"revoked_at_ms": 1}}.get(state, {})
    keys = [_key(token, plan="gone", **ended) for token in TOKENS[:2]]
    with structlog.testing.capture_logs() as lines:
        MissingPlans([]).tell_held(keys, NOW_MS)
    assert said(lines) == ([("plan missing", "gone", told)] if told else [])


def test_the_log_is_bounded() -> None:
    missing = MissingPlans([])
    with structlog.testing.capture_logs() as lines:
        for number in range(MISSING_PLANS_LOGGED_MAX + 5):
            missing.tell_used(_key(TOKENS[0], id=f"key-{number}", plan="gone"))
    assert len(lines) == MISSING_PLANS_LOGGED_MAX
