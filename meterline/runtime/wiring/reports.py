"""Wiring of what reports stand on: their operations, their runs, what posts to receivers."""

from collections.abc import Callable
from contextlib import AsyncExitStack

from control.reports.service import ReportService
from dispatcher.replayer import Replayer
from dispatcher.runs.late import LateSources, LateTerms, LateUsage
from dispatcher.runs.planner import PlanTerms, Sources
from dispatcher.sending.signing import signed_headers
from dispatcher.sending.test_delivery import DeliveryTester
from dispatcher.tracing import ReportTraces
from dispatcher.worker import Dispatcher
from meterline.backends.clickhouse.bounds import RUNS
from meterline.backends.clickhouse.events.traces import ClickHouseEventTraces
from meterline.backends.clickhouse.holdings import ClickHouseHoldings
from meterline.backends.control_store.deliveries.replays import SqlReplayStore
from meterline.backends.control_store.deliveries.report_status import SqlReportStatusStore
from meterline.backends.control_store.reports.corrections import SqlCorrectionStore
from meterline.backends.control_store.reports.late import SqlLateStore
from meterline.backends.secrets import FernetSecretBox
from meterline.backends.spool import FileSpool
from meterline.backends.webhook.sender import HttpWebhookSender
from meterline.limits import LATE_SETTLE_MS
from meterline.ports import UNTRACED, Tracer
from meterline.report import StartTerms
from meterline.runtime.settings.reading import Settings
from meterline.runtime.wiring.adapters import CLOCK, Opened, completeness_lag_ms
from meterline.runtime.wiring.sending import egress, send_terms
from meterline.usage import CheckedLateEvents, CheckedUsageStore, UsageIntegrity
from meterline.window import DAY_MS


def start_terms(settings: Settings) -> StartTerms:
    """When runs start."""
    return StartTerms(settings.grace_ms, completeness_lag_ms(settings), settings.start_spread_ms)


def webhook_sender(settings: Settings, stack: AsyncExitStack) -> HttpWebhookSender:
    """What posts to receivers; closed with the stack."""
    sender = HttpWebhookSender(
        CLOCK,
        settings.webhook_networks_allowed,
        timeout_s=settings.delivery_timeout_s,
        egress=egress(settings),
    )
    stack.push_async_callback(sender.close)
    return sender


def report_service(
    settings: Settings,
    opened: Opened,
    box: FernetSecretBox,
    stack: AsyncExitStack,
    wake: Callable[[], None],
) -> ReportService:
    """What the operations of reports stand on; what they open is closed with the stack."""
    database = opened.database
    # Not that of deliveries: where these wait for receivers that hang, a test of another would
    # wait too, and be told as that one's fault.
    sender = webhook_sender(settings, stack)
    return ReportService(
        opened.stores,
        opened.reports,
        box,
        wake,
        SqlCorrectionStore(database),
        start_terms(settings),
        SqlReportStatusStore(database),
        DeliveryTester(opened.reports, sender, box, CLOCK),
        opened.reports,
        SqlReplayStore(database),
        opened.reports,
        signed_headers,
    )


def replayer(opened: Opened, dispatcher_: Dispatcher) -> Replayer:
    """The shell that works off replays of many deliveries, beside a dispatcher."""
    return Replayer(SqlReplayStore(opened.database), CLOCK, dispatcher_.wake)


def dispatcher(
    settings: Settings,
    opened: Opened,
    box: FernetSecretBox,
    sender: HttpWebhookSender,
    tracer: Tracer = UNTRACED,
) -> Dispatcher:
    """The shell that makes runs and sends deliveries."""
    stores = opened.stores
    corrections = SqlCorrectionStore(opened.database)
    checked = opened.integrity.beside(ClickHouseHoldings(opened.connection.lane(RUNS)))
    number, partitions = opened.log.number, opened.log.partitions
    return Dispatcher(
        Sources(
            opened.reports,
            stores.catalogue,
            stores.progress,
            CheckedUsageStore(opened.usage, checked),
            corrections,
            opened.reports,
            FileSpool,
            recorder=opened.recorder,
            traces=ReportTraces(tracer, ClickHouseEventTraces(opened.connection)),
        ),
        _late_usage(settings, opened, checked),
        sender,
        box,
        CLOCK,
        PlanTerms(
            number,
            partitions,
            start_terms(settings),
            bytes_kept_ms=settings.delivery_bytes_days * DAY_MS,
        ),
        send_terms(settings),
    )


def _late_usage(settings: Settings, opened: Opened, checked: UsageIntegrity) -> LateUsage:
    stores, pause_ms = opened.stores, settings.revision_pause_s * 1_000
    terms = LateTerms(
        opened.log.number,
        opened.log.partitions,
        grace_ms=settings.grace_ms,
        settle_ms=min(LATE_SETTLE_MS, pause_ms),
        pause_ms=pause_ms,
        revised_ms=settings.delivery_bytes_days * DAY_MS,  # compared with what was sent
    )
    late = SqlLateStore(opened.database)
    events = CheckedLateEvents(opened.usage, checked)
    return LateUsage(LateSources(late, events, stores.catalogue, stores.progress), terms)
