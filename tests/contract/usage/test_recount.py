"""Contract of `UsageEvidence` where it recounts: the same as the fold, over chDB and ClickHouse."""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from xxhash import xxh64_intdigest

from aggregator.audit.slices import cell_differences
from aggregator.slice.open_slice import OpenSlice
from meterline.audit import Chunk, described
from meterline.backends.clickhouse.audit.evidence import ClickHouseEvidence
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.event import Event, Record, RecordKind, decode_event
from meterline.meter import Aggregation, Catalogue, Meter, measures_of
from meterline.number import UNIT
from meterline.usage import TEXTS, Flush, SliceId
from tests.contract.usage.slices import HORIZON_MS, meter

# JSON texts of values, each in a slice of its own. What the engine cannot read exactly is left to
# the fold, and only that.
SETTLED = (
    "0", "-0", "7", "-7", "1.5", "-0.0", "1.0", "12345.678", "1e-7", "1E5",
    "1.5e+3", "9223372036854775807", "-9223372036854775808", "18446744073709551615",
    "1e20", "-1e25", "1e300", '"7"', '"+007.50"', '"-0.5"',
    '"99999999999999999999.999999999999999999"', '"many"', '""', '" 7"', '"7\\n"', '"1_0"',
    '"0x10"', '"NaN"', "null", "true", "false", "[]", "[1]", "{}", '{"v":1}', '"1."', '".5"',
    '"-.50"', '"."',
    '"é\\u0000\\"\\\\|"', "4.9e-324",
)  # fmt: skip
UNSETTLED = (
    "0.1234567890123456785", "0.1000000000000000055511151231257827", "99999999999999999999.5",
    "1.0000000000000000000000000000001", "1e400", "1e-19", "5e-19", "1.5e-18",
    '"0.1234567890123456785"', '"1e2"', '".5e1"', f'"0.{"0" * 2_000}1"',
    '"1e999999"', '"000000000000000000000001"',
    "123456789.0123456789", "0.000000000000000001", "100000000000000000000", "1e-30",
    "123456789012345678901234567890",
)  # fmt: skip
EITHER = ("99999999999999999999", "-99999999999999999999")  # as the engine's release has it
ODD = '{"specversion":"1.0", "data" : {"v": %s, "g": %s, "deep": {"a": [10, %s]}}, %s}'


def _event(number: int, kind: str, namespace: str, value: str, group: str) -> Event:
    rest = msgspec.json.encode(
        {
            "id": f"e{number}",
            "source": "s",
            "type": kind,
            "subject": f"a{number % 2}",
            "time": f"2026-01-01T00:0{number % 3}:00.5Z",
            "namespace": namespace,
            "recordedtime": "2026-01-01T00:00:00Z",
        }
    ).decode()[1:-1]
    return decode_event((ODD % (value, group, value, rest)).encode())


def _slice(log: int, offset: int, meters: list[Meter], events: list[Event]) -> OpenSlice:
    made = OpenSlice(SliceId(log, 0, offset), 0, measures_of(Catalogue(1, tuple(meters))))
    record = Record(0, offset, 1_000, RecordKind.PACK, b"", "log")
    made.absorb(record, 1_000, events, {}, HORIZON_MS)
    return made


def _meters(fresh_numbers: Iterator[int], namespace: str) -> list[Meter]:
    made = []
    for aggregation in Aggregation:
        for path, group in (("$.v", "$.g"), ("$.deep.a[1]", "$['deep']['a'][0]")):
            one = meter(next(fresh_numbers), aggregation, groups=("g",))
            value = None if aggregation is Aggregation.COUNT else path
            made.append(
                replace(
                    one, namespace=namespace, event_type="t", value_property=value,
                    dimensions=(("g", group), ("z", "$.nothing")),
                )
            )  # fmt: skip
    return made


async def _settled(
    store: ClickHouseUsageStore, log: int, meters: list[Meter], slices: list[OpenSlice]
) -> dict[int, set[int]]:
    """By revision, the slices that SQL recounted, all without a difference; and so does the
    fold.
    """
    evidence = ClickHouseEvidence(store.connection)
    names = tuple(one.id.slice for one in slices)
    chunk = Chunk(log, 0, names, 0, max(names) + 1)
    found = {}
    for one in meters:
        recount = await evidence.recount(chunk, one, 100)
        assert recount.differences == [], one.aggregation
        found[one.revision] = set(names) - set(recount.unsettled)
    return found


async def test_a_recount_in_sql_is_that_of_the_fold(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    log, namespace = next(fresh_numbers), uuid4().hex
    meters = _meters(fresh_numbers, namespace)
    slices, flush = [], Flush()
    for offset, value in enumerate((*SETTLED, *UNSETTLED, *EITHER)):
        events = [_event(offset, "t", namespace, value, '"x"')]
        slices.append(_slice(log, offset, meters, events))
        flush.extend(slices[-1].take())
    await usage_store.write(flush)
    settled = await _settled(usage_store, log, meters, slices)
    numbers = [m for m in meters if m.aggregation is Aggregation.SUM]
    either = set(range(len(SETTLED) + len(UNSETTLED), len(slices)))
    assert settled[numbers[0].revision] - either == set(range(len(SETTLED)))


async def test_cells_of_many_events_and_odd_groups(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    rng = random.Random(1)
    log, namespace = next(fresh_numbers), uuid4().hex
    meters = _meters(fresh_numbers, namespace)
    # a long number makes all doubles of its event unsettled, and as a text 1e300 is one
    texts = [v for v in SETTLED if len(v) < 16 and v not in ("1e300", "4.9e-324")]
    slices, flush = [], Flush()
    for offset in range(6):
        events = [
            _event(100 * offset + n, rng.choice("tttu"), namespace, rng.choice(texts), group)
            for n, group in enumerate(rng.choices(texts, k=80))
        ]
        slices.append(_slice(log, offset, meters, events))
        flush.extend(slices[-1].take())
    await usage_store.write(flush)
    await usage_store.write(flush)
    settled = await _settled(usage_store, log, meters, slices)
    assert all(len(names) == 6 for names in settled.values())


async def test_paths_that_sql_cannot_walk_are_left_to_the_fold(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    one = replace(meter(next(fresh_numbers)), value_property="$..v")
    evidence = ClickHouseEvidence(usage_store.connection)
    recount = await evidence.recount(Chunk(1, 0, (4, 9), 0, 10), one, 100)
    assert (recount.unsettled, recount.differences) == ((4, 9), [])


@pytest.mark.parametrize("what", ["deleted", "changed", "foreign", "rejected", "member"])
async def test_every_difference_is_named_and_the_wrong_rows_can_be_deleted(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int], what: str
) -> None:
    log, namespace = next(fresh_numbers), uuid4().hex
    meters = _meters(fresh_numbers, namespace)[:2]
    others = _meters(fresh_numbers, namespace)
    unique = next(m for m in others if m.aggregation is Aggregation.UNIQUE_COUNT)
    events = [_event(n, "t", namespace, v, '"x"') for n, v in enumerate(("1", "2.5", "null"))]
    made = _slice(log, 0, [*meters, unique], events).take()
    chunk = Chunk(log, 0, (0,), 0, 1)
    evidence = ClickHouseEvidence(usage_store.connection)
    good: Any = Flush(**{name: list(getattr(made, name)) for name in Flush.__dataclass_fields__})
    tally = made.tallies[0]
    one: Meter = meters[0]
    match what:
        case "deleted":
            made.tallies.remove(tally)
        case "changed":
            made.tallies.append(tally._replace(version=tally.version + 1, total=7 * UNIT))
        case "foreign":
            made.tallies.append(tally._replace(subject="nobody"))
        case "rejected":
            made.rejected = [row for row in made.rejected if row.revision != one.revision]
        case "member":
            one = unique
            made.members.append(made.members[0]._replace(member=bytes(16)))
    await usage_store.write(made)
    recount = await evidence.recount(chunk, one, 100)
    (difference,) = recount.differences
    table = {"rejected": "rejected", "member": "members"}.get(what, "tallies")
    assert (difference.table, difference.slice) == (table, 0)
    if what == "changed":
        assert described(difference.expected, difference.found) == "version 0, total 1"
        assert described(difference.found, difference.expected) == "version 1, total 7"
    stored = await evidence.cells(SliceId(log, 0, 0), one.revision)
    mine = Flush(
        tallies=[row for row in good.tallies if row.revision == one.revision],
        members=[row for row in good.members if row.revision == one.revision],
        rejected=[row for row in good.rejected if row.revision == one.revision],
    )
    (by_fold,) = cell_differences(mine, stored, 0)
    assert (by_fold.table, by_fold.subject) == (difference.table, difference.subject)
    await usage_store.write(mine)
    slice_id = SliceId(log, 0, 0)
    for name in ("tallies", "members", "rejected"):
        due = set(getattr(mine, name))
        there = getattr(await evidence.cells(slice_id, one.revision), name)
        hashes = await evidence.row_hashes(slice_id, name, one.revision)
        assert len(hashes) >= len(there)
        if due != set(there):
            wrong = set(hashes) - {xxh64_intdigest(TEXTS[name](row)) for row in due}
            await evidence.purge(slice_id, name, one.revision, wrong)
            await usage_store.write(mine)  # a merge may have dropped a right row for a wrong one
        assert set(getattr(await evidence.cells(slice_id, one.revision), name)) == due
    assert (await evidence.recount(chunk, one, 100)).differences == []
