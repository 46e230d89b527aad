"""The pure rules of archives: their table of contents, where they begin, offsets without gaps."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.event import Record, RecordKind
from meterline.ports import Unsuitable
from meterline.runtime.archive.manifest import (
    ArchivedFile,
    ArchivedLog,
    Manifest,
    Stretch,
    check_fits,
    decode,
    encode,
    first_of,
    portions,
    without_gaps,
)

MANIFEST = Manifest(
    format=1,
    made_at="2026-01-31T00:00:00.000Z",
    version="0.1.0",
    migration=30,
    usage_id="store",
    usage_columns={"events": ["log", "text"]},
    log=ArchivedLog("log", 1, [Stretch(4, 9, 5), Stretch(0, 0, 0)]),
    files=[ArchivedFile("usage/events.tsv.gz", 20, 2, "ab" * 32)],
)


def record(offset: int, append_ms: int = 1_000) -> Record:
    return Record(3, offset, append_ms, RecordKind.REFUSAL, b"%d" % offset, "log")


def test_a_manifest_is_read_as_it_was_written() -> None:
    assert decode(encode(MANIFEST)) == MANIFEST
    assert MANIFEST.file("usage/events.tsv.gz").rows == 2
    with pytest.raises(Unsuitable, match=r"its manifest lacks log/0"):
        MANIFEST.file("log/0.ndjson.gz")


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", encode(MANIFEST)[:-5], b'{"format": "x"}'])
def test_what_is_no_manifest_says_so(text: bytes) -> None:
    with pytest.raises(Unsuitable, match=r"manifest\.json is damaged .*use another archive"):
        decode(text)


def test_an_archive_of_a_later_build_names_what_reads_it() -> None:
    with pytest.raises(Unsuitable, match=r"later build \(format 2\): restore it with that build"):
        decode(b'{"format": 2, "unknown": []}')
    check_fits(MANIFEST, 2, 30)
    check_fits(MANIFEST, 2, 31)
    with pytest.raises(Unsuitable, match=r"migration 30, this build knows 29: restore it with"):
        check_fits(MANIFEST, 2, 29)


def test_partitions_must_be_as_many() -> None:
    with pytest.raises(Unsuitable, match=r"2 partitions, the settings say 4: set partitions to 2"):
        check_fits(MANIFEST, 4, 30)
    empty = msgspec.structs.replace(MANIFEST, log=ArchivedLog("log", 1, []))
    with pytest.raises(Unsuitable, match=r"a log of 0 partitions"):
        check_fits(empty, 0, 30)


@pytest.mark.parametrize(
    ("begin", "counted", "first"),
    [(0, 0, 0), (0, 5, 4), (4, 5, 4), (5, 5, 5), (2, 5, 4), (6, 5, 5)],
)
def test_an_archive_begins_with_the_last_record_that_was_counted(
    begin: int, counted: int, first: int
) -> None:
    assert first_of(begin, counted) == first


@given(st.sets(st.integers(0, 60), min_size=1), st.integers(0, 5), st.integers(0, 5))
def test_every_offset_has_a_record(offsets: set[int], before: int, after: int) -> None:
    lowest = before + 1
    there = [record(lowest + offset, 1_000 + offset) for offset in sorted(offsets)]
    first, end = lowest + min(offsets) - before, lowest + max(offsets) + 1 + after
    whole = list(without_gaps(iter(there), first, end))
    assert [one.offset for one in whole] == list(range(first, end))
    assert [one for one in whole if one.kind is RecordKind.REFUSAL] == there
    fillers = [one for one in whole if one.kind is RecordKind.PACK]
    assert {one.value for one in fillers} <= {b"[]"}, "nothing in them counts"
    times = [one.append_ms for one in whole]
    assert times == sorted(times)


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 5), st.integers(1, 20))
def test_portions_are_bounded_by_records_and_bytes(
    sizes: list[int], records_max: int, bytes_max: int
) -> None:
    records = [
        Record(0, offset, 0, RecordKind.PACK, b"x" * size, "log")
        for offset, size in enumerate(sizes)
    ]
    found = list(portions(iter(records), records_max, bytes_max))
    assert [one for some in found for one in some] == records
    for some in found:
        assert 1 <= len(some) <= records_max
        assert sum(len(one.value) for one in some[:-1]) < bytes_max


def test_a_partition_without_records_gets_none() -> None:
    assert list(without_gaps(iter([]), 8, 8)) == []
