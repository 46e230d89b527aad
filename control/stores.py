"""The ports that the control API stands on."""

from dataclasses import dataclass

from meterline.event_ports import Log
from meterline.meter import Meter
from meterline.meter_revision_ports import CatalogueStore, RevisionStore
from meterline.ports import Clock
from meterline.problem import not_found
from meterline.progress_ports import ProgressStore
from meterline.subject_ports import SubjectStore
from meterline.usage_ports import UsageStore


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

    async def meter(self, namespace: str, id_or_key: str) -> Meter:
        """A live meter of a namespace. Raises `Problem` (not found)."""
        meter = await self.catalogue.meter(namespace, id_or_key) if id_or_key else None
        if meter is None:
            raise not_found("meter", id_or_key)
        return meter
