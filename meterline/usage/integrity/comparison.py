"""Whether the usage store still holds what was counted into it.

The control store knows every sealed slice, and how many rows each wrote. The usage store has an id
that the control store knows too. A store that is empty, another one, or restored to an older state
is found by comparing the two, and nothing is answered, sealed or delivered from it.
"""

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, ParamSpec, Protocol, TypeVar

from meterline.ports import StoreLost, Unavailable, Unsuitable
from meterline.usage.integrity.messages import (
    lost_message,
    not_empty_message,
    other_store_message,
)
from meterline.usage.ports import Life
from meterline.usage.retention.periods import Kept

BEFORE: Final = -1  # below the first slice of a partition
ID_TABLE: Final = "installation"  # where the usage store keeps its id
_P = ParamSpec("_P")
_T = TypeVar("_T")


class SealedRows(NamedTuple):
    """Seals of one partition added up: the last slice, and the rows that all of them wrote, as far
    as these are kept.
    """

    partition: int
    last: int  # first offset of the last slice
    slices: int
    events: int
    rejects: int
    tallies: int
    members: int
    rejected: int
    seen: int

    def by_table(self) -> dict[str, int]:
        """At least so many rows are in each table."""
        return {
            "accounts": self.slices,
            "events": self.events,
            "seen": self.seen,
            "rejects": self.rejects,
            "tallies": self.tallies,
            "members": self.members,
            "rejected": self.rejected,
        }


@dataclass(frozen=True, slots=True)
class Sealed:
    """What the control store knows: the id of the usage store, seals by partition, rows by table
    of each block that is read or was just replaced, what is kept of tables that do not keep all,
    and how many revisions no seal tells of any more.
    """

    store_id: str | None
    rows: Sequence[SealedRows]
    blocks: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    kept: Mapping[str, Kept] = field(default_factory=dict)
    unsealed: int = 0

    @property
    def terms(self) -> tuple[Mapping[str, Kept], int]:
        """What the numbers of seals depend on: where it changes, all are read again."""
        return self.kept, self.unsealed


@dataclass(frozen=True, slots=True)
class Holdings:
    """What the usage store has: its ids (one, or none in a new store), rows by table, those of the
    slices asked for that have an account, as (partition, slice), and by block its rows by table.
    And whose life it was that told so, where that is known.
    """

    ids: tuple[str, ...]
    rows: Mapping[str, int]
    accounts: Collection[tuple[int, int]]
    blocks: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    life: Life | None = None


class WholeLife(NamedTuple):
    """A life of the usage store that was found whole by a comparison begun then (seconds of a clock
    that only goes on).
    """

    life: Life
    begun_s: float


class Standing(Protocol):
    """What answers stand on: comparisons, and for how long each of them is good."""

    @property
    def held(self) -> WholeLife | None:
        """The life that an answer asked for now may come from without another comparison."""
        ...

    async def stands(self, held: WholeLife | None) -> None:
        """Return when an answer may be given out: of the life that it was asked of (`held`), or of
        any, by a comparison that begins now. Raises as the comparison does.
        """
        ...


class SealLedger(Protocol):
    """The control store's side of the comparison."""

    async def sealed(self, log: int, after: Mapping[int, int]) -> Sealed:
        """By partition, the seals behind the slice named there, and all of greater partitions: the
        log got them since. Without any, of all partitions. And the blocks of the log that are read,
        or were until they were replaced.
        """
        ...

    async def counted(self) -> bool:
        """Whether anything was ever counted, of any log."""
        ...

    async def bind(self, store_id: str, lost: str | None = None) -> str:
        """Keep the id of the usage store; the id that is kept: the first one wins.

        With `lost`, the id takes the place of that one, and what was counted into it (seals, fill
        marks, claims, ends) is forgotten, in one transaction: the log is counted again.
        """
        ...


class UsageHoldings(Protocol):
    """The usage store's side of the comparison."""

    async def holdings(
        self, log: int, slices: Mapping[int, int], after: Mapping[str, str]
    ) -> Holdings:
        """What is there now; `slices` by partition. Of tables in `after`, rows of later periods."""
        ...

    async def adopt(self, store_id: str) -> None:
        """Give the store this id in place of any other."""
        ...

    async def name(self, store_id: str) -> None:
        """Give the store this id unless it has one: a call that comes late must not rename the
        store that is in its place by then.
        """
        ...


def missing(need: Mapping[str, int], last: Mapping[int, int], there: Holdings) -> str:
    """What the store lacks, in words; "" where it lacks nothing that can be seen this way."""
    short = [
        f"{table} has {there.rows.get(table, 0)} rows and should have at least {rows}"
        for table, rows in sorted(need.items())
        if there.rows.get(table, 0) < rows
    ]
    if short:
        return "table " + ", table ".join(short)
    gone = [place for place in sorted(last.items()) if place not in there.accounts]
    if gone:
        partition, slice_ = gone[0]
        return f"the account of partition {partition}, slice {slice_} is missing"
    return ""


def damaged(sealed: Sealed, there: Holdings) -> list[int]:
    """The blocks that may be read and do not have the rows that were counted."""
    return [
        number
        for number, rows in sealed.blocks.items()
        if dict(there.blocks.get(number, {})) != dict(rows)
    ]


def is_one_life(before: Life | None, after: Life | None, passed_s: float) -> bool:
    """Whether a store lived on between two answers about its life. `passed_s` begins before the
    first answer and ends after the second. False where either is not known.
    """
    if before is None or after is None:
        return False
    return before.of == after.of and after.up_s > passed_s


def check_same(before: Life | None, after: Life | None) -> None:
    """Raise `Unavailable` where both lives are known, and the later one is another."""
    if before is None or after is None:
        return
    if before.of != after.of or before.up_s > after.up_s:
        raise Unavailable("usage store: it began again while it was asked: ask again")


@dataclass(slots=True)
class _Known:
    """Seals that were read so far: the next look reads only what was sealed since.

    `terms` are those of when they were read; once they change, all are read again.
    """

    terms: tuple[Mapping[str, Kept], int] | None = None
    last: dict[int, int] = field(default_factory=dict)
    need: dict[str, int] = field(default_factory=dict)

    def add(self, rows: Sequence[SealedRows], after: Mapping[int, int]) -> None:
        """Take in what was read behind `after`, unless another look was faster."""
        for one in rows:
            if self.last.get(one.partition, BEFORE) == after.get(one.partition, BEFORE):
                self.last[one.partition] = one.last
                self.require([one])

    def require(self, rows: Sequence[SealedRows]) -> None:
        """So many rows must be there, too."""
        for one in rows:
            for table, count in one.by_table().items():
                self.need[table] = self.need.get(table, 0) + count


class UsageIntegrity:
    """Compares both stores: once at start (`begin`), then whenever something rests on the answer
    (`check`).
    """

    def __init__(self, ledger: SealLedger, store: UsageHoldings, log: int, partitions: int) -> None:
        self._ledger = ledger
        self._store = store
        self._log = log
        self._partitions = partitions
        self._known = _Known()
        self.store_id = ""

    @property
    def last(self) -> Mapping[int, int]:
        """By partition, the last sealed slice that the control store was read to know."""
        return self._known.last

    async def begin(self, fresh_id: str, lost_accepted: str | None) -> None:
        """Give both stores an id where they are new, else compare them.

        Raises `Unsuitable` with what is missing and what to do; not for a loss that was accepted by
        the id of the lost store, where the one that is there is empty.
        """
        sealed, there, _ = await self._look()
        if there.ids and sealed.store_id is None:
            # Another process started for the first time in between. It told the control store
            # first: whatever id is in the usage store is known there by now.
            sealed, there, _ = await self._look()
        known = sealed.store_id
        new_though_counted = known and not there.ids and await self._ledger.counted()
        if new_though_counted:
            # Another process may have given it its id in between, and counted.
            there = await self._holdings(self._known)
        if there.ids and known not in there.ids:
            raise Unsuitable(other_store_message(known, there.ids))
        message = missing(self._known.need, self._known.last, there)
        if not message and new_though_counted and not there.ids:
            message = "it is new and empty"
        if not message:
            self.store_id = await self._ledger.bind(known or fresh_id)
            if not there.ids:
                await self._store.name(self.store_id)
        elif known is not None and lost_accepted == known:
            await self._check_empty(known)
            self.store_id = await self._ledger.bind(fresh_id, known)
            await self._store.adopt(self.store_id)
            self._known = _Known()
        else:
            raise Unsuitable(lost_message(message, known))

    async def _check_empty(self, lost: str) -> None:
        """Raise `Unsuitable` where the store has rows of any log and time: what is counted again
        need not replace them, since the log may begin later by now.
        """
        there = await self._store.holdings(self._log, {}, {})
        left = {table: rows for table, rows in there.rows.items() if rows and table != ID_TABLE}
        if left:
            raise Unsuitable(not_empty_message(lost, left))

    def beside(self, store: UsageHoldings) -> "UsageIntegrity":
        """The same comparison, begun, by another way to the same store: who reads must not keep
        those waiting who count.
        """
        other = UsageIntegrity(self._ledger, store, self._log, self._partitions)
        other.store_id = self.store_id
        return other

    async def check(self) -> Life | None:
        """Whose life of the usage store was found whole, if that is known. Raises `StoreLost` where
        the store lacks what was counted, `Unavailable` where one of both does not answer, or a
        block lacks rows.
        """
        sealed, there, known = await self._look()
        if sealed.store_id != self.store_id:
            raise StoreLost(
                "the usage store was replaced while this process ran: start the process again"
            )
        message = missing(known.need, known.last, there)
        if there.ids != (self.store_id,):
            message = f"it has the id {', '.join(there.ids) or 'of no store'}"
        if message:
            raise StoreLost(lost_message(message, self.store_id))
        if damaged(sealed, there):  # or dropped in between, which the control store was told of
            sealed, there, _ = await self._look()
        if lacking := damaged(sealed, there):
            raise Unavailable(
                f"usage store: block {lacking[0]} has not the rows that were counted. It is made"
                " again from its slices, within minutes. Ask again then. Where minutes"
                " are not kept any more, restore the newest backup of all three stores"
            )
        return there.life

    def checked(
        self, ask: Callable[_P, Coroutine[Any, Any, _T]]
    ) -> Callable[_P, Coroutine[Any, Any, _T]]:
        """The same question to the usage store, with a `check` before its answer is given out."""

        async def answered(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            answer = await ask(*args, **kwargs)
            await self.check()
            return answer

        return answered

    def enclosed(
        self, ask: Callable[_P, Coroutine[Any, Any, _T]]
    ) -> Callable[_P, Coroutine[Any, Any, _T]]:
        """The same question with a `check` before it, too: for answers that are kept. A store that
        was empty when it was asked may be whole again when it is compared. Raises `Unavailable`
        where another life of the store was found afterwards.
        """

        async def answered(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            before = await self.check()
            answer = await ask(*args, **kwargs)
            check_same(before, await self.check())
            return answer

        return answered

    def within_one_life(
        self, ask: Callable[_P, Coroutine[Any, Any, _T]], passed_s: Callable[[], float]
    ) -> Callable[_P, Coroutine[Any, Any, _T]]:
        """The same question between two `check`s in one life of the store: so it was whole when it
        was asked. `passed_s` gives seconds of a clock that only goes on. Raises `Unavailable` where
        the store may have started again meanwhile.
        """

        async def answered(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            begun_s = passed_s()
            before = await self.check()
            answer = await ask(*args, **kwargs)
            after = await self.check()
            if not is_one_life(before, after, passed_s() - begun_s):
                raise Unavailable("usage store: it began again while it was asked: ask again")
            return answer

        return answered

    async def _look(self) -> tuple[Sealed, Holdings, _Known]:
        """The control store first: what was sealed by then must be there afterwards. What is
        missing may have been dropped in between: the control store was told before. The seals are
        those of then: other looks may go on meanwhile, and know of more.
        """
        sealed, known = await self._seals()
        there = await self._holdings(known)
        while missing(known.need, known.last, there):
            sealed, now = await self._seals()
            if now.terms == known.terms:
                break
            known, there = now, await self._holdings(now)
        return sealed, there, known

    async def _holdings(self, known: _Known) -> Holdings:
        kept = {} if known.terms is None else known.terms[0]
        after = {table: one.after for table, one in kept.items()}
        return await self._store.holdings(self._log, dict(known.last), after)

    async def _seals(self) -> tuple[Sealed, _Known]:
        """What the control store knows now, and all seals as far as they are read."""
        known = self._known
        numbers = range(max(self._partitions, max(known.last, default=0) + 1))
        after = {number: known.last.get(number, BEFORE) for number in numbers}
        sealed = await self._ledger.sealed(self._log, after)
        while sealed.terms != known.terms:
            known, after = _Known(sealed.terms), dict.fromkeys(numbers, BEFORE)
            for older in range(1, self._log):
                known.require((await self._ledger.sealed(older, {})).rows)
            sealed = await self._ledger.sealed(self._log, after)
        known.add(sealed.rows, after)
        self._known = known
        return sealed, _Known(known.terms, dict(known.last), dict(known.need))
