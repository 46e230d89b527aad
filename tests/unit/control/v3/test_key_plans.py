"""A key whose plan the settings do not have says so."""

import pytest

from meterline.access import Scope
from tests.unit.control.v3.test_keys import ADMIN, KEYS, Keyed, _id, keyed

__all__ = ["keyed"]


@pytest.mark.parametrize(("plan", "missing"), [("large", False), ("gone", True), (None, False)])
async def test_a_missing_plan_is_shown(keyed: Keyed, plan: str | None, *, missing: bool) -> None:
    admin = await keyed.key(*ADMIN, Scope.OPERATE)
    key_id = _id(await keyed.key(*ADMIN, plan=plan))
    (listed,) = [
        one for one in (await keyed.ask(admin, "GET", KEYS))["data"] if one["id"] == key_id
    ]
    shown = await keyed.ask(admin, "GET", f"{KEYS}/{key_id}")
    body = {"name": "renamed"}
    changed = await keyed.ask(admin, "PUT", f"{KEYS}/{key_id}", json=body)
    for one in (listed, shown, changed):
        assert one.get("plan") == plan
        assert one.get("plan_missing", False) is missing
    if missing:
        body = {"plan": "large"}
        changed = await keyed.ask(admin, "PUT", f"{KEYS}/{key_id}", json=body)
        assert "plan_missing" not in changed
