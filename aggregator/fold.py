"""The fold: events into tallies, members and rejected values of one slice (pure; design.md section 4.1).

Laws, held by property tests: the order of events within a window does not matter to any value; folding a slice in
parts gives what folding it at once gives; folding it again gives the same rows.
"""

from typing import Final

from meterline.event import Event
from meterline.measure import Measure, Measures
from meterline.meter import Aggregation
from meterline.pack import index_of, offset_of
from meterline.rows import MemberRow, RejectedRow, SliceId, TallyRow
from meterline.tally import Cell, Tally
from meterline.window import MINUTE_MS

NO_KEY: Final = bytes(16)
_NOTHING: Final[tuple[Measure, ...]] = ()


class SliceFold:
    """Tallies of one slice for a set of measures; what changed since the last `take` is remembered."""

    __slots__ = ("_changed", "_measures", "_members", "_new_members", "_rejected", "_tallies", "id")

    def __init__(self, slice_id: SliceId, measures: Measures) -> None:
        self.id = slice_id
        self._measures = measures
        self._tallies: dict[Cell, Tally] = {}
        self._changed: set[Cell] = set()
        self._members: set[tuple[Cell, bytes]] = set()
        self._new_members: list[MemberRow] = []
        self._rejected: list[RejectedRow] = []

    def add(self, event: Event, position: int) -> None:
        """Count a new event in every meter that matches it."""
        for measure in self._measures.get((event.namespace, event.type), _NOTHING):
            data = event.data
            cell = Cell(
                measure.revision,
                event.subject,
                measure.groups(data),
                event.time_ms // MINUTE_MS,
            )
            tally = self._tallies.get(cell)
            if tally is None:
                tally = self._tallies[cell] = Tally()
            tally.version = position
            self._changed.add(cell)
            if measure.aggregation is Aggregation.COUNT:
                tally.count += 1
            elif measure.aggregation is Aggregation.UNIQUE_COUNT:
                self._add_member(measure, cell, tally, data, position)
            else:
                value = measure.value(data)
                if value is None:
                    self._reject(measure, cell, tally, data, position)
                else:
                    tally.add(value, event.time_ms, event.recorded_ms, event.key)

    def _add_member(
        self, measure: Measure, cell: Cell, tally: Tally, data: object, position: int
    ) -> None:
        member = measure.member(data)
        if member is None:
            self._reject(measure, cell, tally, data, position)
            return
        tally.count += 1
        if (cell, member) not in self._members:
            self._members.add((cell, member))
            self._new_members.append(MemberRow(*cell, member, *self.id))

    def _reject(
        self, measure: Measure, cell: Cell, tally: Tally, data: object, position: int
    ) -> None:
        tally.rejected += 1
        reason, value = measure.rejection(data)
        log, partition, slice_ = self.id
        self._rejected.append(
            RejectedRow(
                cell.revision,
                log,
                partition,
                offset_of(position),
                index_of(position),
                slice_,
                cell.subject,
                cell.groups,
                cell.window,
                reason,
                value,
            )
        )

    def take(self) -> tuple[list[TallyRow], list[MemberRow], list[RejectedRow]]:
        """Rows for all that changed since the last time: tallies absolute, members and rejected the new ones."""
        changed = [self._row(cell, self._tallies[cell]) for cell in self._changed]
        members, rejected = self._new_members, self._rejected
        self._changed = set()
        self._new_members, self._rejected = [], []
        return changed, members, rejected

    def final(self) -> list[TallyRow]:
        """Every tally as it is now."""
        return [self._row(cell, tally) for cell, tally in self._tallies.items()]

    def _row(self, cell: Cell, tally: Tally) -> TallyRow:
        time_ms, recorded_ms, key, latest = tally.latest or (0, 0, NO_KEY, 0)
        return TallyRow(
            *cell,
            *self.id,
            tally.version,
            tally.total,
            tally.count,
            tally.rejected,
            tally.minimum or 0,
            tally.maximum or 0,
            time_ms,
            recorded_ms,
            key,
            latest,
        )
