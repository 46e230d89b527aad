from dataclasses import dataclass, field
from typing import Any

import pytest

from control.stores import Ledger
from meterline.access import EVERY_SCOPE, Principal, Scope
from meterline.audit import AuditSpan, AuditStep, Finding, SlicePlace, decode_place, encode_place
from meterline.http.gate import Gate
from meterline.ports import Unavailable
from tests.unit.control.conftest import Api, Client, ServeApi, ShelfAccounts

NOTHING: Any = None
PATH = "/api/v3/metering/audit"


@dataclass(slots=True)
class ShelfAuditor:
    """An auditor whose steps lie on a shelf."""

    made: AuditStep = field(default_factory=AuditStep)
    asked: list[tuple[AuditSpan, str | None]] = field(default_factory=list)
    fails: Exception | None = None

    async def step(self, span: AuditSpan, cursor: str | None) -> AuditStep:
        if cursor is not None:
            decode_place(cursor)
        self.asked.append((span, cursor))
        if self.fails is not None:
            raise self.fails
        return self.made


@pytest.fixture
async def auditor(api: Api, serve: ServeApi) -> tuple[ShelfAuditor, Client]:
    shelf = ShelfAuditor()
    return shelf, await serve(api.stores, ledger=Ledger(ShelfAccounts(), shelf, NOTHING, NOTHING))


async def test_a_step_is_shown_whole(auditor: tuple[ShelfAuditor, Client]) -> None:
    shelf, client = auditor
    finding = Finding("tallies", "1.0.7", "meter m", "total 2", "nothing", mended=True)
    cursor = encode_place(SlicePlace(1, 0, 9))
    shelf.made = AuditStep([finding], 3, 5, 10, 100, 40, 2, 1, 0, 7, 6, 8, 9, 0, 4, 0, cursor)
    body = {"from": "2026-01-01T00:00:00Z", "repair": True, "after": cursor}
    async with client.post(PATH, json=body) as response:
        assert response.status == 200
        answer: Any = await response.json()
    assert answer == {
        "findings": [
            {"table": "tallies", "place": "1.0.7", "name": "meter m", "expected": "total 2",
             "found": "nothing", "mended": True}
        ],
        "omitted": 3,
        "checked": {
            "slices": 5, "events": 100, "cells": 40, "recounted_by_fold": 2, "not_filled_in": 1,
            "not_kept": 0, "erased": 7, "moving": 6, "blocks": 8,
            "blocks_not_kept": 9, "runs": 0, "deliveries": 0,
        },
        "slices_total": 10,
        "runs_total": 4,
        "next": cursor,
    }  # fmt: skip
    assert shelf.asked == [(AuditSpan(1_767_225_600_000, None, repair=True), cursor)]


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"after": "slices.1"}, {"after": "matches_regex"}),
        ({"from": "2026-01-02T00:00:00Z", "to": "2026-01-02T00:00:00Z"}, {"from": "maximum"}),
        ({"repair": "yes", "all": 1}, {"repair": "type", "all": "unknown_property"}),
        ({"to": None}, {"to": "not_null"}),
    ],
)
async def test_what_cannot_be_asked_is_refused(
    auditor: tuple[ShelfAuditor, Client], body: Any, fault: dict[str, str]
) -> None:
    async with auditor[1].post(PATH, json=body) as response:
        assert response.status == 400
        listed = (await response.json())["invalid_parameters"]
    assert {one["field"] for one in listed} == fault.keys()
    assert not auditor[0].asked


async def test_only_who_operates_the_installation_may_audit(api: Api, serve: ServeApi) -> None:
    caller = Principal("default", "key:1", EVERY_SCOPE - {Scope.OPERATE}, "1")
    shelf = ShelfAuditor()
    gate = Gate(api.clock, lambda _header, _now_ms: caller)
    client = await serve(api.stores, gate, Ledger(ShelfAccounts(), shelf, NOTHING, NOTHING))
    async with client.post(PATH, json={}) as response:
        assert response.status == 403
    assert not shelf.asked


@pytest.mark.parametrize(
    "error", [Unavailable("Code: 40 (table events, part all_1_1_0)"), ValueError("no JSON")]
)
async def test_rows_that_cannot_be_read_are_no_fault_of_the_cursor(
    auditor: tuple[ShelfAuditor, Client], error: Exception
) -> None:
    shelf, client = auditor
    shelf.fails = error
    async with client.post(PATH, json={"after": encode_place(SlicePlace(1, 0, 9))}) as response:
        assert response.status == 503
        detail: str = (await response.json())["detail"]
    assert f"could not read the rows of the step after slices.1.0.9: {error}" in detail
