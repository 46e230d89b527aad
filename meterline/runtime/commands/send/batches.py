"""Events out of a file or a pipe, in batches: NDJSON as it is, CSV by a mapping."""

import csv
import io
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

import msgspec

from meterline.runtime.commands.send.mapping import Entry, MappingError, RowReader

CELL_CHARS_MAX: Final = 16 * 1024 * 1024  # Python's own bound is too small for a cell of JSON


class InputError(Exception):
    """The input cannot be read as it should; the text names the line."""


@dataclass(frozen=True, slots=True)
class Line:
    """One event as JSON, and the line of the input that it ends on (from 1)."""

    number: int
    event: bytes


@dataclass(frozen=True, slots=True)
class Batch:
    """Events of one request. `read` is how many bytes of the input were read when it was full."""

    lines: tuple[Line, ...]
    read: int

    @property
    def body(self) -> bytes:
        """A CloudEvents JSON batch."""
        return b"[" + b",".join([line.event for line in self.lines]) + b"]"


def ndjson_lines(source: BinaryIO) -> Generator[Line]:
    """One event a line; empty lines are passed over. Raises `InputError`."""
    decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
    for number, line in enumerate(source, start=1):
        text = line.removeprefix(b"\xef\xbb\xbf").strip() if number == 1 else line.strip()
        if not text:
            continue
        try:
            decoder.decode(text.decode())  # as a text: the decoder looks into no raw string
        except (ValueError, RecursionError) as error:
            hint = ". Write one event per line" if text.startswith(b"[") else ""
            raise InputError(f"line {number} is not a JSON object: {error}{hint}") from error
        yield Line(number, text)


def csv_lines(
    source: BinaryIO, entries: Sequence[Entry], nulls: Sequence[str], delimiter: str = ","
) -> Generator[Line]:
    """One event a row, the first row names the columns. Raises `InputError`."""
    csv.field_size_limit(CELL_CHARS_MAX)
    text = io.TextIOWrapper(source, encoding="utf-8-sig", newline="")
    rows = csv.reader(text, delimiter=delimiter, strict=True)
    try:
        header = next(rows, None)
        if header is None:
            raise InputError("the input is empty; its first line must name the columns")
        reader = RowReader(entries, header, nulls)
        for number, row in enumerate(rows, start=1):
            if row:
                yield Line(rows.line_num, reader.event(row, number))
    except (MappingError, csv.Error) as error:
        raise InputError(f"line {rows.line_num}: {error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"near line {rows.line_num + 1}: not UTF-8: {error}") from error
    finally:
        text.detach()  # the source is the caller's to close


def batches(lines: Iterator[Line], source: BinaryIO, events: int, size: int) -> Generator[Batch]:
    """Batches of at most `events` events and, but for one larger event, `size` bytes."""
    full: list[Line] = []
    held = 0
    for line in lines:
        if full and (len(full) == events or held + len(line.event) > size):
            yield Batch(tuple(full), _tell(source))
            full, held = [], 0
        full.append(line)
        held += len(line.event) + 1
    if full:
        yield Batch(tuple(full), _tell(source))


def _tell(source: BinaryIO) -> int:
    try:
        return source.tell()
    except (OSError, ValueError):  # a pipe has no place
        return 0
