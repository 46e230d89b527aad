"""The dispatcher over real SQLite stores and a real sender; usage is what the test put in,
receivers are on loopback.
"""

import asyncio
import base64
import shutil
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from svix.webhooks import Webhook

from dispatcher.runs.late import LateSources, LateTerms
from dispatcher.runs.planner import PlanTerms, Sources
from dispatcher.sending.attempt import SendTerms
from dispatcher.sending.retry import RetryPolicy
from meterline.backends.clock import SystemClock
from meterline.backends.control_store.engine import Database, open_database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.backends.control_store.report_store import SqlReportStore
from meterline.backends.control_store.reports.corrections import SqlCorrectionStore
from meterline.backends.control_store.reports.late import SqlLateStore
from meterline.backends.secrets import FernetSecretBox
from meterline.backends.spool import FileSpool
from meterline.backends.webhook.sender import HttpWebhookSender
from meterline.delivery import NO_HEADERS, SealedHeaders, SecretBox, WebhookSender, headers_text
from meterline.event import EventQuery, EventSubject, ListedEvent, SubjectQuery
from meterline.meter import Aggregation, Meter, MeterDraft
from meterline.ports import Unavailable
from meterline.problem import Problem
from meterline.report import Interval, Report, ReportFilter, ReportStore, Schedule, StartTerms
from meterline.report.filter import EVERYTHING
from meterline.usage import (
    AccountRow,
    Counted,
    EventRow,
    Flush,
    Life,
    RawEvent,
    RejectedRow,
    SeenExtent,
    SeenRow,
    SeenSpan,
    SliceId,
    Stretch,
    Touched,
    UsageQuery,
    UsageRow,
)
from meterline.window import MINUTE_MS
from tests.portions import InPortions

START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
SECRET = "whsec_" + base64.b64encode(b"s" * 24).decode()
LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
LOG, PARTITIONS = 1, 2


@dataclass(slots=True)
class CellUsage(InPortions):
    """A usage store of sums: values by (subject, model, instant) as the test put them in."""

    cells: dict[tuple[str, str, int], int] = field(default_factory=dict)
    asked: list[UsageQuery] = field(default_factory=list)
    errors: list[Unavailable | Problem] = field(default_factory=list)  # raised one by one
    meanwhile: Callable[[], Awaitable[object]] | None = None  # done once, while it is asked

    async def usage(self, query: UsageQuery) -> list[UsageRow]:
        self.asked.append(query)
        if self.meanwhile is not None:
            act, self.meanwhile = self.meanwhile, None
            await act()
        if self.errors:
            raise self.errors.pop(0)
        assert query.from_ms is not None
        assert query.to_ms is not None
        assert query.by_subject
        sums: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
        for (subject, model, at_ms), value in self.cells.items():
            if query.from_ms <= at_ms < query.to_ms:
                groups = (("model", model),) if query.dimensions else ()
                sums[subject, groups] = sums.get((subject, groups), 0) + value
        return [
            UsageRow(query.from_ms, query.to_ms, subject, groups, value, 1, 0)
            for (subject, groups), value in sorted(sums.items())
        ]

    async def usage_rows(
        self, query: UsageQuery, life: Life | None = None
    ) -> AsyncGenerator[list[UsageRow], None]:
        assert life is None, "nothing is compared here"
        yield await self.usage(query)

    async def touched(
        self,
        log: int,
        stretch: Stretch,
        namespaced_types: Collection[tuple[str, str]],
        late_by_ms: int | None = None,
    ) -> list[Touched]:
        raise AssertionError(f"no events: {log, stretch, namespaced_types, late_by_ms}")

    async def write(self, flush: Flush) -> None:
        raise AssertionError(f"the dispatcher writes no usage: {flush}")

    async def count_back(self, slice_id: SliceId, revisions: Sequence[int]) -> dict[str, Counted]:
        raise AssertionError(f"the dispatcher counts nothing back: {slice_id} {revisions}")

    async def account(self, slice_id: SliceId) -> AccountRow | None:
        raise AssertionError(f"the dispatcher asks for no account: {slice_id}")

    async def answers(self) -> None:
        raise AssertionError("the dispatcher asks for rows, not for answers")

    async def accounts(
        self,
        log: int,
        first: Mapping[int, int] | None = None,
        end: Mapping[int, int] | None = None,
    ) -> AccountRow:
        raise AssertionError(f"the dispatcher asks for no account: {log} {first} {end}")

    async def slice_events(
        self, slice_id: SliceId, namespaced_types: Sequence[tuple[str, str]] | None = None
    ) -> list[EventRow]:
        raise AssertionError(f"the dispatcher reads no events: {slice_id} {namespaced_types}")

    def raw_events(
        self,
        log: int,
        partition: int,
        slices: Sequence[int],
        end: int,
        namespaced_types: Sequence[tuple[str, str]],
    ) -> AsyncIterator[list[RawEvent]]:
        raise AssertionError(
            f"the dispatcher fills nothing in: {log, partition, slices, end, namespaced_types}"
        )

    def seen_between(
        self, log: int, partition: int, offset_first: int, offset_end: int
    ) -> AsyncIterator[list[SeenRow]]:
        raise AssertionError(f"no seen rows: {log, partition, offset_first, offset_end}")

    async def seen_extent(self, span: SeenSpan) -> SeenExtent:
        raise AssertionError(f"no seen rows: {span}")

    async def seen_keys(self, span: SeenSpan, low: int, high: int) -> bytes:
        raise AssertionError(f"no seen rows: {span, low, high}")

    async def listed_events(self, query: EventQuery) -> list[ListedEvent]:
        raise AssertionError(f"the dispatcher lists no events: {query}")

    async def event_subjects(self, query: SubjectQuery) -> list[EventSubject]:
        raise AssertionError(f"the dispatcher lists no events: {query}")

    async def new_events(self, positions: Sequence[tuple[int, int, int, int]]) -> list[ListedEvent]:
        raise AssertionError(f"the dispatcher lists no events: {positions}")

    async def rejected(self, meter: Meter, limit: int, after: str | None) -> list[RejectedRow]:
        raise AssertionError(f"no rejected values: {meter.key, limit, after}")

    async def close(self) -> None:
        """Nothing is held."""


@dataclass(slots=True)
class Post:
    """One request as a receiver saw it; its signature was good."""

    id: str
    body: bytes
    headers: dict[str, str]

    @property
    def members(self) -> dict[str, object]:
        return msgspec.json.decode(self.body, type=dict[str, object])


@dataclass(slots=True)
class Mailbox:
    """A receiver: keeps what it verified, and answers what the test says (200 when it says
    nothing).
    """

    url: str = ""
    posts: list[Post] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)  # statuses, one by one
    hang: asyncio.Event | None = None  # answers nothing until it is set
    secret: str | None = SECRET  # what every post must verify with
    at_once: int = 0
    at_once_max: int = 0

    async def receive(self, request: web.Request) -> web.Response:
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        try:
            return await self._answer(request)
        finally:
            self.at_once -= 1

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        if self.secret is not None:
            Webhook(self.secret).verify(body, headers)
        self.posts.append(Post(headers["svix-id"], body, headers))
        if self.hang is not None:
            await self.hang.wait()
        return web.Response(status=self.answers.pop(0) if self.answers else 200)

    @property
    def subjects(self) -> list[str]:
        """Subjects in the order of arrival."""
        found = []
        for post in self.posts:
            query = post.members["query"]
            assert isinstance(query, dict)
            found.append(str(query["subject"]))
        return found


@dataclass(slots=True)
class Rig:
    """A dispatcher's stores and helpers of a test."""

    sources: Sources
    late: LateSources
    usage: CellUsage
    reports: ReportStore
    sender: WebhookSender
    box: SecretBox
    meter: Meter
    plan_terms: PlanTerms = field(
        default_factory=lambda: PlanTerms(LOG, PARTITIONS, StartTerms(MINUTE_MS))
    )
    late_terms: LateTerms = field(
        default_factory=lambda: LateTerms(LOG, PARTITIONS, settle_ms=0, pause_ms=60 * MINUTE_MS)
    )
    send_terms: SendTerms = field(
        default_factory=lambda: SendTerms(
            RetryPolicy((0, 0.02, 0.02, 0.02), patience_s=0, jitter=0), probe_pause_s=0.02
        )
    )

    async def report(
        self,
        url: str,
        slug: str = "minutely",
        *,
        created_at_ms: int = START_MS,
        user_info: str | None = None,
        filter_: ReportFilter = EVERYTHING,
        headers: Mapping[str, str] | None = None,
    ) -> Report:
        """Make a report that runs every minute from `START_MS`."""
        schedule = Schedule(Interval.MINUTE, START_MS)
        made = Report(
            id=f"01R{slug.upper()}",
            namespace="default",
            slug=slug,
            meter_id=self.meter.id,
            schedule=schedule,
            group_by=("model",),
            endpoint=url,
            signing_secret_sealed=self.box.seal(SECRET),
            created_at_ms=created_at_ms,
            updated_at_ms=created_at_ms,
            filter=filter_,
            user_info_sealed=None if user_info is None else self.box.seal(user_info),
            headers=NO_HEADERS
            if headers is None
            else SealedHeaders(tuple(sorted(headers)), self.box.seal(headers_text(headers))),
        )
        await self.reports.create_report(made, schedule.first_window_ms(created_at_ms))
        return made

    async def complete(self, until_ms: int) -> None:
        """Everything recorded up to the instant counts."""
        for partition in range(PARTITIONS):
            await self.sources.progress.complete(LOG, self.meter.revision, {partition: until_ms})


@pytest.fixture
async def rig(tmp_path: Path, migrated: Path) -> AsyncIterator[Rig]:
    """The rig of a dispatcher with one meter and no report."""
    shutil.copy(migrated, tmp_path / "control.db")
    async with opened_rig(open_database(f"sqlite:///{tmp_path / 'control.db'}")) as made:
        yield made


@asynccontextmanager
async def opened_rig(database: Database) -> AsyncIterator[Rig]:
    """A rig on an empty control store, which is closed with it."""
    catalogue, usage = SqlCatalogueStore(database), CellUsage()
    draft = MeterDraft(
        "tokens",
        "Tokens",
        Aggregation.SUM,
        "prompt",
        "$.tokens",
        dimensions=(("model", "$.model"),),
    )
    meter = await catalogue.create_meter("default", draft, START_MS)
    reports = SqlReportStore(database)
    progress, corrections = SqlProgressStore(database), SqlCorrectionStore(database)
    kept = SqlReportStore(database)
    sources = Sources(reports, catalogue, progress, usage, corrections, kept, FileSpool)
    sender = HttpWebhookSender(SystemClock(), LOOPBACK, timeout_s=60)
    late = LateSources(SqlLateStore(database), usage, catalogue, progress)
    box = FernetSecretBox("key of the test")
    yield Rig(sources, late, usage, reports, sender, box, meter)
    await sender.close()
    await database.close()


@pytest.fixture
async def mailbox() -> AsyncIterator[Callable[[], Awaitable[Mailbox]]]:
    """Starts receivers."""
    servers: list[TestServer] = []

    async def start() -> Mailbox:
        made = Mailbox()
        application = web.Application()
        application.router.add_post("/hook", made.receive)
        server = TestServer(application)
        await server.start_server()
        servers.append(server)
        made.url = str(server.make_url("/hook"))
        return made

    yield start
    for server in servers:
        await server.close()
