import itertools
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from meterline.window import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    WindowSize,
    parse_instant,
    rfc3339,
    rfc3339_ms,
    window_starts,
    zone_named,
)

ZONES = st.sampled_from(
    [
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Asia/Kolkata",
        "Australia/Lord_Howe",  # its clock moves by half an hour
        "America/Santiago",  # its clock skips midnight
        "Asia/Beirut",  # so does this one
        "Pacific/Apia",  # it skipped a whole day
        "Asia/Kathmandu",
        "Atlantic/Azores",  # its clock repeats midnight
    ]
)
INSTANTS = st.integers(0, 4_102_444_799_999)
SPANS = {
    WindowSize.MINUTE: 3 * HOUR_MS,
    WindowSize.HOUR: 5 * DAY_MS,
    WindowSize.DAY: 100 * DAY_MS,
    WindowSize.MONTH: 900 * DAY_MS,
}


def local(at_ms: int, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, zone)


@given(INSTANTS, st.sampled_from(WindowSize), ZONES, st.data())
@settings(max_examples=400)
def test_windows_tile_what_they_cover(
    first_ms: int, size: WindowSize, name: str, data: st.DataObject
) -> None:
    zone = ZoneInfo(name)
    last_ms = first_ms + data.draw(st.integers(0, SPANS[size]))
    starts = window_starts(first_ms, last_ms, size, zone)
    assert starts == sorted(set(starts))
    assert starts[0] <= first_ms < starts[1]
    assert starts[-2] <= last_ms < starts[-1]


@given(INSTANTS, st.sampled_from(WindowSize), ZONES, st.data())
@settings(max_examples=300)
def test_borders_do_not_depend_on_the_span(
    first_ms: int, size: WindowSize, name: str, data: st.DataObject
) -> None:
    zone = ZoneInfo(name)
    last_ms = first_ms + data.draw(st.integers(0, SPANS[size]))
    inner_ms = data.draw(st.integers(first_ms, last_ms))
    whole = window_starts(first_ms, last_ms, size, zone)
    part = window_starts(inner_ms, inner_ms, size, zone)
    assert len(part) == 2
    place = whole.index(part[0])
    assert whole[place : place + 2] == part


@given(INSTANTS, ZONES)
@settings(max_examples=300)
def test_days_and_months_start_with_their_date(at_ms: int, name: str) -> None:
    zone = ZoneInfo(name)
    start, end = window_starts(at_ms, at_ms, WindowSize.DAY, zone)
    assert local(start, zone).date() == local(at_ms, zone).date() == local(end - 1, zone).date()
    assert local(start - 1, zone).date() < local(start, zone).date() < local(end, zone).date()
    start, end = window_starts(at_ms, at_ms, WindowSize.MONTH, zone)
    month = local(at_ms, zone).strftime("%Y-%m")
    assert local(start, zone).strftime("%Y-%m") == local(end - 1, zone).strftime("%Y-%m") == month
    assert local(start - 1, zone).strftime("%Y-%m") < month < local(end, zone).strftime("%Y-%m")


@given(INSTANTS, ZONES)
@settings(max_examples=300)
def test_hours_start_on_the_hour_of_the_zone(at_ms: int, name: str) -> None:
    start, end = window_starts(at_ms, at_ms, WindowSize.HOUR, ZoneInfo(name))
    zone = ZoneInfo(name)
    moved = local(end, zone).utcoffset() != local(end - 1, zone).utcoffset()
    assert local(end, zone).minute == 0 or moved
    assert end - start <= HOUR_MS
    assert start % MINUTE_MS == 0


@given(INSTANTS, INSTANTS)
def test_in_utc_windows_are_multiples(first_ms: int, other_ms: int) -> None:
    last_ms = min(other_ms, first_ms + 10 * DAY_MS) if other_ms > first_ms else first_ms
    for size, step in ((WindowSize.HOUR, HOUR_MS), (WindowSize.DAY, DAY_MS)):
        starts = window_starts(first_ms, last_ms, size, ZoneInfo("UTC"))
        from_ms = first_ms // step * step
        assert starts == list(range(from_ms, last_ms // step * step + step + 1, step))


@pytest.mark.parametrize(
    ("day", "name", "hours"),
    [
        ("2013-03-10", "America/New_York", 23),
        ("2013-11-03", "America/New_York", 25),
        ("2013-07-01", "America/New_York", 24),
        ("2026-03-29", "Europe/Berlin", 23),
        ("2026-10-25", "Europe/Berlin", 25),
    ],
)
def test_days_of_a_clock_change(day: str, name: str, hours: int) -> None:
    zone = ZoneInfo(name)
    noon_ms = int(datetime.fromisoformat(f"{day}T12:00:00").replace(tzinfo=zone).timestamp()) * 1000
    start, end = window_starts(noon_ms, noon_ms, WindowSize.DAY, zone)
    assert end - start == hours * HOUR_MS
    assert len(window_starts(start, end - 1, WindowSize.HOUR, zone)) == hours + 1
    month = window_starts(noon_ms, noon_ms, WindowSize.MONTH, zone)
    assert [local(at, zone).strftime("%d %H:%M") for at in month] == ["01 00:00", "01 00:00"]


@given(INSTANTS)
def test_instants_are_written_and_read_back(at_ms: int) -> None:
    for written in (rfc3339(at_ms), rfc3339_ms(at_ms)):
        assert parse_instant(written) == at_ms
        exact = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)
        assert datetime.fromisoformat(written) == exact
    assert len(rfc3339_ms(at_ms)) == len("2026-01-31T00:00:00.000Z")


@given(
    INSTANTS,
    st.lists(st.tuples(st.integers(0, 22), st.sampled_from("0123456789TtZz .,:+-_\u0663\uff16"))),
)
@example(0, [(17, "6")])
@example(0, [(17, "\u0663")])
@example(0, [(22, "\uff16")])
@example(0, [(21, "_")])
@example(0, [(20, "+")])
@example(DAY_MS - MINUTE_MS, [(17, "6"), (20, "5")])
def test_the_usual_spelling_is_read_as_any_other(
    at_ms: int, changes: list[tuple[int, str]]
) -> None:
    """Another digit behind the milliseconds makes it an unusual one, of the same instant."""

    def read(text: str) -> int | None:
        try:
            return parse_instant(text)
        except ValueError:
            return None

    letters = list(rfc3339_ms(at_ms))
    for at, letter in changes[:3]:
        letters[at] = letter
    usual = "".join(letters)
    assert read(usual) == read(f"{usual[:-1]}0{usual[-1]}")


@pytest.mark.parametrize(
    ("written", "at_ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01t00:00:00.0015z", 1),
        ("1970-01-01 00:00:00.001Z", 1),  # RFC 3339 5.6 allows the space
        ("1970-01-01T05:30:00.000000999+0530", 0),
        ("1969-12-31T23:59:59.999Z", -1),
        ("1972-06-30T23:59:60Z", 78_796_799_999),  # a leap second stays in its minute
        ("1972-07-01T01:59:60.7+02:00", 78_796_799_999),
    ],
)
def test_spellings_of_instants(written: str, at_ms: int) -> None:
    assert parse_instant(written) == at_ms


@pytest.mark.parametrize(
    "written",
    [
        *("", "now", "2026-01-31", "2026-01-31T00:00:00", "2026-01-31 noon", "1790000000"),
        *("2026-W05-6T00:00:00Z", "20260131T000000Z", "2026-031T00:00:00Z", "2026-01-31T00:00Z"),
        *("2026-01-31T00:00:00,5Z", "2026-01-31T00:00:00+05", "2026-01-31T00:00:00+24:00"),
        *("2026-01-31T00:00:00+00:00:30", " 2026-01-31T00:00:00Z", "2026-01-31T00:00:00.Z"),
    ],
)
def test_what_is_no_instant_says_so(written: str) -> None:
    with pytest.raises(ValueError, match="2026-01-31T00:00:00Z"):
        parse_instant(written)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("2026-01-31T24:00:00Z", "no such date"),
        ("2026-02-29T00:00:00Z", "no such date"),
        ("2026-01-31T00:00:61Z", "no such date"),
        ("2026-01-31T12:00:60Z", "only at 23:59 in UTC"),
        ("2026-01-31T23:59:60+02:00", "only at 23:59 in UTC"),
    ],
)
def test_what_no_clock_shows_says_so(written: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_instant(written)


@pytest.mark.parametrize(
    ("day", "borders"),
    [
        ("2026-10-04", ["00:00", "01:00", "02:30", "03:00", "04:00"]),  # 02:00 becomes 02:30
        ("2026-04-05", ["00:00", "01:00", "01:30", "02:00", "03:00"]),  # 02:00 becomes 01:30
    ],
)
def test_where_the_clock_moves_by_half_an_hour_a_window_is_half_an_hour(
    day: str, borders: list[str]
) -> None:
    zone = ZoneInfo("Australia/Lord_Howe")
    first_ms = int(datetime.fromisoformat(day).replace(tzinfo=zone).timestamp()) * 1000
    starts = window_starts(first_ms, first_ms + 3 * HOUR_MS, WindowSize.HOUR, zone)
    assert [f"{local(at, zone):%H:%M}" for at in starts[: len(borders)]] == borders
    lengths = [b - a for a, b in itertools.pairwise(starts)]
    assert sorted(set(lengths)) == [HOUR_MS // 2, HOUR_MS]
    assert lengths.count(HOUR_MS // 2) == 1


NO_ZONES = ["", "Nowhere/Town", "/etc/passwd", "../UTC", ".", "a\x00b"]
OF_THE_MACHINE = ["localtime", "posixrules", "Factory", "posix/UTC", "right/Europe/Berlin"]


@pytest.mark.parametrize("name", [*NO_ZONES, *OF_THE_MACHINE])
def test_zones_that_are_none(name: str) -> None:
    with pytest.raises(ValueError, match="is no IANA time zone"):
        zone_named(name)


def test_zones() -> None:
    assert zone_named("Europe/Berlin").key == "Europe/Berlin"
