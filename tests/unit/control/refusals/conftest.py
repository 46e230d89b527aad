"""The operations of refusals, behind the gateway's own door into a real log."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web

from control.refusals.service import RefusalService
from ingest.admission import AdmissionRules
from ingest.gateway import Gateway
from ingest.publisher import Publisher
from meterline.access import EVERY_SCOPE, Principal
from meterline.backends.control_store.access.keys import SqlAccessStore
from meterline.backends.control_store.engine import open_database
from meterline.backends.control_store.progress.redrives import SqlSettlementStore
from meterline.event import Event, ListedEvent, Verdict, decode_record
from meterline.http.gate import Gate
from meterline.problem import Problem, ProblemType
from meterline.usage import NO_POSITION
from tests.unit.control.conftest import NOW_MS, Api, ServeApi

REFUSALS = "/api/v3/metering/refusals"
MANY = "/api/v3/metering/refusal-redrives"
METERS = "/api/v3/metering/meters"
EVENT = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "subject": "u"}
CALLER = Principal("default", "key:1", EVERY_SCOPE)
NO_EVENT = b'{"specversion": "1.0", "id": "1", "source": "s", "type": "t"}'


@dataclass(slots=True)
class Door:
    """The gateway's own, which may lose its answer, or die on the way."""

    inner: Any
    fails_before: bool = False
    fails_after: bool = False
    counted: list[int] = field(default_factory=list)

    def judge(self, namespace: str, text: bytes) -> Event:
        return cast("Event", self.inner.judge(namespace, text))

    def take(self, request: web.Request, principal: Principal, count: int) -> None:
        self.counted.append(count)
        self.inner.take(request, principal, count)

    async def let_in(self, namespace: str, texts: Sequence[bytes]) -> None:
        if self.fails_before:
            raise Problem(ProblemType.UNAVAILABLE, "not known", retry_after_s=1)
        await self.inner.let_in(namespace, texts)
        if self.fails_after:
            raise Problem(ProblemType.UNAVAILABLE, "not known", retry_after_s=1)


@dataclass(slots=True)
class Refusing:
    """An API, its door and whoever asks."""

    api: Api
    door: Door
    access: SqlAccessStore
    caller: Principal = CALLER

    async def in_log(self) -> list[Event]:
        """Every event of the log."""
        log = self.api.stores.log
        return [
            one
            for partition in range(log.partitions)
            for record in await log.read(partition, 0, 1_000)
            for one in decode_record(record)
            if isinstance(one, Event)
        ]

    async def changes(self) -> list[tuple[str, str, str, str]]:
        """Author, action, id and detail, the first one first."""
        found = await self.access.changes("default", 100)
        return [(c.author, c.action.value, c.subject_id, c.detail) for c in reversed(found)]


@pytest.fixture
async def refusing(api: Api, serve: ServeApi, tmp_path: Path) -> AsyncIterator[Refusing]:
    database = open_database(f"sqlite:///{tmp_path / 'control.db'}")
    publisher = Publisher(api.stores.log, api.clock)
    made: Refusing
    gate = Gate(api.clock, lambda _header, _now_ms: made.caller)
    rules = AdmissionRules(api.stores.log.partitions)
    door = Door(Gateway(publisher, rules, api.clock, gate))
    service = RefusalService(api.stores, api.usage, SqlSettlementStore(database), door)
    client = await serve(api.stores, gate, refusals=service)
    made = Refusing(Api(client, api.stores, api.usage, api.clock), door, SqlAccessStore(database))
    yield made
    await publisher.close()
    await database.close()


def inbox(number: int, text: bytes = NO_EVENT, topic: str = "orders", at: int = 0) -> ListedEvent:
    """A record that the inbox refused."""
    return ListedEvent(
        1, 0, number, 0, NOW_MS + at, "default", "", "", topic, f"3/{number}", NOW_MS - 500,
        NOW_MS - 500, text, Verdict.INVALID, NO_POSITION, "subject", "is required",
    )  # fmt: skip


def unreadable(number: int, text: bytes) -> ListedEvent:
    """What lies in the log and is no event."""
    return inbox(number, text)._replace(namespace="", source="", id="", field="")


async def meter(api: Api, key: str, **more: Any) -> None:
    body = {"key": key, "name": key, "event_type": "flight", **more}
    await api.json("POST", METERS, 201, json=body)
