"""The ports that the control API stands on."""

from dataclasses import dataclass

from meterline.access import Subject, SubjectStore
from meterline.audit import Auditor, DeliveryLineage, EventLineage
from meterline.event import Log
from meterline.meter import CatalogueStore, Meter, RevisionStore
from meterline.ports import Clock
from meterline.problem import not_found
from meterline.usage import (
    AccountStore,
    ErasureStore,
    ProgressStore,
    RetentionLedger,
    UsageStore,
)


@dataclass(frozen=True, slots=True)
class Stores:
    """All of them outlive the application; whoever composes it closes them."""

    catalogue: CatalogueStore
    progress: ProgressStore
    usage: UsageStore
    log: Log
    clock: Clock
    subjects: SubjectStore
    revisions: RevisionStore
    retention: RetentionLedger
    erasures: ErasureStore

    @property
    def now_ms(self) -> int:
        """The present time."""
        return self.clock.now_ms()

    async def meter(self, namespace: str, id_or_key: str) -> Meter:
        """A live meter of a namespace. Raises `Problem` (not found)."""
        meter = await self.catalogue.meter(namespace, id_or_key) if id_or_key else None
        if meter is None:
            raise not_found("meter", id_or_key)
        return meter

    async def subject(self, namespace: str, id_or_key: str) -> Subject:
        """A subject that something is said of. Raises `Problem` (not found)."""
        subject = await self.subjects.subject(namespace, id_or_key)
        if subject is None:
            raise not_found("subject", id_or_key)
        return subject


@dataclass(frozen=True, slots=True)
class Ledger:
    """Readers of what is stored, beside the stores that everything else stands on."""

    accounts: AccountStore
    auditor: Auditor
    events: EventLineage
    deliveries: DeliveryLineage
