"""The list of events: what is asked for, how a page follows another, what is listed (OpenMeter's
v3).

A page continues after an event, by its place in the order and not by a count, so events that come
in between move nothing: none is shown twice, none of those that were there is left out.
"""

import base64
import binascii
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from meterline.event.verdict import Verdict
from meterline.limits import EVENT_CURSOR_CHARS_MAX

_CURSOR: Final = re.compile(
    r"(time|ingested_at|stored_at) (asc|desc) ([0-9]{1,15})"
    r" ([0-9]{1,5})\.([0-9]{1,5})\.([0-9]{1,18})\.([0-9]{1,5})",
    re.ASCII,
)
_SMALL: Final = 1 << 16  # log, partition and place are 16 bits wide


class Column(StrEnum):
    """What a condition can be on."""

    ID = "id"
    SOURCE = "source"
    SUBJECT = "subject"
    TYPE = "type"
    TIME = "time"  # of the event
    INGESTED_AT = "ingested_at"  # when it was received: its recordedtime
    STORED_AT = "stored_at"  # when it was appended to the log


INSTANTS: Final = (Column.TIME, Column.INGESTED_AT, Column.STORED_AT)


class Op(StrEnum):
    """Operators of a condition. On instants only eq, gt, gte, lt, lte, and, or."""

    EQ = "eq"
    NE = "ne"
    IN = "in"
    NIN = "nin"
    CONTAINS = "contains"  # whatever the case of letters, as the peer has it
    LIKE = "like"  # % stands for any text, _ for any character, \ before one of them for itself
    NLIKE = "nlike"
    ILIKE = "ilike"  # whatever the case of letters
    NILIKE = "nilike"
    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"
    EXISTS = "exists"
    NEXISTS = "nexists"
    AND = "and"
    OR = "or"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on one value: text, or an instant in unix milliseconds. Texts are ordered by
    their code points.

    `and` and `or` have `parts`, `in` and `nin` any number of values, `exists` and `nexists` none,
    the rest one.
    """

    op: Op
    values: tuple[str | int, ...] = ()
    parts: tuple["Condition", ...] = ()


def like_parts(pattern: str) -> list[str]:
    r"""The parts of a pattern: `%`, `_`, or one character, as itself or behind a backslash.

    A backslash that stands before none of `%`, `_` and itself is just a backslash.
    """
    return re.findall(r"\\[%_\\]|.", pattern, re.DOTALL)


class Place(NamedTuple):
    """Where an event stands in a list: the instant that is sorted by, then its position."""

    at_ms: int
    log: int
    partition: int
    offset: int
    place: int


@dataclass(frozen=True, slots=True)
class Order:
    """What a list is sorted by; positions decide between equal instants."""

    by: Column = Column.TIME
    descending: bool = True


@dataclass(frozen=True, slots=True)
class EventQuery:
    """A page of the events of one namespace.

    `verdicts` are those that are shown. What is unreadable in a pack belongs to no namespace; it is
    shown only where `unowned` says so. `now_ms` is where a search for the latest begins.
    """

    namespace: str
    now_ms: int
    limit: int
    conditions: tuple[tuple[Column, Condition], ...] = ()
    verdicts: frozenset[Verdict] = frozenset({Verdict.NEW})
    order: Order = Order()
    after: Place | None = None
    unowned: bool = False


@dataclass(frozen=True, slots=True)
class SubjectQuery:
    """At most `limit` subjects of new events of a namespace that meet conditions, joined by and;
    by code points, from the one after a subject.
    """

    namespace: str
    limit: int
    conditions: tuple[tuple[Column, Condition], ...] = ()
    after: str | None = None


class EventSubject(NamedTuple):
    """A subject, and the first and the last `time` of those of its events that were asked for."""

    subject: str
    first_ms: int
    last_ms: int


class ListedEvent(NamedTuple):
    """An event with its verdict. `first` is the position of the new event with the same identity,
    in the same log and partition, where there is one (`NO_POSITION`: none).
    """

    log: int
    partition: int
    offset: int
    place: int
    append_ms: int
    namespace: str
    type: str
    subject: str
    source: str
    id: str
    time_ms: int
    recorded_ms: int
    text: bytes  # JSON, as it stands in the log; for what is invalid, the beginning of anything
    verdict: Verdict
    first: int
    field: str
    reason: str

    @property
    def position(self) -> str:
        """Where it lies, as it is shown."""
        return f"{self.log}.{self.partition}.{self.offset}.{self.place}"

    def place_by(self, order: Order) -> Place:
        """Where it stands in a list of that order."""
        instants = {
            Column.TIME: self.time_ms,
            Column.INGESTED_AT: self.recorded_ms,
            Column.STORED_AT: self.append_ms,
        }
        return Place(instants[order.by], self.log, self.partition, self.offset, self.place)


def encode_cursor(order: Order, place: Place) -> str:
    """The cursor that leads to what comes after `place`: opaque, safe in a URL."""
    at_ms, *position = place
    where = ".".join(str(part) for part in position)
    text = f"{order.by.value} {_direction(order)} {at_ms} {where}"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(text: str, order: Order) -> Place:
    """Where a page begins. Raises `ValueError` with words for what `encode_cursor` never made, and
    for a cursor of a list in another order.
    """
    try:
        made, place = _decoded(text)
    except (ValueError, TypeError, binascii.Error) as error:
        raise ValueError(
            "is not a cursor of this list; send the one of the page before unchanged"
        ) from error
    if made != order:
        message = f"{made.by.value} {_direction(made)}"
        raise ValueError(f"continues a list sorted by {message}; keep the order of that list")
    return place


def _direction(order: Order) -> str:
    return "desc" if order.descending else "asc"


def _decoded(text: str) -> tuple[Order, Place]:
    if len(text) > EVENT_CURSOR_CHARS_MAX:
        raise ValueError("too long")
    padded = text + "=" * (-len(text) % 4)
    plain = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
    found = _CURSOR.fullmatch(plain)
    if found is None:
        raise ValueError("made by nobody here")
    by, direction, *numbers = found.groups()
    order, place = Order(Column(by), direction == "desc"), Place(*(int(part) for part in numbers))
    if max(place.log, place.partition, place.place) >= _SMALL:
        raise ValueError("a position that no event has")
    return order, place
