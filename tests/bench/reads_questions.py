"""The questions of the benchmark of reading: over HTTP, as a report asks, and of raw events."""

import asyncio
import http.client
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlsplit

from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.clickhouse.usage.snapshot import BlockSnapshot
from meterline.backends.control_store.engine import open_database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.progress.blocks import SqlBlockLedger
from meterline.limits import RUN_ROWS_READ
from meterline.usage import Comparison, Condition, UsageQuery
from meterline.window import DAY_MS, rfc3339
from tests.bench.reads_fill import BEGIN_MS, Shape

TIMES: Final = 100  # that each question is asked
RAW_TIMES: Final = 3
YEAR_DAYS: Final = 300  # from so many on, months are asked for
REPORT_BELOW: Final = "customer-46"  # of a million subjects a day has 240,000; 100,000 lie below it
_VALUE: Final = "sum(toDecimal128(JSONExtractFloat(data, 'tokens'), 9))"
_GROUPS: Final = "JSONExtractString(data, 'path') AS p, JSONExtractString(data, 'region') AS r, "
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Question:
    """`parameters` of a v1 query and the same in SQL over raw events, both by turn. No two turns
    ask the same of us: a group that there is not is in the filter of each. `target_ms` is what the
    median should be at most.
    """

    name: str
    target_ms: int
    parameters: Callable[[int], dict[str, str | list[str]]]
    raw: Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Timed:
    """Milliseconds of one question."""

    median: float
    p99: float


def questions(shape: Shape) -> list[Question]:
    """Those of the table that a store of this shape answers."""
    end_ms = BEGIN_MS + shape.days * DAY_MS

    def whole(turn: int) -> Span:
        return BEGIN_MS + turn % 3 * DAY_MS, end_ms

    def day(turn: int) -> Span:
        first_ms = BEGIN_MS + (1 + turn % (shape.days - 2)) * DAY_MS
        return first_ms, first_ms + DAY_MS

    def one(turn: int) -> str:
        return f"customer-{(7 + turn * 31) % shape.subjects}"

    large = shape.events > 50_000_000
    year = shape.days >= YEAR_DAYS
    window, start = ("MONTH", "toStartOfMonth") if year else ("DAY", "toStartOfDay")
    name = f"one of {shape.subjects:,} subjects, {shape.days} days by {window.lower()}"
    found = [
        Question(
            name if year else f"a {name}",
            15 if year else 10,
            lambda turn: _asked(whole(turn), subject=one(turn), windowSize=window),
            lambda turn: _raw(
                f"{start}(time) AS w, ", whole(turn), "w", f" AND subject = '{one(turn)}'"
            ),
        )
    ]
    if year:
        return found
    return [
        *found,
        Question(
            f"b {shape.subjects:,} subjects, one day, by subject",
            15,
            lambda turn: _asked(day(turn), groupBy="subject"),
            lambda turn: _raw("subject, ", day(turn), "subject"),
        ),
        Question(
            f"c {shape.days} days by hour",
            40 if large else 30,
            lambda turn: _asked(whole(turn), windowSize="HOUR"),
            lambda turn: _raw("toStartOfHour(time) AS w, ", whole(turn), "w"),
        ),
        Question(
            f"d {shape.days} days, total by two groups",
            30 if large else 20,
            lambda turn: _asked(whole(turn), groupBy=["path", "region"]),
            lambda turn: _raw(_GROUPS, whole(turn), "p, r"),
        ),
    ]


def _asked(span: Span, **parameters: str | list[str]) -> dict[str, str | list[str]]:
    return {"from": rfc3339(span[0]), "to": rfc3339(span[1]), **parameters}


def _raw(what: str, span: Span, by: str, more: str = "") -> str:
    ends = [rfc3339(ms).replace("T", " ").replace("Z", "") for ms in span]
    first, end = (f"toDateTime64('{text}', 3, 'UTC')" for text in ends)
    return (
        f"SELECT {what}{_VALUE} FROM raw WHERE namespace = 'default' AND type = 'request'"
        f" AND time >= {first} AND time < {end}{more} GROUP BY {by}"
    )


def timed(act: Callable[[int], object], times: int = TIMES) -> Timed:
    """By turns, behind a few that are not counted."""
    took = []
    warm = min(5, times)
    for turn in range(times + warm):
        begun = time.perf_counter()
        act(turn)
        if turn >= warm:
            took.append((time.perf_counter() - begun) * 1_000)
    took.sort()
    return Timed(statistics.median(took), took[min(len(took) - 1, int(len(took) * 0.99))])


def over_http(url: str, question: Question) -> Callable[[int], bytes]:
    """A query over one connection that is kept; all of its answer is read."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=600)

    def act(turn: int) -> bytes:
        connection.request("GET", path_of(question, turn))
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body[:1_000]
        return body

    return act


def path_of(question: Question, turn: int) -> str:
    """Path and query of one turn."""
    pairs = [*_pairs(question.parameters(turn))]
    regions = ("region-0", "region-1", "region-2", f"none-{turn}")
    pairs += [f"filterGroupBy[region]={region}" for region in regions]
    return f"/api/v1/meters/tokens/query?{'&'.join(pairs)}"


def _pairs(parameters: dict[str, str | list[str]]) -> Iterator[str]:
    for name, given in parameters.items():
        for value in [given] if isinstance(given, str) else given:
            yield f"{name}={quote(value)}"


def of_raw(store: str, question: Question) -> Callable[[int], bytes]:
    """The same question of raw events, over the store's own HTTP interface."""
    return raw_asked(store, question.raw)


def raw_asked(store: str, sql: Callable[[int], str]) -> Callable[[int], bytes]:
    """A statement over the store's own HTTP interface."""
    parts = urlsplit(store)
    connection = http.client.HTTPConnection(parts.netloc, timeout=600)

    def act(turn: int) -> bytes:
        path = f"/?database={parts.path.strip('/')}"
        connection.request("POST", path, sql(turn).encode())
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body[:1_000]
        return body

    return act


def report_raw(shape: Shape) -> str:
    """What a report asks for, of raw events."""
    more = f" AND subject < '{REPORT_BELOW}'" if _is_large(shape) else ""
    return _raw("subject, ", _report_day(shape), "subject", more)


def report(store: str, control: str, shape: Shape) -> tuple[int, Timed]:
    """How long the usage of one day of a report takes to be read, statement and rows, and how many
    rows there are.
    """
    return asyncio.run(_reported(store, control, shape))


async def _reported(store: str, control: str, shape: Shape) -> tuple[int, Timed]:
    database = open_database(f"sqlite:///{control}")
    usage = ClickHouseUsageStore(Connection(store))
    usage.read_blocks(BlockSnapshot(SqlBlockLedger(database), 1))
    meter = await SqlCatalogueStore(database).meter("default", "tokens")
    assert meter is not None, "it was made"
    few = (Condition(Comparison.LT, (REPORT_BELOW,)),) if _is_large(shape) else ()
    query = UsageQuery(meter, *_report_day(shape), group_by=("subject",), subjects=few)
    took, count = [], 0
    for _ in range(6):
        begun, count = time.perf_counter(), 0
        async for rows in usage.usage_by_subject(query, RUN_ROWS_READ):
            count += len(rows)
        took.append((time.perf_counter() - begun) * 1_000)
    await usage.close()
    await database.close()
    took = sorted(took[1:])
    return count, Timed(statistics.median(took), took[-1])


def _report_day(shape: Shape) -> Span:
    end_ms = BEGIN_MS + shape.days * DAY_MS
    return end_ms - 3 * DAY_MS, end_ms - 2 * DAY_MS


def _is_large(shape: Shape) -> bool:
    return shape.subjects > 500_000
