"""The form of an answer about usage: JSON or CSV as its reader accepts."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Final

import msgspec
from aiohttp import web

from control.usage.answers import Form
from control.usage.query import SUBJECT, Asked
from meterline.number import text as number_text
from meterline.problem import Problem, ProblemType
from meterline.usage import UsageRow
from meterline.window import rfc3339

WINDOW_BOUNDS_KEPT: Final = 1_000
_JSON: Final = "application/json"
_CSV: Final = "text/csv"
_QUALITY: Final = re.compile(r"q\s*=\s*([01](?:\.[0-9]{0,3})?)", re.ASCII | re.IGNORECASE)


def wants_csv(request: web.Request) -> bool:
    """Whether `Accept` asks for CSV rather than JSON (RFC 9110 12.5.1); `Problem` if neither."""
    accept = ",".join(request.headers.getall("Accept", [])) or "*/*"
    as_json, as_csv = _wanted(accept, _JSON), _wanted(accept, _CSV)
    if not as_json[0] and not as_csv[0]:
        detail = f"There is {_JSON} and {_CSV} here; the Accept header takes neither."
        raise Problem(ProblemType.NOT_ACCEPTABLE, detail)
    return as_csv > as_json


def _wanted(accept: str, media: str) -> tuple[float, int]:
    """How much a media type is wanted: weight and rank of the narrowest range that covers it."""
    ranges = ("*/*", f"{media.partition('/')[0]}/*", media)
    best = (0.0, -1)
    for part in accept.split(","):
        covering, *parameters = (piece.strip().lower() for piece in part.split(";"))
        rank = ranges.index(covering) if covering in ranges else -1
        if rank > best[1]:
            weights = [found for one in parameters if (found := _QUALITY.fullmatch(one))]
            best = (float(weights[0][1]) if weights else 1.0, rank)
    return best


def csv_lines(rows: Iterable[Sequence[str]], end: str = "\r\n") -> bytes:
    """Lines of a table by RFC 4180, or with another end of line."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=end).writerows(rows)
    return text.getvalue().encode()


window_bound: Final = lru_cache(WINDOW_BOUNDS_KEPT)(rfc3339)  # rows share them


def attachment(name: str) -> dict[str, str]:
    """The header that makes a browser save a CSV answer as a file. `name` is a meter's key."""
    return {"Content-Disposition": f'attachment; filename="{name}.csv"'}


def table(
    asked: Asked,
    bounds: tuple[str, str],
    value: Callable[[int], str],
    end: str = "\r\n",
    *,
    always_subject: bool = False,
) -> Form:
    """A table to be saved under the meter's key: of what is grouped by there is a column each, and
    with `always_subject` one of the subject in any case.
    """
    query = asked.query
    subject = [SUBJECT] if always_subject or query.by_subject else []
    head = csv_lines([[*bounds, *subject, *query.dimensions, "value"]], end)
    headers = {**asked.headers, **attachment(query.meter.key)}
    render = partial(table_lines, value=value, end=end, always_subject=always_subject)
    return Form(_CSV, head, render, headers=headers, sealed=asked.sealed)


def table_lines(
    rows: Sequence[UsageRow],
    value: Callable[[int], str] = number_text,
    end: str = "\r\n",
    *,
    always_subject: bool = False,
) -> bytes:
    """Rows as lines of a table; with `always_subject` the cell of one that has none is empty."""
    nobody: list[str] = [""] if always_subject else []
    return csv_lines((_line(row, nobody, value(row.value)) for row in rows), end)


def _line(row: UsageRow, nobody: list[str], value: str) -> list[str]:
    subject = nobody if row.subject is None else [row.subject]
    groups = [group for _, group in row.groups]
    return [window_bound(row.from_ms), window_bound(row.to_ms), *subject, *groups, value]


def opening(members: Mapping[str, object]) -> bytes:
    """The beginning of a JSON object whose last member, `data`, is an array of rows."""
    encoded = msgspec.json.encode(members)[:-1]
    return encoded + (b',"data":[' if members else b'"data":[')
