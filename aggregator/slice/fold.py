"""The fold: events into tallies, members and rejected values of one slice (pure;
docs/architecture.md, "Tallies").

Laws, held by property tests: the order of events within a window does not matter to any row;
folding a slice in parts gives what folding it at once gives; folding it again gives the same rows.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from meterline.event import Event, index_of, offset_of
from meterline.limits import TALLIES_HASHED_AT_ONCE
from meterline.meter import Aggregation, Cell, Latest, Measure, Measures, Tally
from meterline.usage import (
    Counted,
    MemberRow,
    RejectedRow,
    SliceId,
    TallyRow,
    counted_of,
    tally_hash,
)
from meterline.window import MINUTE_MS

NO_KEY: Final = bytes(16)
_NOTHING: Final[tuple[Measure, ...]] = ()
_UNIQUE: Final = Aggregation.UNIQUE_COUNT  # at hand: a look-up of a member is no plain one
_NO_LATEST: Final = Latest(0, 0, NO_KEY, 0)
_Released = tuple[
    dict[Cell, Tally], list[Cell], set[tuple[Cell, bytes]], list[MemberRow], list[RejectedRow]
]


class SliceFold:
    """Tallies of one slice for a set of measures; it remembers what changed since `take`."""

    __slots__ = (
        "_changed",
        "_measures",
        "_members",
        "_new_members",
        "_rejected",
        "_revisions",
        "_tallies",
        "id",
    )

    def __init__(self, slice_id: SliceId, measures: Measures) -> None:
        self.id = slice_id
        self._measures = measures
        self._tallies: dict[Cell, Tally] = {}
        self._revisions: set[int] = set()  # of the tallies
        self._changed: list[Cell] = []
        self._members: set[tuple[Cell, bytes]] = set()
        self._new_members: list[MemberRow] = []
        self._rejected: list[RejectedRow] = []

    @property
    def cells(self) -> int:
        """Tallies so far."""
        return len(self._tallies)

    @property
    def held_cells(self) -> int:
        """Tallies and members, each of which takes memory until the slice is sealed."""
        return len(self._tallies) + len(self._members)

    @property
    def first_minute(self) -> int | None:
        """The first one that has a tally; None: there is none."""
        return min((window for *_, window in self._tallies), default=None)

    def add(self, event: Event, position: int) -> None:
        """Count a new event in every meter that matches it, in the minute of its own time. A late
        event is no special case: its tally is one more row of that minute.
        """
        measures = self._measures.get((event.namespace, event.type), _NOTHING)
        if not measures:
            return
        window = event.time_ms // MINUTE_MS
        tallies = self._tallies
        for measure in measures:
            cell = (measure.revision, event.subject, measure.groups(event.data), window)
            tally = tallies.get(cell)
            if tally is None:
                tally = tallies[cell] = Tally()
                self._revisions.add(measure.revision)
            if not tally.changed:
                tally.changed = True
                self._changed.append(cell)
            if position > tally.version:  # noqa: PLR1730 - a call costs more, for every event
                tally.version = position
            if measure.aggregation is _UNIQUE:
                if not self._add_member(measure, cell, tally, event):
                    self._reject(measure, cell, tally, event, position)
            elif not measure.add(tally, event):
                self._reject(measure, cell, tally, event, position)

    def _add_member(self, measure: Measure, cell: Cell, tally: Tally, event: Event) -> bool:
        member = measure.member(event.data)
        if member is None:
            return False
        tally.count += 1
        if (cell, member) not in self._members:
            self._members.add((cell, member))
            self._new_members.append(MemberRow(*cell, member, *self.id))
        return True

    def _reject(
        self, measure: Measure, cell: Cell, tally: Tally, event: Event, position: int
    ) -> None:
        tally.rejected += 1
        revision, subject, groups, window = cell
        log, partition, slice_ = self.id
        self._rejected.append(
            RejectedRow(
                revision,
                log,
                partition,
                offset_of(position),
                index_of(position),
                slice_,
                subject,
                groups,
                window,
                *measure.rejection(event.data),
            )
        )

    @property
    def measures(self) -> Measures:
        """By which it folds now."""
        return self._measures

    def adopt(self, measures: Measures, ahead: "SliceFold | None", gone: frozenset[int]) -> None:
        """Go on with other measures, as if all had been folded by them from the beginning: the
        revisions that are new were folded `ahead`, those that are `gone` are forgotten.
        """
        if not self._revisions.isdisjoint(gone):  # else nothing goes, and all of it is looked at
            self._revisions -= gone
            self._tallies = {it: tally for it, tally in self._tallies.items() if it[0] not in gone}
            self._changed = [cell for cell in self._changed if cell[0] not in gone]
            self._members = {it for it in self._members if it[0][0] not in gone}
            self._new_members = [row for row in self._new_members if row.revision not in gone]
            self._rejected = [row for row in self._rejected if row.revision not in gone]
        if ahead is not None:  # a cell names its revision: none of these is in both
            tallies, changed, members, new_members, rejected = ahead.released()
            self._revisions |= ahead.revisions
            self._tallies |= tallies
            self._changed += changed
            self._members |= members
            self._new_members += new_members
            self._rejected += rejected
        self._measures = measures

    @property
    def revisions(self) -> frozenset[int]:
        """Those that have tallies."""
        return frozenset(self._revisions)

    def released(self) -> _Released:
        """All that it holds; it is not used any more."""
        return (
            self._tallies, self._changed, self._members, self._new_members, self._rejected
        )  # fmt: skip

    def take(self) -> tuple[list[TallyRow], list[MemberRow], list[RejectedRow]]:
        """Rows for all that changed since the last time: tallies absolute, members and rejected the
        new ones.
        """
        changed = []
        for cell in self._changed:
            tally = self._tallies[cell]
            tally.changed = False
            changed.append(self._row(cell, tally))
        members, rejected = self._new_members, self._rejected
        self._changed = []
        self._new_members, self._rejected = [], []
        return changed, members, rejected

    def counted(self, late_before: int) -> Iterator[tuple[Counted, Counted]]:
        """The tallies, all of which must be taken, in portions: how many, and the sum of the hashes
        of their rows; and the same of those before a minute.

        They are hashed here, once a slice: most are taken many times before, each time with other
        values.
        """
        assert not self._changed, "rows that were never written are not counted back"
        left = iter(self._tallies.items())
        while portion := list(islice(left, TALLIES_HASHED_AT_ONCE)):
            hashes = [tally_hash(*one, self._row) for one in portion]
            both = zip(hashes, portion, strict=True)
            late = [it for it, (cell, _) in both if cell[-1] < late_before]
            yield counted_of(hashes), counted_of(late)

    def _row(self, cell: Cell, tally: Tally) -> TallyRow:
        time_ms, recorded_ms, key, latest = tally.latest or _NO_LATEST
        return tuple.__new__(  # the constructor of a named tuple costs as much as all else here
            TallyRow,
            (
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
            ),
        )
