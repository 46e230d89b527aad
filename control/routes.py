"""All operations of the control API, for the composition root to mount."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from aiohttp import web

from control import front
from control.health import Check, Health, checks_of
from control.refusals.service import RefusalService
from control.reports.service import ReportService
from control.stores import Ledger, Stores
from control.usage.admission import Admissions
from control.usage.answers import Answers
from control.v1.events import V1Events
from control.v1.events_v2 import V2Events
from control.v1.meter_values import V1MeterValues
from control.v1.meters import V1Meters
from control.v1.query import V1Query
from control.v1.reports.operations import V1Reports
from control.v1.subjects import V1Subjects
from control.v3.access.changes import V3Changes
from control.v3.access.erasures import V3Erasures
from control.v3.access.keys import V3Keys
from control.v3.access.sessions import V3Sessions
from control.v3.access.subjects import V3Subjects
from control.v3.deliveries.corrections import V3Corrections
from control.v3.deliveries.operations import V3Deliveries
from control.v3.deliveries.pull import V3Pull
from control.v3.deliveries.replays import V3Replays
from control.v3.events.lineage import V3EventTrace
from control.v3.events.operations import V3Events
from control.v3.events.subjects import V3EventSubjects
from control.v3.installation.accounts import V3Accounts
from control.v3.installation.audit import V3Audit
from control.v3.installation.status import V3Status
from control.v3.meters.operations import V3Meters
from control.v3.meters.preview import V3MeterPreview
from control.v3.meters.rejected_values import V3Rejected
from control.v3.meters.revisions import V3MeterRevisions
from control.v3.meters.values import V3MeterValues
from control.v3.refusals.operations import V3Refusals
from control.v3.refusals.redrives import V3RefusalRedrives
from control.v3.reports.operations import V3Reports
from control.v3.reports.preview import V3ReportPreview
from control.v3.reports.runs import V3Runs
from control.v3.reports.secrets import V3ReportSecrets
from control.v3.reports.test_delivery import V3ReportTest
from control.v3.usage.events import V3UsageEvents
from control.v3.usage.query import V3Query
from meterline.access import ANONYMOUS, AccessStore, Scope
from meterline.http.gate import Gate
from meterline.http.mounting import OLD_PREFIXES, V3_PREFIXES, mount
from meterline.http.operation import Bound
from meterline.http.sessions import Sessions
from meterline.ports import SILENT, Recorder


async def nothing() -> None:
    """Where no keys are held, a change of keys is known at once."""


async def all_scopes(_request: web.Request) -> Collection[Scope]:
    """In mode `none` everybody may do everything."""
    return ANONYMOUS.scopes


@dataclass(frozen=True, slots=True)
class Api:
    """All that the operations stand on. `plans` are the names that a key may have; `keys_changed`
    makes a change of keys known to this process at once.
    """

    stores: Stores
    service: ReportService
    access: AccessStore
    plans: Collection[str]
    ledger: Ledger
    refusals: RefusalService
    keys_changed: Callable[[], Awaitable[None]] = nothing
    answers: Answers = field(default_factory=Answers)
    console: front.Console | None = None
    sessions: Sessions | None = None  # None: nobody signs in (mode none)
    recorder: Recorder = SILENT


def bound_v3(api: Api) -> list[Bound]:
    """The operations of v3 but that of the gateway."""
    stores, service = api.stores, api.service
    parts = (
        V3Events(stores),
        V3EventSubjects(stores),
        V3Meters(stores),
        V3MeterRevisions(stores),
        V3MeterPreview(stores, api.ledger, api.answers),
        V3MeterValues(stores),
        V3Subjects(stores),
        V3Erasures(stores),
        V3Query(stores, api.answers),
        V3Rejected(stores, api.refusals.settlements),
        V3Refusals(api.refusals),
        V3RefusalRedrives(api.refusals),
        V3Reports(service),
        V3ReportSecrets(service),
        V3ReportPreview(service),
        V3ReportTest(service),
        V3Runs(service),
        V3Corrections(service),
        V3Deliveries(service),
        V3Replays(service),
        V3Pull(service),
        V3Keys(api.access, stores.clock, api.plans, api.keys_changed),
        V3Sessions(api.sessions, stores.clock, api.console.build if api.console else None),
        V3Changes(api.access),
        V3Status(stores),
        V3Accounts(stores, api.ledger),
        V3Audit(api.ledger.auditor),
        V3UsageEvents(stores, api.ledger),
        V3EventTrace(stores, api.ledger),
    )
    return [one for part in parts for one in part.bound()]


def bound_v1(api: Api) -> list[Bound]:
    """The operations of v1 and v2 but that of the gateway."""
    stores = api.stores
    parts = (
        V1Events(stores),
        V2Events(stores),
        V1Meters(stores),
        V1MeterValues(stores),
        V1Query(stores, api.answers),
        V1Subjects(stores),
        V1Reports(api.service),
    )
    return [one for part in parts for one in part.bound()]


def declared_api() -> Api:
    """An API without stores: its operations can be listed, and answer nothing."""
    nothing: Any = None
    stores = Stores(*[nothing] * len(fields(Stores)))
    return Api(
        stores,
        ReportService(stores, *[nothing] * (len(fields(ReportService)) - 1)),
        nothing,
        (),
        Ledger(nothing, nothing, nothing, nothing),
        RefusalService(stores, nothing, nothing, nothing),
    )


def routes(api: Api, gate: Gate, checks: Mapping[str, Check] | None = None) -> list[web.RouteDef]:
    """Everything but events; probes, and what people see who open the address, included.

    `checks` are what `/readyz` asks, by name; without them, the stores of this API. The application
    uses `meterline.http.answers.problem_middleware` and is served with its `SERVER_OPTIONS`.
    """
    admitted = Admissions(recorder=api.recorder).bound
    mounted = mount(map(admitted, bound_v3(api)), V3_PREFIXES, gate)
    mounted += mount(map(admitted, bound_v1(api)), OLD_PREFIXES, gate)
    mounted += Health(checks_of(api.stores) if checks is None else checks).routes()
    scopes_of = all_scopes if api.sessions is None else api.sessions.scopes_of
    return mounted + front.routes(api.console, scopes_of)
