"""The ports of refusals; the rules of `meterline.ports` hold here too."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from meterline.event_list import ListedEvent, Place
from meterline.refusal import Position, RefusalState, Settlement


class RefusedEvents(Protocol):
    """What counts nowhere, as far as it is kept."""

    async def refused_at(self, positions: Sequence[Position]) -> list[ListedEvent]:
        """Duplicates, conflicts and what could not be read at these positions, in any order."""
        ...


class SettlementStore(Protocol):
    """What was done about refusals. Each deed is recorded with its author, in its own
    transaction.
    """

    async def begin(self, wanted: Sequence[Settlement]) -> list[Settlement]:
        """Put down events that are to be sent anew (state `redriving`), before they are: for each,
        what stands then (`meterline.refusal.begun`). Positions differ.
        """
        ...

    async def finish(self, positions: Sequence[Position]) -> None:
        """The events that were put down for these are in the log: they are re-driven, and their
        texts forgotten.
        """
        ...

    async def dismiss(self, wanted: Settlement) -> Settlement:
        """What stands then (`meterline.refusal.dismissed`)."""
        ...

    async def settlements(self, positions: Sequence[Position]) -> Mapping[Position, Settlement]:
        """What was done about these; those about which nothing was are left out."""
        ...

    async def settled(
        self, owners: Sequence[str], state: RefusalState, after: Place | None, limit: int
    ) -> list[Settlement]:
        """What was done about refusals of these owners, those last taken in by the log first,
        behind a place in that order (by `stored_at`).
        """
        ...
