"""Rows of the usage store, out and in again as lines, on chDB and ClickHouse."""

from collections.abc import Iterator

from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.clickhouse.usage.whole import ClickHouseArchive
from meterline.meter import Aggregation, Meter
from meterline.usage import Flush, SliceId
from tests.contract.usage.slices import event, folded, meter

SLICES = 4
SEALED = 20  # two of them: they begin at 0, 10, 20 and 30
SLICED = {
    *("events", "seen", "tallies", "members", "late_tallies", "late_members", "rejected"),
    *("accounts", "rejects"),
}


async def lines_of(
    archive: ClickHouseArchive, table: str, log: int, end: int, revision: int
) -> list[bytes]:
    """The rows of the log of one test: others write to the store, too."""
    columns = (await archive.tables())[table]
    rows = archive.rows(table, columns, log, {0: end}, revision, [], lambda piece: piece)
    text = b"".join([piece async for piece in rows])
    at = columns.index("log")
    return [it for it in text.splitlines(keepends=True) if it.split(b"\t")[at] == b"%d" % log]


async def written(
    store: ClickHouseUsageStore, log: int, numbers: Iterator[int]
) -> tuple[dict[str, int], int]:
    """Slices with rows of odd texts in every table: how many of each a sealed slice has, and the
    revision.
    """
    meters = [
        meter(next(numbers), groups=("g",)),
        meter(next(numbers), Aggregation.UNIQUE_COUNT),
    ]
    sizes: dict[str, int] = {}
    for number in range(SLICES):
        kinds: list[tuple[Meter, dict[str, object]]] = [
            (meters[0], {"v": "-1234567890123456789.5", "g": "a\n\\N"}),
            (meters[0], {"v": "no number", "g": ""}),
            (meters[1], {"v": "\0é"}),
        ]
        events = [
            event(of, number * 10 + at, f"2026-01-0{number + 1}T00:0{at}:00Z", data, "s\t'\\")
            for at, (of, data) in enumerate(kinds)
        ]
        flush: Flush = folded(log, meters, events, offset=number * 10).take()
        await store.write(flush)
        sizes = {table: len(getattr(flush, table)) for table in SLICED}
    return sizes, meters[1].revision


async def test_rows_of_sealed_slices_alone_are_in_an_archive(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    log = next(fresh_numbers)
    archive = ClickHouseArchive(usage_store.connection)
    sizes, revision = await written(usage_store, log, fresh_numbers)
    for table, size in sizes.items():
        there = {
            end: len(set(await lines_of(archive, table, log, end, revision)))
            for end in (0, SEALED, 1_000)
        }
        assert there == {0: 0, SEALED: size * 2, 1_000: size * SLICES}, table
    known = len(set(await lines_of(archive, "tallies", log, 1_000, revision - 1)))
    assert 0 < known < sizes["tallies"] * SLICES, (
        "rows of a revision that the moment does not know are left out"
    )


async def test_rows_come_back_as_they_were(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    log, other = next(fresh_numbers), next(fresh_numbers)
    archive = ClickHouseArchive(usage_store.connection)
    sizes, revision = await written(usage_store, log, fresh_numbers)
    for table, columns in (await archive.tables()).items():
        if table not in sizes or not sizes[table]:
            continue
        at = columns.index("log")
        moved = []
        for line in await lines_of(archive, table, log, 1_000, revision):
            cells = line.split(b"\t")
            cells[at] = b"%d" % other + (b"\n" if cells[at].endswith(b"\n") else b"")
            moved.append(b"\t".join(cells))
        await archive.put(table, columns, b"".join(moved))
        found = await lines_of(archive, table, other, 1_000, revision)
        assert sorted(set(found)) == sorted(set(moved)), table
    for number in range(SLICES):
        slices = [SliceId(one, 0, number * 10) for one in (log, other)]
        events = [[row[1:] for row in await usage_store.slice_events(one)] for one in slices]
        assert events[0] == events[1] != []
    assert await archive.is_used()


async def test_blocks_come_first_for_they_are_dropped_soonest(
    usage_store: ClickHouseUsageStore,
) -> None:
    tables = await ClickHouseArchive(usage_store.connection).tables()
    with_blocks = ["block" in columns for columns in tables.values()]
    assert with_blocks == sorted(with_blocks, reverse=True)
    assert "installation" not in tables
    assert set(tables) >= SLICED
