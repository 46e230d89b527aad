"""Contract of `ErasedRows`, over chDB and a ClickHouse server: what is left of a subject adds up to
what there was, and nothing else of it is left.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import pytest

from aggregator.slice.open_slice import OpenSlice
from meterline.backends.clickhouse.blocks.erasure import ClickHouseErasedRows
from meterline.backends.clickhouse.blocks.store import ClickHouseBlockRows
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.event import Event, Record, RecordKind, decode_event, is_erased
from meterline.limits import SLICE_SPAN_MS
from meterline.meter import Aggregation, Catalogue, Meter, measures_of
from meterline.ports import Unavailable
from meterline.usage import (
    Block,
    Erasure,
    ErasureState,
    SliceId,
    Stretch,
    block_number,
    differences,
)
from tests.contract.usage.slices import HORIZON_MS, meter

NOW_MS: Final = 1_767_225_600_000
NAME: Final = 'al\'ice \\ "ä"'
SECRET: Final = "her secret"
TEXTS: Final = (
    "SELECT table, name FROM system.columns"
    " WHERE database = currentDatabase() AND type LIKE '%String%'"
)


@dataclass
class Erased:
    """Slices of two subjects, and the erasure of one."""

    log: int
    meters: tuple[Meter, ...]
    namespace: str
    erasure: Erasure

    def slice(self, at: int) -> OpenSlice:
        measures = measures_of(Catalogue(1, self.meters))
        append_ms = NOW_MS + at * SLICE_SPAN_MS
        made = OpenSlice(SliceId(self.log, 0, at * 10), append_ms, measures)
        events = [self.event(subject, at, n) for n in range(6) for subject in (NAME, "bob")]
        events += events[:2]  # sent twice
        record = Record(0, at * 10, append_ms, RecordKind.PACK, b"", "log")
        made.absorb(record, append_ms, events, {}, HORIZON_MS)
        return made

    def event(self, subject: str, at: int, n: int) -> Event:
        secret = SECRET if subject == NAME else ""
        value: object = n * 10 if n < 5 else f"{secret} no number"
        text = msgspec.json.encode(
            {
                "specversion": "1.0", "id": f"{subject}-{at}-{n}", "source": f"/app/{subject}",
                "type": self.meters[0].event_type, "subject": subject,
                "time": f"{'2025-12-31' if n % 2 else '2026-01-01'}T{n:02d}:00:30Z",
                "data": {"v": value, "g": subject, "h": "x", "more": secret},
                "namespace": self.namespace, "recordedtime": "2026-01-01T00:00:00Z",
            }
        )  # fmt: skip
        return decode_event(text)


@pytest.fixture
def erased(fresh_numbers: Iterator[int]) -> Erased:
    log, first = next(fresh_numbers), next(fresh_numbers)
    sums = meter(first, groups=("g", "h"))
    unique = replace(
        meter(next(fresh_numbers), Aggregation.UNIQUE_COUNT), event_type=sums.event_type
    )
    both = (sums, unique)
    erasure = Erasure(
        "01", sums.namespace, NAME, "erased-01", ErasureState.COPYING, NOW_MS, log,
        ends={0: 20}, revisions=tuple(it.revision for it in both),
    )  # fmt: skip
    return Erased(log, both, sums.namespace, erasure)


async def _found(store: ClickHouseUsageStore, below: Erased) -> list[str]:
    """Text columns with the name or the payload, in rows below the border."""
    found = []
    for table, column in await store.connection.query(TEXTS, {}):
        text = f"toString({column})"
        where = (
            f"(position({text}, {{name:String}}) > 0 OR position({text}, {{secret:String}}) > 0)"
        )
        columns = await store.connection.query(
            "SELECT name FROM system.columns WHERE database = currentDatabase()"
            " AND table = {table:String} AND name = 'slice'",
            {"table": table},
        )
        if columns:
            where += f" AND log = {below.log} AND slice < 20"
        sql = f"SELECT count() FROM {table} WHERE {where}"
        named = {"name": NAME[:6], "secret": SECRET}  # however the rest is spelled
        ((rows,),) = await store.connection.query(sql, named)
        if rows:
            found.append(f"{table}.{column}")
    return found


async def _sums(
    store: ClickHouseUsageStore, erased: Erased, subject: str
) -> list[tuple[object, ...]]:
    sql = (
        "SELECT revision, window, slice, total, counted, rejected FROM tallies FINAL"
        " WHERE has({revisions:Array(UInt32)}, revision) AND subject = {subject:String}"
        " AND slice < 20 ORDER BY ALL"
    )
    given = {"revisions": list(erased.erasure.revisions), "subject": subject}
    return [tuple(row) for row in await store.connection.query(sql, given)]


async def test_a_subject_is_renamed_and_its_payload_goes(
    usage_store: ClickHouseUsageStore, erased: Erased
) -> None:
    rows = ClickHouseErasedRows(usage_store.connection)
    for at in range(3):
        await usage_store.write(erased.slice(at).take())
    before = await _sums(usage_store, erased, NAME)
    others = await _sums(usage_store, erased, "bob")
    assert before
    named = {"tallies.subject", "late_tallies.groups", "late_members.subject"}
    assert named | {"events.text", "rejected.value"} <= set(await _found(usage_store, erased))
    for _ in range(2):  # again is the same
        await rows.copy(erased.erasure)
        await rows.redact(erased.erasure)
    await rows.delete(erased.erasure)
    assert await _sums(usage_store, erased, "erased-01") == before
    assert await _sums(usage_store, erased, "bob") == others
    assert await _found(usage_store, erased) == []
    left = await usage_store.slice_events(SliceId(erased.log, 0, 10))
    assert {row.subject for row in left} == {"bob", "erased-01"}
    for row in left:
        event = decode_event(row.text)
        assert is_erased(row.text) is (row.subject == "erased-01")
        own = (row.namespace, row.type, row.subject, row.source, row.id, row.time_ms)
        assert own == (
            event.namespace, event.type, event.subject, event.source, event.id, event.time_ms
        )  # fmt: skip
    later = await usage_store.slice_events(SliceId(erased.log, 0, 20))
    assert NAME in {row.subject for row in later}, "it was recorded after the request"
    await rows.forget()
    ((noted,),) = await usage_store.connection.query(
        "SELECT count() FROM system.mutations WHERE database = currentDatabase()"
        " AND position(command, {name:String}) > 0",
        {"name": "al\\'ice"},
    )
    assert not noted


async def test_copies_that_are_not_all_there_are_found(
    usage_store: ClickHouseUsageStore, erased: Erased
) -> None:
    """Were they not compared, a lost insert would be a lost sum."""
    await usage_store.write(erased.slice(0).take())
    statement = "INSERT INTO tallies (revision, subject, groups, window, log, partition, slice)"
    revision = erased.erasure.revisions[0]
    await (await usage_store.connection.at(0)).execute(
        f"{statement} VALUES ({revision}, 'erased-01', '[]', 1, {erased.log}, 0, 0)"
    )
    with pytest.raises(Unavailable, match="copies"):
        await ClickHouseErasedRows(usage_store.connection).copy(erased.erasure)


async def test_what_is_filled_in_later_is_not_copied(
    usage_store: ClickHouseUsageStore, erased: Erased
) -> None:
    """What somebody late counted of a new meter would count beside what is filled in."""
    await usage_store.write(erased.slice(0).take())
    before = await _sums(usage_store, erased, NAME)
    later = erased.erasure.revisions[0]
    rows = ClickHouseErasedRows(usage_store.connection)
    erasing = replace(erased.erasure, unfilled=(later,))
    await rows.copy(erasing)
    assert await _sums(usage_store, erased, "erased-01") == [it for it in before if it[0] != later]
    await rows.redact(erasing)
    await rows.delete(erasing)
    assert await _sums(usage_store, erased, NAME) == []
    assert await _found(usage_store, erased) == []


async def test_a_block_is_renamed_as_a_whole(
    usage_store: ClickHouseUsageStore, erased: Erased
) -> None:
    made, erasing = ClickHouseBlockRows(usage_store.connection), erased.erasure
    rows = ClickHouseErasedRows(usage_store.connection)
    renewed = ClickHouseBlockRows(usage_store.connection, erasure=erasing)
    for at in range(2):
        await usage_store.write(erased.slice(at).take())
    old, new = (
        Block(
            block_number(NOW_MS, erased.log * 10 + at), erased.log, (Stretch(0, 0, 20),), 0, 1 << 30
        )
        for at in range(2)
    )
    await made.make(old, ())
    assert set(await rows.blocks_with(erasing)) == {old.number}
    for _ in range(2):  # a statement that is executed again writes nothing
        await renewed.make(new, [old.number])
    due = await renewed.due(new, [old.number])
    held = await renewed.held(new.number)
    assert differences(due, held) == []
    assert {name: one.rows for name, one in held.items()} == {
        name: one.rows for name, one in (await made.held(old.number)).items()
    }
    assert set(await rows.blocks_with(erasing)) == {old.number}
    await rows.copy(erasing)
    await rows.delete(erasing)
    assert await made.recount(new) == {name: one.digest for name, one in held.items()}
    await made.drop([old.number])
    await rows.redact(erasing)
    assert await _found(usage_store, erased) == []
    await made.drop([new.number])
