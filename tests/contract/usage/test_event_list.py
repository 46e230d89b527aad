"""Contract of `UsageStore` where it lists events, against an oracle that knows them all."""

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import pytest

from meterline.backends.clickhouse.bounds import EVENT_BOUNDS
from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.events.listing import EventListing
from meterline.backends.clickhouse.named_sql import QUERIES, TABLES
from meterline.backends.clickhouse.schema import create_database, missing
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.event import (
    Column,
    Condition,
    Event,
    EventQuery,
    EventSubject,
    ListedEvent,
    Op,
    Order,
    Place,
    SubjectQuery,
    Unreadable,
    Verdict,
    offset_of,
)
from meterline.problem import Problem
from meterline.usage import NO_POSITION, Flush, RejectRow
from tests.contract.usage.event_feed import (
    BEGIN_MS,
    EVERY,
    HOUR_MS,
    NASTY,
    TEXTS,
    Feed,
    event,
    expected,
    pages,
)

UPWARDS = Order(Column.TIME, descending=False)  # one look, where downwards takes four


@pytest.fixture
def feed(usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]) -> Feed:
    return Feed(usage_store, next(fresh_numbers), uuid4().hex)


def _query(feed: Feed, **more: object) -> EventQuery:
    made = EventQuery(feed.namespace, BEGIN_MS + 9 * HOUR_MS, 7, verdicts=EVERY)
    return replace(made, **more)  # type: ignore[arg-type]


async def test_every_order_lists_every_event_once(feed: Feed) -> None:
    await feed.many(40, random.Random(1))
    assert {e.verdict for e in feed.known} == EVERY
    for by in (Column.TIME, Column.INGESTED_AT, Column.STORED_AT):
        for descending in (True, False):
            query = _query(feed, order=Order(by, descending), limit=17)
            assert await pages(feed.store, query) == expected(feed, query), (by, descending)
    for verdicts in [{v} for v in Verdict] + [{Verdict.NEW, Verdict.CONFLICT}]:
        query = _query(feed, verdicts=frozenset(verdicts), limit=19)
        assert await pages(feed.store, query) == expected(feed, query)


def _conditions(rng: random.Random) -> Iterator[tuple[Column, Condition]]:
    """Conditions of every kind, on every column."""
    instants = [Op.EQ, Op.GT, Op.GTE, Op.LT, Op.LTE]
    single = [op for op in Op if op not in (Op.IN, Op.NIN, Op.AND, Op.OR)]
    for column in (Column.ID, Column.SOURCE, Column.SUBJECT, Column.TYPE):
        for op in single:
            ending = {Column.SOURCE: "s", Column.TYPE: "t"}.get(column, "")
            operand = rng.choice(TEXTS) + rng.choice([ending, "", "%", "\\"])
            yield column, Condition(op, () if op in (Op.EXISTS, Op.NEXISTS) else (operand,))
        several = (*rng.sample(TEXTS, 4), "e1", "e2", "Bobs", "BOBt")
        yield column, Condition(Op.IN, several)
        yield column, Condition(Op.NIN, several)
        parts = (Condition(Op.CONTAINS, ("o",)), Condition(Op.LIKE, ("%b%",)))
        yield column, Condition(Op.OR, parts=parts)
        yield column, Condition(Op.AND, parts=(*parts, Condition(Op.OR, parts=parts)))
    for column in (Column.TIME, Column.INGESTED_AT, Column.STORED_AT):
        for comparison in instants:
            yield column, Condition(comparison, (BEGIN_MS + rng.randrange(0, 50) * 60_000,))


async def test_conditions_mean_what_they_say(feed: Feed) -> None:
    rng = random.Random(2)
    await feed.many(40, rng)
    met = 0
    for condition in _conditions(rng):
        query = _query(feed, conditions=(condition,), limit=100, order=UPWARDS)
        want = expected(feed, query)
        met += 0 < len(want) < len(feed.known)
        assert await pages(feed.store, query) == want, condition
    assert met > 25, "most conditions must tell events apart"


async def test_texts_are_compared_by_code_points_and_without_case(feed: Feed) -> None:
    rng = random.Random(3)
    await feed.many(40, rng)
    for op in (Op.GT, Op.LTE, Op.CONTAINS, Op.LIKE, Op.ILIKE):
        for operand in ("zo", "ZOË", "Bob", NASTY, "%\\%", "\\", "_o_%"):
            condition = Condition(op, (operand,))
            conditions = ((Column.SUBJECT, condition),)
            query = _query(feed, conditions=conditions, limit=100, order=UPWARDS)
            assert await pages(feed.store, query) == expected(feed, query), (op, operand)


async def test_what_comes_in_between_moves_nothing(feed: Feed) -> None:
    rng = random.Random(4)
    await feed.many(30, rng)
    for descending in (True, False):
        query = _query(feed, order=Order(Column.TIME, descending), limit=4)
        before = set(expected(feed, query))
        found = []
        after: Place | None = None
        for number in range(1_000, 2_000):
            page = await feed.store.listed_events(replace(query, after=after))
            found += page
            if len(page) < query.limit:
                break
            after = page[-1].place_by(query.order)
            late = event(feed.namespace, number + 1_000 * descending, rng)
            await feed.add([late], BEGIN_MS + number * 60_000, late.key[0] % 2)
        assert [e for e in found if e in before] == [
            e for e in expected(feed, query) if e in before
        ]
        assert len(found) == len(set(found))


async def test_namespaces_are_walls_and_what_is_nobodys_is_shown_on_request(feed: Feed) -> None:
    rng = random.Random(5)
    other = uuid4().hex
    items: list[Event | Unreadable] = [
        event(feed.namespace, 1, rng),
        event(other, 1, rng),
        Unreadable(2, "id", "is empty", b"{}", other, "topic", "3/4"),
        Unreadable(3, "", "not JSON", b"\xff{"),
    ]
    await feed.add(items, BEGIN_MS, 0)
    mine, theirs, refused, broken = feed.known
    query = _query(feed)
    assert await pages(feed.store, query) == [mine]
    here = (Column.STORED_AT, Condition(Op.EQ, (BEGIN_MS,)))
    nobodys = await pages(feed.store, replace(query, unowned=True, conditions=(here,), limit=100))
    ours = [e for e in nobodys if e.log == feed.log]
    assert ours == [broken._replace(text="�{".encode()), mine]
    assert {e.namespace for e in nobodys} == {"", feed.namespace}
    assert await pages(feed.store, replace(query, namespace=other)) == [refused, theirs]
    assert (refused.source, refused.id) == ("topic", "3/4")


async def test_duplicates_and_conflicts_name_the_first(feed: Feed) -> None:
    rng = random.Random(6)
    await feed.many(30, rng)
    news = {(e.partition, e.offset, e.place): e for e in feed.known if e.verdict is Verdict.NEW}
    query = _query(feed, verdicts=frozenset({Verdict.DUPLICATE, Verdict.CONFLICT}), limit=100)
    listed = await pages(feed.store, query)
    assert {e.verdict for e in listed} == query.verdicts
    positions = [(e.log, e.partition, offset_of(e.first), e.first & 1023) for e in listed]
    firsts = await feed.store.new_events([*positions, (feed.log, 0, 10**9, 0)])
    assert {e[:4] for e in firsts} == set(positions)
    for one in listed:
        first = news[one.partition, offset_of(one.first), one.first & 1023]
        assert (first.id, first.source) == (one.id, one.source)
        assert first in firsts
    assert await feed.store.new_events([]) == []


async def test_a_list_begins_anywhere(feed: Feed) -> None:
    await feed.many(20, random.Random(7))
    for now_ms in (0, BEGIN_MS - 1, BEGIN_MS + HOUR_MS, BEGIN_MS * 2):
        query = _query(feed, now_ms=now_ms)
        assert await pages(feed.store, query) == expected(feed, query), now_ms


@pytest.mark.parametrize("url", ["chdb_url", "clickhouse"])
async def test_more_copies_of_rows_than_expected_hide_nothing(
    request: pytest.FixtureRequest, url: str, fresh_numbers: Iterator[int]
) -> None:
    connection = Connection(request.getfixturevalue(url))
    store = ClickHouseUsageStore(connection)
    await store.create_tables()
    feed = Feed(store, next(fresh_numbers), uuid4().hex)
    await feed.many(10, random.Random(9))
    listing = EventListing(connection, spare_rows=0)
    for limit in (1, 3, 8):
        query = _query(feed, limit=limit, order=UPWARDS)
        assert await listing.page(query) == expected(feed, query)[:limit]
    await connection.close()


@pytest.mark.parametrize("url", ["chdb_url", "clickhouse"])
async def test_a_search_beyond_its_bounds_is_refused_with_words(
    request: pytest.FixtureRequest, url: str, fresh_numbers: Iterator[int]
) -> None:
    connection = Connection(request.getfixturevalue(url))
    store = ClickHouseUsageStore(connection)
    await store.create_tables()
    feed = Feed(store, next(fresh_numbers), uuid4().hex)
    await feed.many(20, random.Random(8))
    listing = EventListing(connection, {**EVENT_BOUNDS, "max_rows_to_read": 1})
    with pytest.raises(Problem, match="add a filter on stored_at or time") as raised:
        await listing.page(_query(feed))
    assert raised.value.type.status == 400
    await connection.close()


def _before(name: str) -> str:
    """The statement that makes a table as it was before the listing of events."""
    statement = re.sub(r" CODEC\((?:[^()]|\([^()]*\))*\)", "", TABLES[name])
    statement = statement.replace("toMonday(", "toYYYYMM(")
    statement = re.sub(r",\s*INDEX by_(append|recorded|id) [^,\n]*GRANULARITY 1", "", statement)
    if name == "rejects":
        statement = re.sub(
            r" type String,\s+subject String, source String, id String,", "", statement
        )
        statement = statement.replace("time_ms Int64, recorded_ms Int64, ", "")
        statement = statement.replace(" first Int64,", "")
        statement = re.sub(r",\s*INDEX by_\w+ [^,\n]*GRANULARITY 1", "", statement)
    return statement


async def test_tables_of_the_version_before_get_what_they_lack(clickhouse: str) -> None:
    old, new = (f"{clickhouse}/made{uuid4().hex[:8]}" for _ in range(2))
    for url in (old, new):
        await create_database(url)
    connection = Connection(old)
    for name in ("events", "rejects"):
        await connection.execute(_before(name))
    text = b'{"type":"t","subject":"x","source":"s","id":"a","namespace":"n"}'
    columns = ["log", "partition", "offset", "place", "slice", "append_ms", "kind", "namespace"]
    columns += ["key", "field", "reason", "text"]
    row = (1, 0, 5, 2, 5, BEGIN_MS, "conflict", "n", bytes(16), "id", "came before", text)
    await connection.insert("rejects", columns, [row])
    stores = [ClickHouseUsageStore(connection), ClickHouseUsageStore(Connection(new))]
    for store in stores:
        await store.create_tables()
        rows = await store.connection.query(QUERIES["schema"], {})
        assert missing(rows) == [], "the next start alters nothing"
    query = EventQuery("n", BEGIN_MS, 5, verdicts=frozenset({Verdict.CONFLICT}))
    (found,) = await stores[0].listed_events(query)
    assert found == ListedEvent(
        1, 0, 5, 2, BEGIN_MS, "n", "t", "x", "s", "a", BEGIN_MS, BEGIN_MS, text,
        Verdict.CONFLICT, NO_POSITION, "id", "came before",
    )  # fmt: skip
    fresh = RejectRow(
        1, 0, 6, 0, 5, BEGIN_MS, bytes(16), "n", "t", "x", "s", "b", 1, 2, b"{}", "duplicate", 4,
        "", "",
    )  # fmt: skip
    for store in stores:
        await store.write(Flush(rejects=[fresh]))
        query = replace(query, verdicts=frozenset({Verdict.DUPLICATE}))
        assert [e.first for e in await store.listed_events(query)] == [4]
    assert await _made(old) == await _made(new)
    for store in stores:
        await store.close()


async def _made(url: str) -> set[tuple[object, ...]]:
    """Columns and indexes of a store, whatever their order and defaults."""
    connection = Connection(url)
    columns = "SELECT table, name, type FROM system.columns WHERE database = currentDatabase()"
    indexes = (
        "SELECT table, name, expr || type FROM system.data_skipping_indices"
        " WHERE database = currentDatabase()"
    )
    found = {tuple(row) for sql in (columns, indexes) for row in await connection.query(sql, {})}
    await connection.close()
    assert len(found) > 60
    return found


def _subjects(events: list[ListedEvent]) -> list[EventSubject]:
    """An oracle: of all these events."""
    times: dict[str, list[int]] = {}
    for one in events:
        times.setdefault(one.subject, []).append(one.time_ms)
    return [EventSubject(name, min(at), max(at)) for name, at in sorted(times.items())]


async def test_subjects_are_those_of_new_events_that_meet_the_conditions(
    feed: Feed, fresh_numbers: Iterator[int]
) -> None:
    rng = random.Random(5)
    await feed.many(40, rng)
    await Feed(feed.store, next(fresh_numbers), uuid4().hex).many(5, rng)  # of somebody else
    new = frozenset({Verdict.NEW})
    listed: list[tuple[tuple[Column, Condition], ...]] = [()]
    listed += [(one,) for one in _conditions(rng) if rng.random() < 0.3]
    for conditions in listed:
        wanted = _subjects(
            expected(feed, _query(feed, limit=1_000, verdicts=new, conditions=conditions))
        )
        query = SubjectQuery(feed.namespace, 1_000, conditions)
        assert await feed.store.event_subjects(query) == wanted, conditions
        if len(wanted) > 2:
            page = replace(query, after=wanted[0].subject, limit=1)
            assert await feed.store.event_subjects(page) == wanted[1:2]


async def test_subjects_of_too_many_events_are_refused(feed: Feed) -> None:
    await feed.many(20, random.Random(3))
    tight = EventListing(feed.store.connection, {**EVENT_BOUNDS, "max_rows_to_read": 5})
    with pytest.raises(Problem, match="filter on stored_at"):
        await tight.subjects(SubjectQuery(feed.namespace, 7))
