"""The simulated usage store: tables whose rows are replaced by identity, the greatest version wins.

A block lands whole or not, the tables of a stage in any order; what is there is looked at by every
write: two rows of one identity and version must be the same bytes.
"""

import random
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from meterline.event import EventQuery, EventSubject, ListedEvent, SubjectQuery
from meterline.meter import EMPTY, Aggregate, Meter, merged, timeline
from meterline.ports import Unavailable
from meterline.usage import (
    AccountRow,
    Counted,
    Coverage,
    EventRow,
    Flush,
    Hidden,
    Life,
    Masks,
    RawEvent,
    RejectedRow,
    SeenExtent,
    SeenRow,
    SeenSpan,
    SliceId,
    UsageQuery,
    UsageRow,
    counted,
)
from meterline.window import MINUTE_MS
from tests.accounted import added_up
from tests.portions import InPortions, values_among
from tests.simulation.answers import Answered, aggregate_of, key_of, usage_row
from tests.simulation.hours import Hours, answers, is_hidden
from tests.simulation.network import Net
from tests.simulation.raw import SEEN_CHUNK, raw_after, seen_after, seen_extent, seen_keys
from tests.simulation.stores import REPLICA_ASKED
from tests.simulation.tables import IDENTITIES, STAGES, VERSIONS, Identity, one_is_left


class UsageState:
    """The tables. `first_at` says after how many writes a key was first in `events`."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self.rng = rng or random.Random(0)
        self.replicated: int | None = None  # writes that a lagging replica knows
        self.landed: dict[tuple[str, Identity], int] = {}  # by which write a row came to be
        self.tables: dict[str, dict[Identity, Any]] = {n: {} for stage in STAGES for n in stage}
        self.by_slice: dict[tuple[str, int, int], dict[Identity, Any]] = {}
        # tables, and two rows of one identity and version that differ
        self.told_apart: list[tuple[str, Any, Any]] = []
        self.writes = 0
        self.life = 1  # which one it is: it is lost, and comes back, with a start
        self.met: Counter[str] = Counter()
        self.first_at: dict[bytes, int] = {}
        self.unerased: UsageState | None = None  # the same, where nobody is ever erased
        self.undropped: UsageState | None = None  # where all minutes are kept, none is erased
        self.redacted: set[tuple[str, Identity]] = set()
        self.forgets_share = 0.0
        self.forgets: random.Random | None = None  # whoever draws which rows are lost in silence
        self.partial: set[tuple[int, ...]] = set()  # slices and versions of flushes not all there
        self.forgot_events: set[tuple[int, ...]] = set()  # slices
        self.pseudonyms: set[tuple[str, str]] = set()  # of names that were asked to be erased

    def forgets_by(self, rng: random.Random, share: float) -> None:
        """From now on it forgets rows of this share of the flushes."""
        self.forgets, self.forgets_share = (rng if share else None), share

    def put(self, table: str, rows: Sequence[Any]) -> None:
        """Insert a block."""
        for whole in (self.unerased, self.undropped):
            if whole is not None:
                whole.put(table, rows)
        self.writes += 1
        rows_by = self.tables[table]
        identity_of = IDENTITIES[table]
        version = VERSIONS.get(table)
        for row in rows:
            identity = identity_of(row)
            there = rows_by.get(identity)
            if there is not None:
                if version is not None and row[version] != there[version]:
                    if row[version] < there[version]:
                        self.met["an older row came late"] += 1
                        continue
                elif row == there:
                    self.met["a row came again"] += 1
                elif (table, identity) in self.redacted or one_is_left(there, row, self.pseudonyms):
                    self.met["a row came back that was erased"] += 1
                    self.redacted.discard((table, identity))
                else:
                    self.told_apart.append((table, there, row))
            self._set(table, identity, row)
            if table == "events":
                self.first_at.setdefault(row.key, self.writes)

    def _set(self, table: str, identity: Identity, row: Any) -> None:
        self.tables[table][identity] = row
        self.landed[table, identity] = self.writes
        self.by_slice.setdefault((table, row.partition, row.slice), {})[identity] = row

    @property
    def whole(self) -> "UsageState":
        """As it would be if nobody had been erased."""
        return self.unerased or self

    @property
    def with_minutes(self) -> "UsageState":
        """As it would be if no usage by minute had been dropped."""
        return self.undropped or self

    def copy(self, table: str, rows: Sequence[Any]) -> None:
        """Write rows under a pseudonym; of each the greatest version wins, as everywhere."""
        version = VERSIONS.get(table)
        for row in rows:
            identity = IDENTITIES[table](row)
            there = self.tables[table].get(identity)
            if there is None or (version is not None and row[version] >= there[version]):
                self._set(table, identity, row)

    def rewrite(self, table: str, pairs: Sequence[tuple[Any, Any]]) -> None:
        """Put what is left of rows in their places."""
        for before, after in pairs:
            identity = IDENTITIES[table](before)
            self._set(table, identity, after)
            self.redacted.add((table, identity))

    def delete(self, table: str, rows: Sequence[Any]) -> None:
        """Delete rows, whatever became of them since."""
        for row in rows:
            identity = IDENTITIES[table](row)
            del self.tables[table][identity]
            del self.by_slice[table, row.partition, row.slice][identity]

    def write(self, flush: Flush) -> None:
        """All of it; a store that forgets loses rows of what is counted back, and says nothing."""
        forgets = self.forgets if flush.accounts else None
        if forgets is not None and forgets.random() < self.forgets_share:
            flush = self._forgotten(flush, forgets)
        else:
            self.partial -= {it[:4] for it in flush.accounts}
        for stage in STAGES:
            for table in stage:
                if rows := getattr(flush, table):
                    self.put(table, rows)

    def write_part(self, flush: Flush, rng: random.Random) -> None:
        """All before some stage, and any rows of that one: an insert may land in several parts."""
        self.partial |= {it[:4] for it in flush.accounts}
        cut = rng.randrange(len(STAGES))
        for stage in STAGES[:cut]:
            for table in stage:
                self.put(table, getattr(flush, table))
        for table in STAGES[cut]:
            share = rng.choice((0.0, 0.5, 1.0))
            self.put(table, [row for row in getattr(flush, table) if rng.random() < share])

    def _forgotten(self, flush: Flush, rng: random.Random) -> Flush:
        """What is left of a flush when rows of one table are gone."""
        self.met["rows forgotten in silence"] += 1
        left = {name: getattr(flush, name) for stage in STAGES for name in stage}
        table = rng.choice([name for name, rows in left.items() if rows])
        left[table] = [row for row in left[table] if rng.random() < 0.3]
        self.partial |= {it[:4] for it in flush.accounts}
        if table == "events":
            self.forgot_events |= {it[:3] for it in flush.accounts}
        return Flush(**left)

    def replica(self, writes: int) -> "UsageState":
        """As it is where only so many writes have arrived; a row that was replaced since is not
        there.
        """
        copy = UsageState()
        for table, rows in self.tables.items():
            copy.put(table, [r for key, r in rows.items() if self.landed[table, key] <= writes])
        return copy

    def read(self) -> "UsageState":
        """Whichever replica answers, for what may be asked of any."""
        if self.replicated is not None and self.rng.random() < REPLICA_ASKED:
            self.met["asked of a replica that lags"] += 1
            return self.replica(self.replicated)
        return self

    def slice_rows(self, table: str, slice_id: SliceId) -> list[Any]:
        found = self.by_slice.get((table, slice_id.partition, slice_id.slice), {})
        return [row for row in found.values() if row.log == slice_id.log]

    def count_back(self, slice_id: SliceId, revisions: Sequence[int]) -> dict[str, Counted]:
        found = {}
        for table in (*STAGES[0], *STAGES[1]):
            rows = self.slice_rows(table, slice_id)
            if table in STAGES[1]:
                rows = [row for row in rows if row.revision in revisions]
            found[table] = counted(table, rows)
        return found

    def account(self, slice_id: SliceId) -> AccountRow | None:
        return self.tables["accounts"].get(tuple(slice_id))

    def slice_events(
        self, slice_id: SliceId, types: Sequence[tuple[str, str]] | None
    ) -> list[EventRow]:
        rows = sorted(self.slice_rows("events", slice_id))
        return [row for row in rows if not types or (row.namespace, row.type) in types]

    def rejected(self, meter: Meter, limit: int, after: str | None) -> list[RejectedRow]:
        cursor = (-1,) if after is None else tuple(int(part) for part in after.split("."))
        rows = (row for row in self.tables["rejected"].values() if row[1:5] > cursor)
        return sorted(row for row in rows if answers(meter, row))[:limit]

    def usage(
        self,
        query: UsageQuery,
        coverage: Coverage | None = None,
        blocks: Sequence[Any] = (),
        hidden: Sequence[Hidden] = (),
    ) -> list[UsageRow]:
        """Whole minutes only, each by itself or all together: that is what runs and oracle ask.
        With a coverage, whole hours of its slices are of `blocks`; `hidden` slices are left out.
        """
        first = 0 if query.from_ms is None else query.from_ms // MINUTE_MS
        end = 1 << 40 if query.to_ms is None else query.to_ms // MINUTE_MS
        found: dict[Identity, Aggregate] = {}
        minutes: list[int] = []
        hours = Hours(query, first, end, coverage)
        for row in self._shown("tallies", hidden):
            if first <= row.window < end and answers(query.meter, row) and not hours.have(row):
                minutes.append(row.window)
                key = key_of(query, row)
                found[key] = merged(found.get(key, EMPTY), aggregate_of(row))
        members: dict[Identity, set[bytes]] = {}
        for row in self._shown("members", hidden):
            if first <= row.window < end and answers(query.meter, row) and not hours.have(row):
                members.setdefault(key_of(query, row), set()).add(row.member)
        for cell, aggregate in blocks:
            if answers(query.meter, cell) and hours.whole(cell):
                minutes.append(cell.window)
                key = key_of(query, cell)
                if cell.member:
                    members.setdefault(key, set()).add(cell.member)
                else:
                    found[key] = merged(found.get(key, EMPTY), aggregate)
        return [
            row
            for key in sorted(found)
            if (row := usage_row(query, key, found[key], members, minutes)) is not None
        ]

    def _shown(self, table: str, hidden: Sequence[Hidden]) -> Iterator[Any]:
        rows = self.tables[table].values()
        return (row for row in rows if not any(is_hidden(row, it) for it in hidden))


class SimulatedUsage(InPortions):
    """`UsageStore` as one process reaches it."""

    demands_life = True
    masks: Masks | None = None  # of erasures, where there are any
    answered: Answered | None = None  # by a plan

    def __init__(self, state: UsageState, net: Net) -> None:
        self._state = state
        self._net = net

    async def write(self, flush: Flush) -> None:
        await self._net.call(
            "usage.write",
            lambda: self._state.write(flush),
            part=lambda rng: self._state.write_part(flush, rng),
            writes=True,
        )

    async def count_back(self, slice_id: SliceId, revisions: Sequence[int]) -> dict[str, Counted]:
        return await self._net.call(
            f"usage.count_back {slice_id.partition}/{slice_id.slice}",
            lambda: self._state.read().count_back(slice_id, revisions),
        )

    async def account(self, slice_id: SliceId) -> AccountRow | None:
        return await self._net.call("usage.account", lambda: self._state.read().account(slice_id))

    async def answers(self) -> None:
        await self._net.call("usage.answers", self._state.read)

    async def accounts(
        self,
        log: int,
        first: Mapping[int, int] | None = None,
        end: Mapping[int, int] | None = None,
    ) -> AccountRow:
        rows = self._state.tables["accounts"].values()
        return await self._net.call("usage.accounts", lambda: added_up(log, rows, first, end))

    async def slice_events(
        self, slice_id: SliceId, namespaced_types: Sequence[tuple[str, str]] | None = None
    ) -> list[EventRow]:
        return await self._net.call(
            f"usage.slice_events {slice_id.partition}/{slice_id.slice}",
            lambda: self._state.slice_events(slice_id, namespaced_types),
        )

    async def raw_events(
        self,
        log: int,
        partition: int,
        slices: Sequence[int],
        end: int,
        namespaced_types: Sequence[tuple[str, str]],
    ) -> AsyncIterator[list[RawEvent]]:
        after, ids = (-1, -1), [SliceId(log, partition, slice_) for slice_ in slices]
        while True:
            rows = await self._net.call(
                f"usage.raw_events {partition}/{list(slices)} {after}",
                partial(raw_after, self._state, ids, after, end, namespaced_types),
            )
            if not rows:
                return
            yield rows
            after = (rows[-1].offset, rows[-1].place)

    async def seen_between(
        self, log: int, partition: int, offset_first: int, offset_end: int
    ) -> AsyncIterator[list[SeenRow]]:
        after = (offset_first, -1)
        while True:
            rows = await self._net.call(
                f"usage.seen_between {partition} {after}",
                partial(seen_after, self._state, log, partition, after, offset_end),
            )
            if rows:
                yield rows
            if len(rows) < SEEN_CHUNK:
                return
            after = (rows[-1].offset, rows[-1].place)

    async def seen_extent(self, span: SeenSpan) -> SeenExtent:
        name = f"usage.seen_extent {span.partition} {span.first}"
        return await self._net.call(name, partial(seen_extent, self._state, span))

    async def seen_keys(self, span: SeenSpan, low: int, high: int) -> bytes:
        name = f"usage.seen_keys {span.partition} {span.first} {low}"
        return await self._net.call(name, partial(seen_keys, self._state, span, low, high))

    async def usage(self, query: UsageQuery) -> list[UsageRow]:
        return await self._net.call("usage.usage", lambda: self._state.usage(query))

    async def usage_values(
        self, query: UsageQuery, limit: int, offset: int
    ) -> tuple[list[str], int]:
        return values_among(await self.usage(query), limit, offset)

    async def usage_rows(
        self, query: UsageQuery, life: Life | None = None
    ) -> AsyncGenerator[list[UsageRow], None]:
        revisions = {part.revision for part in timeline(query.meter)}
        hidden = () if self.masks is None else await self.masks.of(revisions)

        def lives() -> None:
            if self.demands_life and life is not None and life.of != str(self._state.life):
                raise Unavailable("usage store: it was started again")

        def read() -> list[UsageRow]:
            lives()
            return self._state.usage(query, hidden=hidden)

        if self.answered is not None:
            yield await self.answered(self._net, query, lives)
            return
        rows = await self._net.call("usage.usage_rows", read)
        if self.masks is not None:
            await self.masks.confirm(revisions, hidden)
        yield rows

    async def rejected(self, meter: Meter, limit: int, after: str | None) -> list[RejectedRow]:
        return await self._net.call(
            "usage.rejected", lambda: self._state.rejected(meter, limit, after)
        )

    async def listed_events(self, query: EventQuery) -> list[ListedEvent]:
        raise NotImplementedError("nobody lists events here")

    async def event_subjects(self, query: SubjectQuery) -> list[EventSubject]:
        raise NotImplementedError("nobody lists events here")

    async def new_events(self, positions: Sequence[tuple[int, int, int, int]]) -> list[ListedEvent]:
        raise NotImplementedError("nobody lists events here")

    async def close(self) -> None:
        """Nothing is held."""
