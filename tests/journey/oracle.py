"""What the answers must be, computed by pandas from the same table, in exact arithmetic."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import pandas as pd

from demo.flights import METERS, table_path

DIGITS = 18
ALL_FLIGHTS = 336_776
LATE_METER = {
    "key": "arr_delay",
    "name": "Minutes late, made after its events",
    "aggregation": "sum",
    "value_property": "$.arr_delay",
    "dimensions": {"origin": "$.origin"},
}
DEFINITIONS = {str(meter["key"]): meter for meter in (*METERS, LATE_METER)}
PERIODS = {"P1D": "D", "P1M": "M"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A question: usage of a meter in [start, end), either open, by windows, subject and keys."""

    meter: str
    start: str | None = None
    end: str | None = None
    window: str | None = None  # ISO 8601, as in v3
    zone: str = "UTC"
    keys: tuple[str, ...] = ("subject",)

    def of(self, meter: str) -> "Asked":
        """The same of another meter."""
        return replace(self, meter=meter)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the answer, with the members of v3."""

    start: str
    end: str
    groups: tuple[str, ...]  # in the order of `keys`
    value: str
    counted: int
    rejected: int


@cache
def table() -> pd.DataFrame:
    """The flights in their order. Numbers are integers, or absent."""
    flights = pd.read_csv(table_path())
    ranks = flights.groupby("time_hour").cumcount()
    hours = pd.to_datetime(flights["time_hour"], utc=True).astype("datetime64[ms, UTC]")
    return pd.DataFrame(
        {
            "time": hours + pd.to_timedelta(ranks, unit="ms"),
            "subject": flights["carrier"],
            "origin": flights["origin"],
            "dest": flights["dest"],
            "tailnum": flights["tailnum"],
            "distance": flights["distance"].astype("Int64"),
            "air_time": flights["air_time"].astype("Int64"),
            "arr_delay": flights["arr_delay"].astype("Int64"),
        }
    )


@cache
def expected(asked: Asked, flights: int = ALL_FLIGHTS) -> list[Row]:
    """The rows, in the order promised, that answer a question about the first flights."""
    measured = table()[:flights]
    if asked.start is not None:
        measured = measured[measured["time"] >= pd.Timestamp(asked.start)]
    if asked.end is not None:
        measured = measured[measured["time"] < pd.Timestamp(asked.end)]
    # Ordered by window, subject, groups (as asked for), whatever the order of the keys.
    order = sorted(asked.keys, key=lambda name: name != "subject")
    places = [order.index(name) for name in asked.keys]
    windows = _windows(asked, measured)
    figures = _figures(DEFINITIONS[asked.meter], measured, [windows, *order])
    ends = {start: _end(start, asked) for start in windows.unique()}
    rows = []
    for key, counted, events, number in figures:
        start, *texts = key if isinstance(key, tuple) else (key,)
        groups = tuple(texts[place] for place in places)
        bounds = (_instant(start), _instant(ends[start]))
        if asked.window is None:
            bounds = (asked.start or bounds[0], asked.end or _instant(_last_minute(measured)))
        rows.append(Row(*bounds, groups, _text(number), counted, events - counted))
    return rows


def _windows(asked: Asked, measured: pd.DataFrame) -> "pd.Series[Any]":
    """The start of each flight's window."""
    if asked.window is None:
        return pd.Series(measured["time"].min().floor("min"), index=measured.index)
    return _starts(asked.window, asked.zone).loc[measured.index]


@cache
def _starts(window: str, zone: str) -> "pd.Series[Any]":
    """As `_windows`, of the whole table."""
    times: Any = table()["time"].dt
    if window == "PT1H":  # an hour that the clock repeats is two windows
        hours: pd.Series[Any] = times.floor("h")
        return hours
    # Days and months are those of the wall clock.
    naive = times.tz_convert(zone).dt.tz_localize(None)
    starts = naive.dt.to_period(PERIODS[window]).dt.start_time
    instants: pd.Series[Any] = starts.dt.tz_localize(zone).dt.tz_convert("UTC")
    return instants


def _end(start: pd.Timestamp, asked: Asked) -> pd.Timestamp:
    if asked.window in (None, "PT1H"):
        return start + pd.Timedelta(hours=1)
    naive = start.tz_convert(asked.zone).tz_localize(None)
    following = naive.to_period(PERIODS[str(asked.window)]) + 1
    end: pd.Timestamp = following.start_time.tz_localize(asked.zone).tz_convert("UTC")
    return end


def _last_minute(measured: pd.DataFrame) -> pd.Timestamp:
    last: pd.Timestamp = measured["time"].max()
    return last.floor("min") + pd.Timedelta(minutes=1)


def _instant(moment: pd.Timestamp) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _figures(
    meter: Any, measured: pd.DataFrame, by: list[Any]
) -> Iterator[tuple[Any, int, int, Fraction]]:
    """For each group in which something counted: its key, how many did, of how many, the value."""
    events = measured.groupby(by, sort=True).size()
    aggregation = meter["aggregation"]
    if aggregation == "count":
        for key, number in events.items():
            yield key, number, number, Fraction(number)
        return
    name = meter["value_property"].removeprefix("$.")
    there = measured[measured[name].notna()]
    if aggregation == "latest":
        there = there.sort_values("time")
    values = there.groupby(by, sort=True)[name]
    counts = values.count()
    found = {
        "sum": values.sum,
        "avg": values.sum,
        "min": values.min,
        "max": values.max,
        "latest": values.last,
        "unique_count": values.nunique,
    }[aggregation]()
    for key, value in found.items():
        counted = int(counts[key])
        divisor = counted if aggregation == "avg" else 1
        yield key, counted, int(events[key]), Fraction(int(value), divisor)


def _text(number: Fraction) -> str:
    """Decimal text with at most 18 digits behind the point, rounded half-even."""
    scaled = round(number * 10**DIGITS)  # Python rounds fractions half-even
    whole, fraction = divmod(abs(scaled), 10**DIGITS)
    digits = f"{fraction:018d}".rstrip("0")
    sign = "-" if scaled < 0 else ""
    return f"{sign}{whole}.{digits}" if digits else f"{sign}{whole}"


def carriers(start: str, end: str) -> Sequence[str]:
    """Who flew in [start, end), in order."""
    times = table()["time"]
    flew = table()[(times >= pd.Timestamp(start)) & (times < pd.Timestamp(end))]
    return sorted(flew["subject"].unique())
