"""The oracle: what must be in the store, counted anew from the bytes of the log and from what
senders were told. It shares no code with the product's reading, folding or judging: JSON by the
standard library, numbers as fractions, verdicts by a dictionary.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from hashlib import blake2b
from typing import Any, Final

Identity = tuple[str, str]
_UNIT: Final = 10**18
_LIMIT: Final = 10**20


@dataclass(frozen=True, slots=True)
class Read:
    """An event of the log, as the oracle reads it."""

    partition: int
    offset: int
    place: int
    append_ms: int  # running maximum of records with events
    identity: Identity
    type: str
    subject: str
    time_ms: int
    recorded_ms: int
    own_time: bool
    data: Any

    @property
    def payload(self) -> str:
        """What a copy must repeat."""
        own = self.time_ms if self.own_time else None
        return json.dumps([self.type, self.subject, own, self.data], sort_keys=True, default=str)


@dataclass(slots=True)
class Recount:
    """What the log says: the events that count, and how many of each verdict there are."""

    counted: list[Read] = field(default_factory=list)
    verdicts: Counter[str] = field(default_factory=Counter)
    by_partition: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    places: dict[Identity, set[int]] = field(default_factory=lambda: defaultdict(set))


def recount(
    partitions: Iterable[Iterable[tuple[int, int, str, bytes]]],
    horizon_ms: int,
    made_with: int | None = None,
) -> Recount:
    """Of records (offset, append time, kind, value), partition by partition. A log that was made
    with fewer has grown since: behind its mark, a partition has no events of others; and each new
    one goes on from another one as that was at its mark, with its append time.
    """
    result = Recount()
    at_marks: dict[tuple[int, int], tuple[dict[Identity, Read], int]] = {}
    sizes = [] if made_with is None else [made_with]
    for partition, records in enumerate(partitions):
        latest: dict[Identity, Read] = {}
        append_ms, belongs = 0, 0
        before = max((size for size in sizes if size <= partition), default=0)
        if before:
            after = min((size for size in sizes if size > partition), default=0)
            others, append_ms = at_marks.get((partition % before, after), ({}, 0))
            latest = dict(others)
        for offset, at_ms, kind, value in records:
            if kind == "mark" and json.loads(value)["partitions"] > belongs:
                belongs = json.loads(value)["partitions"]
                at_marks[partition, belongs] = dict(latest), append_ms
                sizes.append(belongs)
            items = _items(kind, value)
            if items:  # another one may expire before everybody has seen it
                append_ms = max(append_ms, at_ms)
            for place, item in enumerate(items):
                event = _read(partition, offset, place, append_ms, item)
                if event is not None and belongs and _home(item, belongs) != partition:
                    event = None
                verdict = _verdict(event, latest, horizon_ms)
                result.verdicts[verdict] += 1
                result.by_partition[partition][verdict] += 1
                if event is not None:
                    result.places[event.identity].add(partition)
                if verdict == "new":
                    assert event is not None, "only what can be read is new"
                    latest[event.identity] = event
                    result.counted.append(event)
    return result


def _verdict(event: Read | None, latest: dict[Identity, Read], horizon_ms: int) -> str:
    if event is None:
        return "invalid"
    first = latest.get(event.identity)
    if first is None or event.append_ms - first.append_ms > horizon_ms:
        return "new"
    return "duplicate" if first.payload == event.payload else "conflict"


def _home(item: dict[str, str], partitions: int) -> int:
    space, source = item["namespace"], item["source"]
    text = f"{len(space)}:{space}{len(source)}:{source}{item['id']}"
    return int(blake2b(text.encode(), digest_size=16).hexdigest()[:8], 16) % partitions


def _items(kind: str, value: bytes) -> list[Any]:
    if kind == "refusal":
        return [None]
    if kind == "mark":
        return []
    try:
        found = json.loads(value.decode(), parse_float=Fraction, parse_int=Fraction)
    except ValueError:
        return [None]
    return found if isinstance(found, list) else [None]


def _read(partition: int, offset: int, place: int, append_ms: int, item: Any) -> Read | None:
    names = ("id", "source", "type", "subject", "namespace", "recordedtime")
    if not isinstance(item, dict) or not all(isinstance(item.get(name), str) for name in names):
        return None
    recorded_ms = _ms(item["recordedtime"])
    time = item.get("time")
    return Read(
        partition,
        offset,
        place,
        append_ms,
        (item["source"], item["id"]),
        item["type"],
        item["subject"],
        recorded_ms if time is None else _ms(time),
        recorded_ms,
        time is not None,
        item.get("data"),
    )


def _ms(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return round(Fraction(str(moment.timestamp())) * 1000)


# --- meters ---


@dataclass(slots=True)
class Cell:
    """What one minute of one subject and group must show."""

    values: list[Any] = field(default_factory=list)
    rejected: int = 0


def expected(
    counted: Iterable[Read],
    event_type: str,
    aggregation: str,
    path: str | None,
    dimensions: Iterable[str],
) -> dict[tuple[int, str, tuple[str, ...]], tuple[Fraction, int, int]]:
    """By (minute, subject, group values): value, counted, rejected; only cells where some counted.

    Paths are `$.name` here.
    """
    cells: dict[tuple[int, str, tuple[str, ...]], list[tuple[Read, Any]]] = defaultdict(list)
    rejected: Counter[tuple[int, str, tuple[str, ...]]] = Counter()
    for event in counted:
        if event.type != event_type:
            continue
        data = event.data if isinstance(event.data, dict) else {}
        groups = tuple(_text(data.get(name[2:])) or "" for name in dimensions)
        key = (event.time_ms // 60_000, event.subject, groups)
        found = data.get(path[2:]) if path is not None else 1
        value: Any = _text(found) if aggregation == "unique_count" else _number(found)
        if value is None:
            rejected[key] += 1
        else:
            cells[key].append((event, value))
    return {
        key: (_value(aggregation, pairs), len(pairs), rejected[key]) for key, pairs in cells.items()
    }


def _value(aggregation: str, pairs: list[tuple[Read, Any]]) -> Fraction:
    values: list[Fraction] = [value for _, value in pairs]
    match aggregation:
        case "sum":
            return sum(values, Fraction(0))
        case "count":
            return Fraction(len(values))
        case "min":
            return min(values)
        case "max":
            return max(values)
        case "avg":
            return Fraction(round(sum(values, Fraction(0)) / len(values) * _UNIT), _UNIT)
        case "unique_count":
            return Fraction(len(set(values)))
        case _:
            newest = max(pairs, key=lambda pair: (pair[0].time_ms, pair[0].recorded_ms))
            ties = {
                value
                for event, value in pairs
                if (event.time_ms, event.recorded_ms) == (newest[0].time_ms, newest[0].recorded_ms)
            }
            return newest[1] if len(ties) == 1 else Fraction(-1, 7)  # decided by a hash: not here


TIED: Final = Fraction(-1, 7)


def _number(value: Any) -> Fraction | None:
    if isinstance(value, str):
        try:
            value = Fraction(value)
        except ValueError:
            return None
    if not isinstance(value, Fraction | int) or isinstance(value, bool):
        return None
    number = Fraction(value)
    return number if abs(number) < _LIMIT else None


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Fraction | int):
        return str(value)
    return value if isinstance(value, str) else None
