"""The ports that the control API stands on."""

from dataclasses import dataclass

from meterline.event import DEFAULT_NAMESPACE
from meterline.meter import Meter
from meterline.ports import CatalogueStore, Clock, Log, ProgressStore, UsageStore
from meterline.problem import not_found


@dataclass(frozen=True, slots=True)
class Stores:
    """All of them outlive the application; whoever composes it closes them."""

    catalogue: CatalogueStore
    progress: ProgressStore
    usage: UsageStore
    log: Log
    clock: Clock
    namespace: str = DEFAULT_NAMESPACE

    async def meter(self, id_or_key: str) -> Meter:
        """A live meter. Raises `Problem` (not found)."""
        meter = await self.catalogue.meter(self.namespace, id_or_key) if id_or_key else None
        if meter is None:
            raise not_found("meter", id_or_key)
        return meter
