"""All tables of a control store at one moment, out and in: what archives are made of."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    Boolean,
    LargeBinary,
    Table,
    case,
    column,
    func,
    insert,
    inspect,
    literal,
    select,
    tuple_,
    union_all,
    update,
)
from sqlalchemy import table as named_table
from sqlalchemy.types import NullType, TypeEngine

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.tables import (  # noqa: F401 - all tables, on one metadata
    access,
    blocks,
    erasures,
    meters,
    redrives,
    reports,
    retention,
)
from meterline.backends.control_store.tables.columns import metadata
from meterline.limits import ARCHIVE_BODIES, ARCHIVE_ROWS

Columns = Sequence[tuple[str, str]]
Page = Callable[[str, Columns, Sequence[Sequence[Any]]], None]
# What is true of this moment only: how far an open slice is written, who is signed in. And on which
# server partitions are: rows are put where there is room, and found there.
_NOT_KEPT: Final = frozenset({"completeness", "flushed", "sessions", "usage_shards"})
# A store with rows in one of these was used.
_USED: Final = (
    meters.logs,
    meters.meters,
    meters.seals,
    meters.usage_store,
    reports.reports,
    access.api_keys,
    access.subjects,
)
_KINDS: Final[Mapping[str, type[TypeEngine[Any]]]] = {
    "bytes": LargeBinary,
    "boolean": Boolean,
    "plain": NullType,
}


class Moment(NamedTuple):
    """What a control store says at one moment: of the log that is counted its number and, by
    partition, the end of what is sealed; the newest revision; the id of the usage store.
    """

    log: int
    sealed: Mapping[int, int]
    revision: int
    usage_id: str | None
    blocks: Sequence[int]  # that are read: the rows of others are in larger ones, or not whole
    erasures: "Erasing"
    minutes: frozenset[tuple[str, str]] = frozenset()  # periods whose drop began, by table and name


class Erasing(NamedTuple):
    """Erasures: all that were ever asked for, and those that may be rewriting rows."""

    all: int
    under_way: int


async def read_all(connection: Connection, page: Page) -> None:
    """Give every row of every table to `page`, tables that others refer to first. Of each table
    there is at least one page. They are of one moment where the connection reads so
    (`Database.read_moment`).
    """
    for table in metadata.sorted_tables:
        name = str(table.name)  # a plain text, without rules of quoting
        columns = [(str(one.name), _kind(one.type)) for one in table.columns]
        page(name, columns, [])
        if name not in _NOT_KEPT:
            await _pages(connection, table, partial(page, name, columns))


async def _pages(
    connection: Connection, table: Table, page: Callable[[Sequence[Sequence[Any]]], None]
) -> None:
    keys = list(table.primary_key.columns)
    places = [list(table.columns).index(one) for one in keys]
    question = select(table).order_by(*keys).limit(_rows_at_once(table.name))
    asked = question
    while rows := (await connection.execute(asked)).all():
        page(rows)
        last = [literal(rows[-1][at], key.type) for at, key in zip(places, keys, strict=True)]
        asked = question.where(tuple_(*keys) > tuple_(*last))


async def moment(connection: Connection, log: int) -> Moment:
    """What the archive of that moment must hold; in the transaction of `read_all`, behind it."""
    ends = union_all(
        *(
            select(of.c.partition, of.c.offset_end).where(of.c.log == log)
            for of in (meters.seals, meters.seal_sums)
        )
    ).subquery()
    grouped = select(ends.c.partition, func.max(ends.c.offset_end)).group_by(ends.c.partition)
    sealed = {int(partition): int(end) for partition, end in await connection.execute(grouped)}
    newest = select(func.coalesce(func.max(meters.catalogue_version.c.version), 0))
    revision = (await connection.execute(newest)).scalar_one()
    usage_id = (await connection.execute(select(meters.usage_store.c.id))).scalar_one_or_none()
    return Moment(
        log,
        sealed,
        int(revision),
        usage_id,
        await blocks_in(connection, "readable"),
        await erasing(connection),
        await minutes_begun(connection),
    )


async def blocks_in(connection: Connection, *states: str) -> list[int]:
    """The blocks that are in one of these states."""
    of = blocks.blocks
    rows = select(of.c.number).where(of.c.state.in_(states))
    return [int(one) for one in (await connection.execute(rows.order_by(of.c.number))).scalars()]


async def kept_blocks(connection: Connection) -> list[int]:
    """The blocks whose rows are counted, and not dropped."""
    return await blocks_in(connection, "readable", "replaced")


async def minutes_begun(connection: Connection) -> frozenset[tuple[str, str]]:
    """The periods of usage by minute whose drop has begun. Each is recorded before it begins."""
    of = retention.retention_notices
    rows = select(of.c.table_name, of.c.period).where(of.c.begun_at_ms.is_not(None))
    return frozenset((str(one), str(name)) for one, name in await connection.execute(rows))


async def erasing(connection: Connection) -> Erasing:
    """How many erasures there are."""
    of = erasures.erasures
    under_way = of.c.state.in_(("asked", "copying", "switched"))
    question = select(func.count(), func.count().filter(under_way)).select_from(of)
    return Erasing(*map(int, (await connection.execute(question)).one()))


async def is_used(connection: Connection) -> bool:
    """Whether anything was put into this store since it was made."""
    for one in _USED:
        if (await connection.execute(select(literal(1)).select_from(one).limit(1))).first():
            return True
    return False


async def clear(connection: Connection) -> None:
    """Remove what migrations have put in. The store may be at an older one: it lacks tables."""
    there = set(await connection.run_sync(lambda it: inspect(it).get_table_names()))
    for one in reversed(metadata.sorted_tables):
        if one.name in there:
            await connection.execute(one.delete())


async def put(
    connection: Connection, name: str, columns: Columns, rows: Iterable[Sequence[Any]]
) -> None:
    """Put rows into a table, as `read_all` gave them. Columns may be those of an older build."""
    into = named_table(name, *(column(one, _KINDS[kind]()) for one, kind in columns))
    names = [one for one, _ in columns]
    left = iter(rows)
    while some := list(islice(left, _rows_at_once(name))):
        await connection.execute(insert(into), [dict(zip(names, row, strict=True)) for row in some])


async def become(
    connection: Connection, number: int, log_id: str, firsts: str | None, usage_id: str
) -> None:
    """A log goes on as another one: with its number, and offsets that begin at `firsts`. So does
    the usage store, which has no rows of blocks that were replaced.
    """
    of, all_ = meters.logs, blocks.blocks
    for change in (
        update(of).where(of.c.number == number).values(id=log_id, firsts=firsts),
        update(meters.usage_store).values(id=usage_id),
        update(all_).where(all_.c.state == "replaced").values(state="gone"),
    ):
        await connection.execute(change)


async def pause_reports(connection: Connection, reason: str) -> int:
    """Pause every report that is not paused: how many there were. What was said of its state
    before is said behind the reason.
    """
    of = reports.reports
    live = of.c.deleted_at_ms.is_(None), of.c.state != "paused"
    before = of.c.state_reason
    why = case((before == "", reason), else_=literal(f"{reason}. Before: ") + before)
    values = {"state": "paused", "state_reason": why}
    return int((await connection.execute(update(of).where(*live).values(values))).rowcount)


def _rows_at_once(table: str) -> int:
    return ARCHIVE_BODIES if table == reports.report_bodies.name else ARCHIVE_ROWS


def _kind(type_: TypeEngine[Any]) -> str:
    if isinstance(type_, LargeBinary):
        return "bytes"
    return "boolean" if isinstance(type_, Boolean) else "plain"
