"""How the rows of a CSV file become CloudEvents: the mapping that `meterline send --map` takes.

A mapping is a list of `TARGET=SOURCE[:TYPE]`, with commas between.

TARGET is an attribute of the event (id, source, type, subject, time, ...), `data.NAME`,
`data.NAME.NAME`, or `data`. SOURCE is the name of a column, or a text in single quotes, in which
`{column}` stands for a cell and `{#}` for the number of the row. TYPE is string (default), number,
boolean, json, or a way to read a time: time (ISO 8601; UTC where it has no offset), unix, unix_ms.
An empty cell is null; an attribute that is null is left out.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Final

import msgspec

from meterline.window import rfc3339

REQUIRED: Final = ("id", "source", "type", "subject")
ROW_NUMBER: Final = "#"
_ENTRY: Final = re.compile(
    r"""\s*(?P<target>[A-Za-z_]\w*(?:\.\w+)*)\s*=\s*
    (?:'(?P<text>(?:[^']|'')*)'|(?P<column>[^,:'"={}\s][^,:'"={}]*?))\s*
    (?::\s*(?P<type>\w+)\s*)?(?:,|$)""",
    re.VERBOSE | re.ASCII,
)
_PIECE: Final = re.compile(r"\{\{|\}\}|\{([^{}]+)\}")
_JSON_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_OTHER_NUMBER: Final = re.compile(
    r"(?P<sign>[+-]?)0*(?P<whole>[0-9]*)\.?(?P<fraction>[0-9]*)(?P<exponent>[eE][+-]?[0-9]+)?",
    re.ASCII,
)
UNIX_MAX: Final = 10**15  # far beyond the year 9999, also in milliseconds
_TRUTH: Final = {"true": True, "1": True, "false": False, "0": False}


class MappingError(ValueError):
    """A mapping, or a row that it cannot be used on; the text says why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One target and where its value comes from: pieces of text and cells, by turns."""

    target: tuple[str, ...]
    texts: tuple[str, ...]  # one more than columns
    columns: tuple[str, ...]
    kind: str

    @property
    def is_one_cell(self) -> bool:
        """Whether the source is a single cell, which may be null."""
        return len(self.columns) == 1 and self.texts == ("", "")


def parse_mapping(texts: Sequence[str]) -> tuple[Entry, ...]:
    """The entries of all mappings, none for none. Raises `MappingError`."""
    entries = [entry for text in texts for entry in _entries(text)]
    if not entries:
        return ()
    targets = [".".join(entry.target) for entry in entries]
    for number, target in enumerate(targets):
        for other in targets[:number]:
            if other == target or other.startswith(f"{target}.") or target.startswith(f"{other}."):
                raise MappingError(f"{other} and {target} cannot both be mapped")
    missing = [name for name in REQUIRED if name not in targets]
    if missing:
        raise MappingError(
            f"the mapping has no {', '.join(missing)}: add for example "
            f"{missing[0]}=column, or {missing[0]}='text'"
        )
    return tuple(entries)


def _entries(text: str) -> list[Entry]:
    entries = []
    at = 0
    while at < len(text):
        found = _ENTRY.match(text, at)
        if found is None:
            rest = text[at:].strip()
            raise MappingError(
                f"cannot read {rest[:60]!r}; an entry is target=column, target=column:number or "
                "target='text {column}'"
            )
        entries.append(_entry(found))
        at = found.end()
    return entries


def _entry(found: re.Match[str]) -> Entry:
    target, kind = tuple(found["target"].split(".")), found["type"] or "string"
    if kind not in READERS:
        raise MappingError(f"{kind} is not a type; types are {', '.join(READERS)}")
    if target[0] != "data" and (len(target) > 1 or kind not in ATTRIBUTE_KINDS):
        kinds = ", ".join(ATTRIBUTE_KINDS)
        raise MappingError(
            f"{found['target']}: an attribute has no parts, and its type is one of {kinds}"
        )
    if target == ("data",) and kind != "json":
        raise MappingError("data must be a column with JSON: write data=column:json")
    if found["column"] is not None:
        return Entry(target, ("", ""), (found["column"],), kind)
    texts, columns = _pieces(found["text"].replace("''", "'"))
    return Entry(target, texts, columns, kind)


def _pieces(template: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    texts, columns, at = [""], [], 0
    for found in _PIECE.finditer(template):
        texts[-1] += template[at : found.start()]
        if found[1] is None:
            texts[-1] += found[0][0]
        else:
            columns.append(found[1])
            texts.append("")
        at = found.end()
    texts[-1] += template[at:]
    return tuple(texts), tuple(columns)


class RowReader:
    """Makes events of rows whose columns are known."""

    def __init__(
        self, entries: Sequence[Entry], header: Sequence[str], nulls: Sequence[str] = ("",)
    ) -> None:
        """Raises `MappingError` where a column is not in the header."""
        places = {name: place for place, name in enumerate(header)}
        self._nulls = frozenset(nulls)
        self._width = len(header)
        self._plan: list[tuple[Entry, tuple[int, ...]]] = []
        for entry in entries:
            unknown = [c for c in entry.columns if c not in places and c != ROW_NUMBER]
            if unknown:
                listed = ", ".join(header)
                raise MappingError(f"there is no column {unknown[0]!r}; columns are {listed}")
            self._plan.append((entry, tuple(places.get(c, -1) for c in entry.columns)))

    def event(self, row: Sequence[str], number: int) -> bytes:
        """The JSON of the event in a row. Raises `MappingError` that names column and cell."""
        if len(row) != self._width:
            raise MappingError(f"has {len(row)} cells, the header has {self._width}")
        event: dict[str, object] = {"specversion": "1.0"}
        for entry, places in self._plan:
            value = self._value(entry, places, row, number)
            if value is None and entry.target[0] != "data":
                if entry.target[0] in REQUIRED:
                    where = f" (column {entry.columns[0]!r})" if entry.columns else ""
                    raise MappingError(f"{entry.target[0]}{where} is empty")
                continue
            _put(event, entry.target, value)
        return msgspec.json.encode(event)

    def _value(
        self, entry: Entry, places: tuple[int, ...], row: Sequence[str], number: int
    ) -> object:
        cells = [str(number) if place < 0 else row[place] for place in places]
        if entry.is_one_cell:
            if cells[0] in self._nulls:
                return None
            text = cells[0]
        else:
            known = ["" if cell in self._nulls else cell for cell in cells]
            text = entry.texts[0] + "".join(
                cell + after for cell, after in zip(known, entry.texts[1:], strict=True)
            )
        try:
            return READERS[entry.kind](text)
        except ValueError as error:
            where = f"column {entry.columns[0]!r}" if entry.is_one_cell else ".".join(entry.target)
            raise MappingError(f"{where}: {text[:100]!r} {error}") from error


def _put(event: dict[str, object], target: tuple[str, ...], value: object) -> None:
    at = event
    for name in target[:-1]:
        inner = at.setdefault(name, {})
        assert isinstance(inner, dict), "targets do not lie within each other"
        at = inner
    at[target[-1]] = value


def _number(text: str) -> msgspec.Raw:
    """The number with all its digits, as JSON writes it."""
    text = text.strip()
    if not _JSON_NUMBER.fullmatch(text):
        found = _OTHER_NUMBER.fullmatch(text)
        if found is None or not (found["whole"] or found["fraction"] or "0" in text):
            raise ValueError("is not a number")
        fraction = f".{found['fraction']}" if found["fraction"] else ""
        sign = found["sign"].replace("+", "")
        text = f"{sign}{found['whole'] or '0'}{fraction}{found['exponent'] or ''}"
    return msgspec.Raw(text.encode())


def _boolean(text: str) -> bool:
    value = _TRUTH.get(text.strip().lower())
    if value is None:
        raise ValueError("must be true, false, 1 or 0")
    return value


def _json(text: str) -> msgspec.Raw:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from error
    return msgspec.Raw(text.encode())


def _time(text: str) -> str:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ValueError("is not a time such as 2026-01-31T00:00:00Z") from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()


def _unix(text: str, scale: int) -> str:
    try:
        seconds = Decimal(text.strip())
        if not abs(seconds) < UNIX_MAX:
            raise ValueError("is out of range")
        return rfc3339(int(seconds * scale))
    except (InvalidOperation, OverflowError, ValueError, OSError) as error:
        raise ValueError("is not a unix time") from error


READERS: Final[Mapping[str, Callable[[str], object]]] = {
    "string": lambda text: text,
    "number": _number,
    "boolean": _boolean,
    "json": _json,
    "time": _time,
    "unix": lambda text: _unix(text, 1_000),
    "unix_ms": lambda text: _unix(text, 1),
}
ATTRIBUTE_KINDS: Final = ("string", "time", "unix", "unix_ms")
