"""Usage by minute is dropped in a world: the production step over simulated ports, and whoever
reads by the production plan what is left.

An hour takes the place of a month, and a minute that of the day between notice and drop: that a
copy of a store is older is not what this shows.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from aggregator.retention import Retention
from meterline.backends.clickhouse.usage.sources import refused
from meterline.meter import EMPTY, Aggregate, merged, pieces
from meterline.ports import StoreLost, Unavailable
from meterline.usage import (
    MINUTE_TABLES,
    CheckedPeriods,
    Coverage,
    Dropped,
    Kept,
    Notice,
    Period,
    Plan,
    Range,
    Reach,
    RetentionTerms,
    Seal,
    SealedEnd,
    SealSum,
    UsageIntegrity,
    UsagePeriods,
    UsageQuery,
    UsageRow,
    columns_of,
    concerning,
    dropped_before,
    dropped_of,
    kept_of,
    lack_of,
    late_from_ms,
    plan_of,
    whole_from,
    why_minutes_stay,
)
from meterline.window import MINUTE_MS
from tests.simulation.answers import aggregate_of, key_of, usage_row
from tests.simulation.blocks import HOUR, BlocksState
from tests.simulation.hours import is_hidden
from tests.simulation.lost_store import Binding
from tests.simulation.network import Net
from tests.simulation.profile import Profile
from tests.simulation.stores import CatalogueState
from tests.simulation.summing import SumsState
from tests.simulation.usage import UsageState

HOUR_MS: Final = HOUR * MINUTE_MS
TERMS: Final = RetentionTerms(minutes_ms=1)  # what is old is so at once
WAIT_MS: Final = 60_000
_EVER: Final = 1 << 40  # behind every minute


class MinutesState:
    """Both sides of it, and who reads. `on`: whether minutes are dropped in this world."""

    def __init__(
        self, binding: Binding, catalogue: CatalogueState, sums: SumsState, profile: Profile
    ) -> None:
        self.on = profile.drops_minutes
        self.met: Counter[str] = Counter()
        self.blocks: BlocksState = binding.blocks
        self.sums = sums
        self._binding = binding
        self._usage = binding.usage
        self._progress = binding.progress
        self._notices: dict[tuple[str, str], Notice] = {}
        self._catalogue = catalogue
        self.why = why_minutes_stay
        self.lack = lack_of
        self.along_log: Callable[[str], str] = lambda table: f"late_{table}"
        if self.on:
            binding.usage.undropped = UsageState()
            binding.kept = self.kept
            catalogue.whole_from_ms = lambda it: whole_from(self.dropped(), it) * MINUTE_MS
            self.blocks.dropped = binding.progress.dropped = self.dropped
            self.blocks.planned, self.blocks.fair = self.through, self.is_fair

    # --- the control store's side ---

    def notices(self) -> list[Notice]:
        return [self._notices[key] for key in sorted(self._notices)]

    def dropped(self) -> tuple[Dropped, ...]:
        return dropped_of(self._notices.values())

    def kept(self) -> dict[str, Kept]:
        return kept_of(self._notices.values())

    def give(self, period: Period, reach: Reach, log: int, now_ms: int) -> Notice | str:
        need = self._needed(period, reach, log)
        if need is not None:
            self.met[f"minutes kept: {need}"] += 1
            return need
        known: list[Seal | SealSum] = [*self._progress.sums]
        known += self._progress.seals.values()
        without = (it.append_ms + 1 for it in known if it.late is None)
        before_ms = max((late_from_ms(period.to_ms), *without))
        version, latest_ms = self._catalogue.version, period.to_ms - 1
        made = Notice(period.table, period.name, before_ms, latest_ms, version, now_ms)
        return self._notices.setdefault((period.table, period.name), made)

    def begin(self, period: Period, reach: Reach, log: int, now_ms: int) -> bool:
        if self._needed(period, reach, log) is not None:
            return False
        there = self._notices[period.table, period.name]
        if there.begun_at_ms is None:
            self._notices[period.table, period.name] = there._replace(begun_at_ms=now_ms)
        return True

    def _needed(self, period: Period, reach: Reach, log: int) -> str | None:
        columns = columns_of(it for it in self.blocks.records.values() if it.log == log)
        revisions = self.sums.revisions()
        return self.why(period.to_ms, reach.ends, columns, revisions, alone=True)

    # --- the usage store's side ---

    def periods(self) -> list[Period]:
        found = {
            (table, row.window // HOUR)
            for table in MINUTE_TABLES
            for row in self._usage.tables[table].values()
        }
        return [
            Period(table, f"{hour:08}", hour * HOUR_MS, (hour + 1) * HOUR_MS)
            for table, hour in sorted(found)
        ]

    def reach(self, period: Period, log: int) -> Reach:
        ends: dict[int, int] = {}
        for row in self._usage.tables[period.table].values():
            if row.log == log and period.from_ms <= row.window * MINUTE_MS < period.to_ms:
                ends[row.partition] = max(ends.get(row.partition, 0), row.slice + 1)
        return Reach(ends, 0)

    def drop(self, period: Period) -> None:
        rows = self._usage.tables[period.table]
        gone = [
            key
            for key, row in rows.items()
            if period.from_ms <= row.window * MINUTE_MS < period.to_ms
        ]
        self.met["periods of minutes dropped"] += bool(gone)
        for key in gone:
            row = rows.pop(key)
            self._usage.landed.pop((period.table, key), None)
            self._usage.by_slice[period.table, row.partition, row.slice].pop(key, None)

    # --- whoever reads ---

    def is_partial(self, log: int) -> bool:
        """Whether some rows may be there without others of a slice that is not counted back yet.
        Late ones are written twice: until then one of the two may be lacking. A sealed slice has
        them all.
        """
        if not self.on:
            return False
        ends = self.sums.ends(log)
        partial = any(
            partition not in ends or slice_ >= ends[partition].offset
            for of, partition, slice_, _ in self._usage.partial
            if of == log
        )
        self.met["answers not looked at, since a slice was there in part"] += partial
        return partial

    def through(self, query: UsageQuery, coverage: Coverage) -> list[UsageRow]:
        """What is read by the plan: of blocks, by minute, and along the log. Raises as the product
        does where it needs what is not kept.
        """
        found: dict[Any, Aggregate] = {}
        members: dict[Any, set[bytes]] = {}
        minutes: list[int] = []
        for cell, aggregate, member in self._cells(query, coverage):
            minutes.append(cell.window)
            key = key_of(query, cell)
            if member:
                members.setdefault(key, set()).add(member)
            else:
                found[key] = merged(found.get(key, EMPTY), aggregate)
        rows = (usage_row(query, key, found[key], members, minutes) for key in sorted(found))
        return [row for row in rows if row is not None]

    def _cells(
        self, query: UsageQuery, coverage: Coverage
    ) -> Iterator[tuple[Any, Aggregate, bytes]]:
        border = coverage.late_before if coverage.ends else None
        starts: list[int] | None = None if query.window else []
        for revision, first, end in _parts(query):
            plan = plan_of(first, end, starts, border, blocks=bool(coverage.blocks))
            lack = self.lack(plan, first, revision, border, coverage.dropped)
            if lack is not None:
                raise refused(lack)
            yield from self._planned(plan, revision, coverage)

    def _planned(
        self, plan: Plan, revision: int, coverage: Coverage
    ) -> Iterator[tuple[Any, Aggregate, bytes]]:
        for number in coverage.blocks:
            for cell, aggregate in self.blocks.rows.get(number, ()):
                if cell.revision == revision and _in(cell, (*plan.days, *plan.hours)):
                    yield cell, aggregate, cell.member
        for table in MINUTE_TABLES:
            those = (
                (table, plan.minutes, False),
                (table, plan.newest, True),
                (self.along_log(table), plan.late, True),
            )
            for name, ranges, behind in those:
                for row in self._usage.tables[name].values():
                    unread = behind and _is_covered(row, coverage)
                    unread = unread or any(is_hidden(row, it) for it in coverage.hidden)
                    if row.revision == revision and _in(row, ranges) and not unread:
                        is_member = table == "members"
                        yield (
                            row,
                            EMPTY if is_member else aggregate_of(row),
                            row.member if is_member else b"",
                        )

    def is_fair(self, query: UsageQuery, dropped: Sequence[Dropped], refusal: Exception) -> bool:
        """Whether a question may be refused: for good only where it cuts hours of before, or a
        revision is newer than they are kept.
        """
        before = dropped_before(dropped)
        old = [part for part in _parts(query) if part[1] < before]
        if isinstance(refusal, Unavailable):
            return bool(old)
        return any(
            query.window is not None
            or first % HOUR != 0
            or (end % HOUR != 0 and end < _EVER)
            or first < whole_from(dropped, revision)
            for revision, first, end in old
        )

    async def answered(
        self, net: Net, query: UsageQuery, lives: Callable[[], None], *, log: int
    ) -> list[UsageRow]:
        """As the product answers: what blocks there are, the rows, and whether all was kept.
        `lives` raises where another life of the store is asked.
        """

        def read() -> list[UsageRow]:
            lives()
            return self.through(query, coverage)

        revisions = {revision for revision, *_ in _parts(query)}

        def known() -> Coverage:
            columns = columns_of(it for it in self.blocks.records.values() if it.log == log)
            made = self.blocks.coverage(log, columns, revisions)
            hidden = concerning(self.blocks.hidden(), revisions)
            return replace(made, hidden=hidden, dropped=self.dropped())

        def kept() -> bool:
            before = dropped_before(coverage.dropped)
            same = concerning(self.blocks.hidden(), revisions) == coverage.hidden
            return same and self.blocks.kept(coverage.blocks, before)

        coverage = await net.call("progress.snapshot", known)
        rows = await net.call("usage.usage_rows", read)
        if not await net.call("progress.kept_blocks", kept):
            raise Unavailable("usage store: ask again")
        return rows

    def retention(self, net: Net, log: int, integrity: UsageIntegrity | None) -> Retention | None:
        """The production step over simulated ports; None where nothing is dropped."""
        if not self.on:
            return None
        ports: Any = SimulatedMinutes(self, net)
        periods: UsagePeriods = ports
        checked = periods if integrity is None else CheckedPeriods(periods, integrity)
        return Retention(checked, ports, TERMS, log, WAIT_MS)


def _parts(query: UsageQuery) -> list[tuple[int, int, int]]:
    """Which revision answers which minutes."""
    return [
        (
            piece.meter.revision,
            0 if piece.from_ms is None else piece.from_ms // MINUTE_MS,
            _EVER if piece.to_ms is None else piece.to_ms // MINUTE_MS,
        )
        for piece in pieces(query.meter, query.from_ms, query.to_ms)
    ]


def _in(row: Any, ranges: Sequence[Range]) -> bool:
    return any(first <= row.window < end for first, end in ranges)


def _is_covered(row: Any, coverage: Coverage) -> bool:
    end = coverage.ends.get(row.partition, 0)
    return bool(row.log == coverage.log and row.slice < end)


class SimulatedMinutes:
    """`RetentionLedger` and `UsagePeriods` as one process reaches them."""

    def __init__(self, state: MinutesState, net: Net) -> None:
        self._state = state
        self._net = net

    async def sealed_ends(self, log: int) -> dict[int, SealedEnd]:
        read = partial(self._state.sums.ends, log)
        return await self._net.call("progress.sealed_ends", read)

    async def give_notice(
        self, period: Period, reach: Reach, log: int, now_ms: int
    ) -> Notice | str:
        act = partial(self._state.give, period, reach, log, now_ms)
        return await self._net.call(f"progress.give_notice {period.name}", act, writes=True)

    async def begin_drop(self, period: Period, reach: Reach, log: int, now_ms: int) -> bool:
        act = partial(self._state.begin, period, reach, log, now_ms)
        return await self._net.call(f"progress.begin_drop {period.name}", act, writes=True)

    async def notices(self) -> list[Notice]:
        return await self._net.call("progress.notices", self._state.notices)

    async def periods(self) -> list[Period]:
        return await self._net.call("usage.periods", self._state.periods)

    async def reach(self, period: Period, log: int) -> Reach:
        read = partial(self._state.reach, period, log)
        return await self._net.call(f"usage.reach {period.name}", read)

    async def drop(self, period: Period) -> None:
        what = f"usage.drop_period {period.table} {period.name}"
        await self._net.call(what, lambda: self._state.drop(period), writes=True)


async def drop_for_ever(retention: Retention, clock: Any, rng: random.Random) -> None:
    """Every worker does it here, not only one: they must do each other no harm."""
    while True:
        await asyncio.sleep(rng.random() * 0.5)
        try:
            await retention.step(clock.now_ms())
        except (Unavailable, StoreLost):
            await asyncio.sleep(rng.random())
