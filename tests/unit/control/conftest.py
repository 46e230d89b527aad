"""The control API over real SQLite stores, and a usage store that answers what the test put in."""

import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from control.refusals.service import RefusalService
from control.reports.service import ReportService
from control.routes import Api as Operations
from control.routes import routes
from control.stores import Ledger, Stores
from meterline.backends.control_store.access.subjects import SqlSubjectStore
from meterline.backends.control_store.engine import open_database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.meters.revisions import SqlRevisionStore
from meterline.backends.control_store.progress.erasures import SqlErasureStore
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.backends.control_store.progress.redrives import SqlSettlementStore
from meterline.backends.control_store.progress.retention import SqlRetention
from meterline.backends.sqlite_log import open_sqlite_log
from meterline.event import EventQuery, EventSubject, ListedEvent, SubjectQuery, Verdict
from meterline.http import SERVER_OPTIONS, problem_middleware
from meterline.http.gate import Gate
from meterline.meter import Meter, answering
from meterline.ports import Unavailable
from meterline.usage import (
    AccountLine,
    AccountQuery,
    AccountRow,
    Counted,
    EventRow,
    Flush,
    Life,
    MeterAccount,
    RawEvent,
    RejectedRow,
    SeenExtent,
    SeenRow,
    SeenSpan,
    SliceId,
    UsageQuery,
    UsageRow,
)
from tests.accounted import added_up
from tests.openapi import documented
from tests.portions import InPortions, values_among

NOW_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z
Slices = Mapping[int, int] | None
Client = TestClient[web.Request, web.Application]


@dataclass(slots=True)
class HandClock:
    """A clock that stands still until it is moved by hand."""

    at_ms: int = NOW_MS

    def now_ms(self) -> int:
        return self.at_ms


@dataclass(slots=True)
class ShelfUsage(InPortions):
    """A usage store that answers what lies on its shelf, and keeps the questions."""

    rows: list[UsageRow] = field(default_factory=list)
    rows_of: dict[int, list[UsageRow]] = field(default_factory=dict)  # of some revisions
    rejected_rows: list[RejectedRow] = field(default_factory=list)
    events: list[ListedEvent] = field(default_factory=list)
    event_queries: list[EventQuery] = field(default_factory=list)
    subjects: list[EventSubject] = field(default_factory=list)
    subject_queries: list[SubjectQuery] = field(default_factory=list)
    account_rows: list[AccountRow] = field(default_factory=list)
    accounts_asked: list[tuple[Slices, Slices]] = field(default_factory=list)  # first, end
    asked: list[UsageQuery] = field(default_factory=list)
    away: bool = False
    block_rows: int = 1_000
    breaks_after: int = 0  # so many blocks; 0: never

    async def usage(self, query: UsageQuery) -> list[UsageRow]:
        self.asked.append(query)
        return self.rows_of.get(query.meter.revision, self.rows)

    async def usage_values(
        self, query: UsageQuery, limit: int, offset: int
    ) -> tuple[list[str], int]:
        return values_among(await self.usage(query), limit, offset)

    async def usage_rows(
        self, query: UsageQuery, life: Life | None = None
    ) -> AsyncGenerator[list[UsageRow], None]:
        assert life is None, "nothing is compared here"
        rows = await self.usage(query)
        for number, first in enumerate(range(0, len(rows), self.block_rows), start=1):
            yield rows[first : first + self.block_rows]
            if number == self.breaks_after:
                raise Unavailable("usage store: connection reset")

    async def rejected(self, meter: Meter, limit: int, after: str | None) -> list[RejectedRow]:
        found = [row for row in self.rejected_rows if row.revision in answering(meter)]
        names = [f"{row.log}.{row.partition}.{row.offset}.{row.place}" for row in found]
        first = 0 if after is None else names.index(after) + 1
        return found[first : first + limit]

    async def listed_events(self, query: EventQuery) -> list[ListedEvent]:
        self.event_queries.append(query)
        found = [one for one in self.events if one.verdict in query.verdicts]
        found.sort(key=lambda one: one.place_by(query.order), reverse=query.order.descending)
        places = [one.place_by(query.order) for one in found]
        first = 0 if query.after is None else places.index(query.after) + 1
        return found[first : first + query.limit]

    async def event_subjects(self, query: SubjectQuery) -> list[EventSubject]:
        self.subject_queries.append(query)
        found = [one for one in self.subjects if one.subject > (query.after or "")]
        return found[: query.limit]

    async def new_events(self, positions: Sequence[tuple[int, int, int, int]]) -> list[ListedEvent]:
        return [one for one in self._at(positions) if one.verdict is Verdict.NEW]

    async def refused_at(self, positions: Sequence[tuple[int, int, int, int]]) -> list[ListedEvent]:
        return [one for one in self._at(positions) if one.verdict is not Verdict.NEW]

    def _at(self, positions: Sequence[tuple[int, int, int, int]]) -> list[ListedEvent]:
        return [one for one in self.events if one[:4] in positions]

    async def answers(self) -> None:
        if self.away:
            raise Unavailable("usage store: connection refused")

    async def accounts(
        self,
        log: int,
        first: Mapping[int, int] | None = None,
        end: Mapping[int, int] | None = None,
    ) -> AccountRow:
        if self.away:
            raise Unavailable("usage store: connection refused")
        self.accounts_asked.append((first, end))
        return added_up(log, self.account_rows, first, end)

    async def write(self, flush: Flush) -> None:
        raise AssertionError(f"control writes no usage: {flush}")

    async def count_back(self, slice_id: SliceId, revisions: Sequence[int]) -> dict[str, Counted]:
        raise AssertionError(f"control counts nothing back: {slice_id} {revisions}")

    async def account(self, slice_id: SliceId) -> AccountRow | None:
        raise AssertionError(f"control asks for whole logs: {slice_id}")

    async def slice_events(
        self, slice_id: SliceId, namespaced_types: Sequence[tuple[str, str]] | None = None
    ) -> list[EventRow]:
        raise AssertionError(f"control reads no events: {slice_id} {namespaced_types}")

    def raw_events(
        self,
        log: int,
        partition: int,
        slices: Sequence[int],
        end: int,
        namespaced_types: Sequence[tuple[str, str]],
    ) -> AsyncIterator[list[RawEvent]]:
        raise AssertionError(
            f"control fills nothing in: {log, partition, slices, end, namespaced_types}"
        )

    def seen_between(
        self, log: int, partition: int, offset_first: int, offset_end: int
    ) -> AsyncIterator[list[SeenRow]]:
        raise AssertionError(
            f"control reads no seen rows: {log, partition, offset_first, offset_end}"
        )

    async def seen_extent(self, span: SeenSpan) -> SeenExtent:
        raise AssertionError(f"control reads no seen rows: {span}")

    async def seen_keys(self, span: SeenSpan, low: int, high: int) -> bytes:
        raise AssertionError(f"control reads no seen rows: {span, low, high}")

    async def close(self) -> None:
        """Nothing is held."""


@dataclass(slots=True)
class ShelfAccounts:
    """An account that lies on a shelf, and keeps the questions."""

    lines: list[AccountLine] = field(default_factory=list)
    meters: list[MeterAccount] = field(default_factory=list)
    asked: list[AccountQuery] = field(default_factory=list)

    async def account_lines(self, query: AccountQuery) -> list[AccountLine]:
        self.asked.append(query)
        return self.lines

    async def meter_accounts(self, query: AccountQuery) -> list[MeterAccount]:
        assert query == self.asked[-1]
        return self.meters


@dataclass(slots=True)
class Api:
    """A running API and what it stands on."""

    client: Client
    stores: Stores
    usage: ShelfUsage
    clock: HandClock
    accounts: ShelfAccounts = field(default_factory=ShelfAccounts)

    async def json(self, method: str, path: str, expected: int = 200, **more: Any) -> Any:
        """The JSON of an answer that has the expected status."""
        async with self.client.request(method, path, **more) as response:
            text = await response.text()
            assert response.status == expected, text
            return await response.json(content_type=None) if text else None

    async def faults(self, method: str, path: str, **more: Any) -> dict[str, str]:
        """Fields and rules that a 400 names."""
        problem = await self.json(method, path, 400, **more)
        assert problem["type"] == "urn:meterline:problem:bad-request"
        listed = problem["invalid_parameters"]
        assert all(fault["reason"] for fault in listed)
        return {fault["field"]: fault.get("rule", "") for fault in listed}


class ServeApi(Protocol):
    """Serves an API on stores, behind a gate; without one everybody is let in."""

    async def __call__(
        self,
        stores: Stores,
        gate: Gate | None = None,
        ledger: Ledger | None = None,
        refusals: RefusalService | None = None,
    ) -> Client: ...


@pytest.fixture
async def serve() -> AsyncIterator[ServeApi]:
    """Serve an API on other stores."""
    clients: list[Client] = []
    nothing: Any = None  # reports and keys have fixtures of their own

    async def start(
        stores: Stores,
        gate: Gate | None = None,
        ledger: Ledger | None = None,
        refusals: RefusalService | None = None,
    ) -> Client:
        ledger = ledger or Ledger(ShelfAccounts(), nothing, nothing, nothing)
        app = web.Application(middlewares=[documented, problem_middleware(stores.clock)])
        service = ReportService(stores, *[nothing] * (len(fields(ReportService)) - 1))
        gate = gate or Gate(stores.clock)
        refusals = refusals or RefusalService(stores, nothing, nothing, nothing)
        app.add_routes(routes(Operations(stores, service, nothing, (), ledger, refusals), gate))
        server = TestServer(app)
        await server.start_server(**SERVER_OPTIONS)
        client: Client = TestClient(server)
        clients.append(client)
        return client

    yield start
    for client in clients:
        await client.close()


@pytest.fixture
async def api(tmp_path: Path, migrated: Path, serve: ServeApi) -> AsyncIterator[Api]:
    """The API of an empty installation with two partitions."""
    clock, usage = HandClock(), ShelfUsage()
    shutil.copy(migrated, tmp_path / "control.db")
    database = open_database(f"sqlite:///{tmp_path / 'control.db'}")
    progress = SqlProgressStore(database)
    log = open_sqlite_log(tmp_path / "log", 2, clock)
    log.number = await progress.register_log(log.id, log.partitions)
    catalogue, subjects = SqlCatalogueStore(database), SqlSubjectStore(database)
    revisions = SqlRevisionStore(database)
    stores = Stores(
        catalogue,
        progress,
        usage,
        log,
        clock,
        subjects,
        revisions,
        SqlRetention(database),
        SqlErasureStore(database),
    )
    accounts = ShelfAccounts()
    nothing: Any = None
    client = await serve(
        stores,
        ledger=Ledger(accounts, nothing, nothing, nothing),
        refusals=RefusalService(stores, usage, SqlSettlementStore(database), nothing),
    )
    yield Api(client, stores, usage, clock, accounts)
    await log.close()
    await database.close()
