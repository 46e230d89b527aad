"""Files of what was booked: CSV with a line of names, or NDJSON, by the first character."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, TextIO

from meterline.number import scaled
from meterline.runtime.commands.reconciliation import Booking
from meterline.window import parse_instant

NAMES: Final = "delivery_id, value, report, subject, from, to, revision, digest, sha256"


class Unreadable(Exception):
    """A file is not what it should be; the words name the line and the field."""


def bookings(lines: TextIO) -> list[Booking]:
    """What the lines say. Raises `Unreadable`."""
    return [_booking(number, row) for number, row in _rows(lines)]


def _rows(lines: TextIO) -> Iterator[tuple[int, Mapping[str, Any]]]:
    first = next((line for line in lines if line.strip()), "")
    if first.lstrip("\ufeff").startswith("{"):
        yield from _objects(first, lines)
    elif first:
        yield from _records(first, lines)


def _objects(first: str, lines: Iterable[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(_again(first, lines), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line.lstrip("\ufeff"), parse_float=Decimal)
        except ValueError as error:
            raise Unreadable(f"line {number} is not JSON: {error}") from error
        if not isinstance(row, dict):
            raise Unreadable(f"line {number} is not a JSON object")
        yield number, row


def _records(first: str, lines: Iterable[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(_again(first.lstrip("\ufeff"), lines), strict=True)
    try:
        names = {name.strip() for name in reader.fieldnames or ()}
        if not names & {"delivery_id", "id"}:
            raise Unreadable(f"line 1 has no column delivery_id; known columns: {NAMES}")
        for row in reader:
            if None in row or None in row.values():
                raise Unreadable(f"line {reader.line_num} has more or fewer fields than line 1")
            yield reader.line_num, {name.strip(): value or None for name, value in row.items()}
    except csv.Error as error:
        raise Unreadable(f"line {reader.line_num} is not CSV: {error}") from error


def _again(first: str, lines: Iterable[str]) -> Iterator[str]:
    yield first
    yield from lines


def _booking(number: int, row: Mapping[str, Any]) -> Booking:
    name = row.get("delivery_id") or row.get("id")
    if not isinstance(name, str):
        raise Unreadable(f"line {number}: delivery_id is missing")
    return Booking(
        delivery_id=name,
        value=_value(number, row.get("value")),
        report=_text(number, row, "report"),
        subject=_text(number, row, "subject"),
        from_ms=_instant(number, row, "from"),
        to_ms=_instant(number, row, "to"),
        revision=_revision(number, row.get("revision")),
        digest=_text(number, row, "digest") or _text(number, row, "sha256"),
    )


def _text(number: int, row: Mapping[str, Any], name: str) -> str | None:
    found = row.get(name)
    if found is not None and not isinstance(found, str):
        raise Unreadable(f"line {number}: {name} is not text: {found!r}")
    return found


def _value(number: int, found: object) -> int | None:
    if found is None:
        return None
    value = scaled(found)
    if value is None:
        raise Unreadable(f"line {number}: value is not a decimal number: {found!r}")
    return value


def _revision(number: int, found: object) -> int | None:
    if found is None:
        return None
    try:
        return int(str(found))
    except ValueError as error:
        raise Unreadable(f"line {number}: revision is not an integer: {found!r}") from error


def _instant(number: int, row: Mapping[str, Any], name: str) -> int | None:
    found = _text(number, row, name)
    if found is None:
        return None
    try:
        return parse_instant(found)
    except (ValueError, OverflowError) as error:
        example = "2026-01-31T00:00:00Z"
        raise Unreadable(f"line {number}: {name} is not a time such as {example}") from error
