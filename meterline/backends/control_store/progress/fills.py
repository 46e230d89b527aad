"""What is filled in next, what was filled, and how far that is. Functions over a connection of one
transaction.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import BigInteger, Select, and_, bindparam, delete, func, or_, select, update

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import insert, put
from meterline.backends.control_store.meters.kept_events import notices
from meterline.backends.control_store.progress import filling
from meterline.backends.control_store.progress.erasures import begun_in
from meterline.backends.control_store.tables.meters import (
    fill_bounds,
    fill_marks,
    fill_progress,
    meter_revisions,
    meters,
    seals,
)
from meterline.usage import (
    Erasure,
    ErasureState,
    Filling,
    Lacking,
    Seal,
    SliceId,
    counted_from,
    erased_from,
)

_Pairs = dict[int, tuple[int, ...]]  # by slice, the revisions that lack it


async def lacking(
    connection: Connection, log: int, partition: int, revisions: Sequence[int], limit: int
) -> list[Lacking]:
    """See `ProgressStore.lacking`."""
    erasures = await _erasures(connection, revisions)
    withheld = {it.namespace for it, _ in erasures if it.state is ErasureState.COPYING}
    copied = {number for it, numbers in erasures if it.namespace in withheld for number in numbers}
    ended = await _ended(connection, revisions)  # behind what is erased: see there
    asked = sorted(set(revisions) - copied - ended)
    for oldest in asked:
        question = filling.unfilled(log, partition, oldest).order_by(seals.c.slice).limit(limit)
        found = [Seal._make(row) for row in await connection.execute(question)]
        if found:
            break
    else:
        return []
    pairs = await _pairs(connection, log, partition, found, asked)
    known = await notices(connection)
    since_ms = {revision: counted_from(known, revision) for revision in asked}
    latest_ms = max(since_ms.values())

    def counting(seal: Seal) -> tuple[int, ...]:
        lacked = pairs[seal.slice]
        if not seal.events:
            return ()
        if seal.append_ms >= latest_ms:
            return lacked
        return tuple(it for it in lacked if seal.append_ms >= since_ms[it])

    erased = _erased_by([it for it, _ in erasures], log, partition)
    return [
        Lacking(
            seal,
            pairs[seal.slice],
            counting(seal),
            erased(seal.slice),
        )
        for seal in found
        if pairs[seal.slice]  # somebody else may have filled it since it was found
    ]


async def mark(
    connection: Connection,
    log: int,
    partition: int,
    slices: Sequence[int],
    revisions: Sequence[int],
    now_ms: int,
) -> None:
    """See `ProgressStore.mark_filled`. Under the lock of the log."""
    those = (seals.c.log == log, seals.c.partition == partition, seals.c.slice.in_(slices))
    question = select(seals).where(*those).order_by(seals.c.slice)
    found = [Seal._make(row) for row in await connection.execute(question)]
    pairs = await _pairs(connection, log, partition, found, revisions)
    filled: _Pairs = {}  # by revision, the slices that it lacked until now, in order
    for revision in revisions:
        lacked = tuple(seal.slice for seal in found if revision in pairs[seal.slice])
        if lacked:
            filled[revision] = lacked
    await _advance(connection, log, partition, filled)
    events = sum(seal.events * len(pairs[seal.slice]) for seal in found)
    await _note(connection, log, partition, sum(map(len, pairs.values())), events, now_ms)


async def begin(
    connection: Connection, log: int, partition: int, revisions: Sequence[int], now_ms: int
) -> None:
    """See `ProgressStore.begin_filling`."""
    slices, events = await _left(connection, log, partition, revisions)
    there = await _one(connection, log, partition)
    if not slices and (there is None or not there.slices_left):
        return
    if there is None or not there.slices_left:
        there = Filling(partition, now_ms, now_ms, 0, 0, 0, 0)
    one = there._replace(slices_left=slices, events_left=events)
    await put(connection, fill_progress, [{"log": log, **one._asdict()}])


async def fillings(connection: Connection, log: int) -> list[Filling]:
    """See `ProgressStore.fillings`."""
    columns = [fill_progress.c[name] for name in Filling._fields]
    question = select(*columns).where(fill_progress.c.log == log)
    rows = await connection.execute(question.order_by(fill_progress.c.partition))
    return [Filling._make(row) for row in rows]


async def _erasures(
    connection: Connection, revisions: Sequence[int]
) -> list[tuple[Erasure, Sequence[int]]]:
    """The erasures that have begun and are not done, of namespaces of these revisions, the oldest
    first, each with those of its namespace.
    """
    begun = await begun_in(connection)
    if not begun:
        return []
    namespaces = {one.namespace for one in begun}
    question = (
        select(meters.c.namespace, meter_revisions.c.revision)
        .join(meter_revisions, meters.c.id == meter_revisions.c.meter_id)
        .where(meters.c.namespace.in_(namespaces), meter_revisions.c.revision.in_(revisions))
    )
    of: dict[str, list[int]] = {}
    for row in await connection.execute(question):
        of.setdefault(row.namespace, []).append(row.revision)
    return [(one, of[one.namespace]) for one in begun if one.namespace in of]


async def _ended(connection: Connection, revisions: Sequence[int]) -> set[int]:
    """Those of these revisions that left the catalogue. An erasure copies their rows without
    waiting until they are filled in: whoever is told that subjects are erased fills none of them.
    """
    left = or_(meter_revisions.c.left_at_ms.is_not(None), meters.c.deleted_at_ms.is_not(None))
    question = (
        select(meter_revisions.c.revision)
        .join(meters, meters.c.id == meter_revisions.c.meter_id)
        .where(meter_revisions.c.revision.in_(revisions), left)
    )
    return set((await connection.execute(question)).scalars())


def _erased_by(
    erasures: Sequence[Erasure], log: int, partition: int
) -> Callable[[int], tuple[tuple[str, str, str], ...]]:
    """What tells of a slice, as `Lacking` says it: one answer for all between two borders of these
    erasures.
    """
    ends = {it.get(partition, 0) for one in erasures for it in (one.firsts, one.ends)}
    borders, known = sorted(ends), dict[int, tuple[tuple[str, str, str], ...]]()

    def erased(slice_: int) -> tuple[tuple[str, str, str], ...]:
        place = bisect_right(borders, slice_)
        if place not in known:
            known[place] = _erased(erasures, SliceId(log, partition, slice_))
        return known[place]

    return erased


def _erased(erasures: Sequence[Erasure], slice_id: SliceId) -> tuple[tuple[str, str, str], ...]:
    """As `Lacking` says it."""
    by_namespace: dict[str, list[Erasure]] = {}
    for one in erasures:
        by_namespace.setdefault(one.namespace, []).append(one)
    return tuple(
        (namespace, subject, pseudonym)
        for namespace, those in sorted(by_namespace.items())
        for subject, pseudonym in sorted(erased_from(those, slice_id).items())
    )


async def _pairs(
    connection: Connection,
    log: int,
    partition: int,
    found: Sequence[Seal],
    revisions: Sequence[int],
) -> _Pairs:
    """By slice, those of the revisions (ascending) that it is not counted for."""
    if not found or not revisions:
        return {seal.slice: () for seal in found}
    own = fill_bounds.c
    bounds = await connection.execute(
        select(own.revision, own.filled_end).where(
            own.log == log, own.partition == partition, own.revision.in_(revisions)
        )
    )
    ends: Mapping[int, int] = {row.revision: row.filled_end for row in bounds}
    slices = [seal.slice for seal in found]
    of = fill_marks.c
    marked = await connection.execute(
        select(of.slice, of.revision).where(
            of.log == log,
            of.partition == partition,
            of.revision.in_(revisions),
            of.slice >= min(slices),
            of.slice <= max(slices),
        )
    )
    marks: dict[int, set[int]] = {}
    for row in marked:
        marks.setdefault(row.slice, set()).add(row.revision)
    all_, behind = tuple(sorted(revisions)), max(ends.values(), default=0)

    def lack(seal: Seal) -> tuple[int, ...]:
        there = marks.get(seal.slice, ())
        if not there and seal.slice >= behind and seal.catalogue < all_[0]:
            return all_  # of almost all slices
        return tuple(
            revision
            for revision in all_
            if seal.catalogue < revision
            and seal.slice >= ends.get(revision, 0)
            and revision not in there
        )

    return {seal.slice: lack(seal) for seal in found}


async def _advance(
    connection: Connection, log: int, partition: int, filled: Mapping[int, tuple[int, ...]]
) -> None:
    """By revision, slices in order that are filled and were not: its bound moves to the first that
    still is not. What lies behind that is marked.
    """
    ends: dict[int, int] = {}
    for revision, slices in filled.items():
        ends[revision] = await _unfilled_beside(connection, log, partition, revision, slices)
    if not ends:
        return
    mine = {"log": log, "partition": partition}
    bounds = [{**mine, "revision": it, "filled_end": end} for it, end in ends.items()]
    await put(connection, fill_bounds, bounds)
    for revision, end in ends.items():
        row = {**mine, "revision": revision}
        behind = [{**row, "slice": slice_} for slice_ in filled[revision] if slice_ > end]
        if behind:
            # row by row: a statement with all of them in it takes as long to put together as a step
            marks = insert(connection, fill_marks).on_conflict_do_nothing()
            await connection.execute(marks, behind)
        of = fill_marks.c
        those = (of.log == log, of.partition == partition, of.revision == revision)
        await connection.execute(delete(fill_marks).where(*those, of.slice < end))


async def _unfilled_beside(
    connection: Connection, log: int, partition: int, revision: int, filled: Sequence[int]
) -> int:
    """The first slice that a revision lacks beside these, in order, all of which it lacks."""
    asked = {"log": log, "partition": partition, "revision": revision}
    asked |= {"first": filled[0], "last": filled[-1], "most": len(filled) + 1}
    row = (await connection.execute(_AMONG, asked)).one()
    if row.first is not None and row.first < filled[0]:
        return int(row.first)
    if row.those <= len(filled):
        return filling.ALL if row.behind is None else int(row.behind)
    question = filling.unfilled(log, partition, revision).where(seals.c.slice.not_in(filled))
    found = await connection.execute(question.order_by(seals.c.slice).limit(1))
    first = found.one_or_none()
    return filling.ALL if first is None else Seal._make(first).slice


def _among() -> Select[Any]:
    """Of the slices that a revision lacks: the first one, how many there are from `first` to
    `last`, up to `most`, and the first one behind.
    """
    log, partition, revision, first, last, most = (
        bindparam(name, type_=BigInteger)
        for name in ("log", "partition", "revision", "first", "last", "most")
    )
    lacked = filling.unfilled(log, partition, revision).with_only_columns(seals.c.slice)
    of = seals.c.slice
    those = lacked.where(of >= first, of <= last).limit(most).subquery()
    return select(
        lacked.order_by(of).limit(1).scalar_subquery().label("first"),
        select(func.count()).select_from(those).scalar_subquery().label("those"),
        lacked.where(of > last).order_by(of).limit(1).scalar_subquery().label("behind"),
    )


_AMONG: Final = _among()  # asked for each revision: to put it together takes longer than to answer


async def _left(
    connection: Connection, log: int, partition: int, revisions: Sequence[int]
) -> tuple[int, int]:
    """How many slices these revisions lack, and events in them: seals are read once for each bound,
    not for each revision.
    """
    if not revisions:
        return 0, 0
    own, of, it = fill_bounds.c, fill_marks.c, seals.c
    question = select(own.revision, own.filled_end).where(
        own.log == log, own.partition == partition, own.revision.in_(revisions)
    )
    ends = {row.revision: row.filled_end for row in await connection.execute(question)}
    slices = events = 0
    for end in sorted({ends.get(revision, 0) for revision in revisions}):
        mine = [revision for revision in revisions if ends.get(revision, 0) == end]
        by_catalogue = await connection.execute(
            select(it.catalogue, func.count(), func.sum(it.events))
            .where(it.log == log, it.partition == partition, it.slice >= end)
            .where(it.catalogue < max(mine))
            .group_by(it.catalogue)
        )
        for catalogue, count, total in by_catalogue:
            times = sum(catalogue < revision for revision in mine)
            slices, events = slices + times * count, events + times * int(total)
    same = and_(it.log == of.log, it.partition == of.partition, it.slice == of.slice)
    marked = (
        select(func.count(), func.coalesce(func.sum(it.events), 0))
        .select_from(fill_marks.join(seals, same))
        .where(of.log == log, of.partition == partition, of.revision.in_(revisions))
        .where(it.catalogue < of.revision)
    )
    count, total = (await connection.execute(marked)).one()
    return slices - count, events - int(total)


async def _one(connection: Connection, log: int, partition: int) -> Filling | None:
    return next((it for it in await fillings(connection, log) if it.partition == partition), None)


async def _note(
    connection: Connection, log: int, partition: int, slices: int, events: int, now_ms: int
) -> None:
    """So much more was filled in, of what there is known to be."""
    there = await _one(connection, log, partition)
    if there is None:
        return
    one = there._replace(
        seen_ms=max(there.seen_ms, now_ms),
        slices_filled=there.slices_filled + slices,
        slices_left=max(0, there.slices_left - slices),
        events_filled=there.events_filled + events,
        events_left=max(0, there.events_left - events),
    )
    mine = fill_progress.c.log == log, fill_progress.c.partition == partition
    await connection.execute(update(fill_progress).where(*mine).values(one._asdict()))
