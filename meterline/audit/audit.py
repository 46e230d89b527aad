"""The audit: what is stored, recounted from the raw events by other means than it was made by.

A step of it looks at a run of slices of one partition, a block, or a few runs of reports; `next`
leads to the following step. Findings name where something differs, what was expected and what was
found.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from meterline.meter import Meter
from meterline.number import text
from meterline.usage import MemberRow, RejectedRow, Seal, TallyRow
from meterline.window import MINUTE_MS, rfc3339

ERASED: Final = "erased"  # as `Kept.what`
ABSENT: Final = "nothing"
PRESENT: Final = "a row"
NEVER: Final = (1 << 63) - 1  # above every position and every instant
_CURSOR: Final = re.compile(
    r"slices\.([0-9]{1,5})\.([0-9]{1,5})\.([0-9]{1,18})|blocks\.([0-9]{1,5})\.([0-9]{1,20})|runs\.([0-9]{1,15})\.(run_[a-z2-7]{32})?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class AuditSpan:
    """What was appended, and which runs were decided, in [from_ms, to_ms); None: no border.

    Slices are looked at whole. `payloads` asks for a check of every event's contents against its
    hash as well, which is made by itself where anything differs.
    """

    from_ms: int | None = None
    to_ms: int | None = None
    payloads: bool = False
    repair: bool = False


class SlicePlace(NamedTuple):
    """The step begins with the first slice of a partition from this offset on."""

    log: int
    partition: int
    slice: int


class BlockPlace(NamedTuple):
    """The step begins with the first block of a log from this number on."""

    log: int
    number: int


class RunPlace(NamedTuple):
    """The step begins with the first run decided after this one."""

    decided_at_ms: int
    run_id: str


Place = SlicePlace | BlockPlace | RunPlace
_KINDS: Final = {SlicePlace: "slices", BlockPlace: "blocks", RunPlace: "runs"}


@dataclass(frozen=True, slots=True)
class Chunk:
    """Slices of one partition that are looked at together. Their rows lie at offsets in [first,
    end) and positions up to `upto`; later ones of an open slice are on their way. Of usage before
    the minute `minutes_from` only late rows are kept: there it has no others. What is a copy may be
    one of an event in `parents`, the partitions that this one goes on from.
    """

    log: int
    partition: int
    slices: tuple[int, ...]
    first: int
    end: int
    upto: int = NEVER
    minutes_from: int = 0
    parents: tuple[int, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether rows may be written to it at this moment."""
        return self.upto != NEVER


@dataclass(frozen=True, slots=True)
class Touched:
    """What there is in a chunk: (namespace, type) of its events, revisions of its cells."""

    types: Collection[tuple[str, str]]
    revisions: Collection[int]

    def has_any_of(self, meter: Meter) -> bool:
        """Whether a meter has anything there. Of one that has nothing, a recount finds nothing."""
        of_it = (meter.namespace, meter.event_type) in self.types
        return of_it or meter.revision in self.revisions


@dataclass(frozen=True, slots=True)
class Filled:
    """Which slices of a partition were filled in: by revision all before an offset, and marks as
    (slice, revision).
    """

    ends: Mapping[int, int]
    marks: Collection[tuple[int, int]]

    def holds(self, slice_: int, revision: int) -> bool:
        """Whether a slice was filled in for a revision."""
        return slice_ < self.ends.get(revision, 0) or (slice_, revision) in self.marks

    def held(self, seals: Sequence[Seal], revision: int) -> tuple[int, ...]:
        """The slices that are counted for a revision: as their seals tell, or filled in."""
        return tuple(
            seal.slice
            for seal in seals
            if seal.catalogue >= revision or self.holds(seal.slice, revision)
        )


class Kept(NamedTuple):
    """Rows of a slice: of `events`, `seen`, or of rejects by their verdict; and which of the events
    are `erased`.
    """

    what: str
    slice: int
    rows: int


class Strange(NamedTuple):
    """An event, or the trace of one, that does not fit what is kept beside it."""

    table: str
    slice: int
    offset: int
    place: int
    expected: str
    found: str


class TallyValues(NamedTuple):
    """What a tally says. Numbers are scaled integers."""

    version: int
    total: int
    counted: int
    rejected: int
    minimum: int
    maximum: int
    latest_time_ms: int
    latest_recorded_ms: int
    latest_key: bytes
    latest: int


class CellDifference(NamedTuple):
    """A row of a cell that is not as it should be; None where there should be, or is, none.

    `name` is empty for a tally; else it says which member, or where the rejected event lies.
    """

    table: str
    slice: int
    subject: str
    groups: tuple[str, ...]
    window: int
    name: str
    expected: TallyValues | None
    found: TallyValues | None


@dataclass(slots=True)
class Recount:
    """What a meter's rows of a chunk came to. `unsettled` are slices with values that SQL cannot
    read exactly: they were not compared.
    """

    events: int = 0
    cells: int = 0
    moving: int = 0  # cells that are being written just now
    unsettled: tuple[int, ...] = ()
    differences: list[CellDifference] = field(default_factory=list)


class CellRows(NamedTuple):
    """What is stored of a slice and a revision, as the engine shows it once merged."""

    tallies: Sequence[TallyRow]
    members: Sequence[MemberRow]
    rejected: Sequence[RejectedRow]


class AuditedRun(NamedTuple):
    """A decided run: its manifest, and its deliveries as (number, id, digest)."""

    id: str
    report_id: str
    decided_at_ms: int
    deliveries: int
    digest: str
    parts: tuple[tuple[int, str, bytes], ...]


class AuditedBody(NamedTuple):
    """A delivery's digest and the bytes that it names; None: there are none."""

    number: int  # in its run
    id: str
    digest: bytes
    body: bytes | None


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference. `place` is a partition, `log.partition`, a slice of it,
    `log.partition.slice`, a block, `log.number`, or the id of a run or delivery.
    """

    table: str
    place: str
    name: str
    expected: str
    found: str
    mended: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        """What it is about."""
        return self.table, self.place, self.name


@dataclass(slots=True)
class AuditStep:
    """What a step looked at, and what it found. `omitted` findings are not listed."""

    findings: list[Finding] = field(default_factory=list)
    omitted: int = 0
    slices: int = 0
    slices_total: int = 0
    events: int = 0
    cells: int = 0
    folded: int = 0  # slices of a meter that were recounted by the fold, since SQL cannot
    unfilled: int = 0  # slices that a meter is still to be filled in from
    not_kept: int = 0  # slices whose events or minutes are not kept any more: not recounted
    erased: int = 0  # events of erased subjects: they cannot be recounted
    moving: int = 0
    blocks: int = 0
    blocks_not_kept: int = 0  # their minutes are not kept any more: they are not recounted
    runs: int = 0
    runs_total: int = 0
    deliveries: int = 0
    next: str | None = None


def values_of(row: TallyRow) -> TallyValues:
    """What a tally says."""
    return TallyValues(*row[7:])


def described(values: TallyValues | None, other: TallyValues | None) -> str:
    """A tally in words: where there is another one, only what differs."""
    if values is None:
        return ABSENT
    parts = []
    for name, value in zip(TallyValues._fields, values, strict=True):
        if other is None:
            if value in (0, bytes(16)) and name != "counted":
                continue
        elif value == getattr(other, name):
            continue
        parts.append(f"{name} {_shown(name, value)}")
    return ", ".join(parts)


def _shown(name: str, value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, int) and name in ("total", "minimum", "maximum", "latest"):
        return text(value)
    return str(value)


def cell_named(subject: str, groups: dict[str, str], window: int) -> str:
    """A cell in words."""
    split = "".join(f", {name} {value!r}" for name, value in groups.items())
    return f"subject {subject!r}{split}, {rfc3339(window * MINUTE_MS)}"


def encode_place(place: Place) -> str:
    """The cursor of a step."""
    return ".".join((_KINDS[type(place)], *map(str, place)))


def decode_place(cursor: str) -> Place:
    """The step that a cursor leads to. Raises `ValueError` for what `encode_place` never made."""
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise ValueError("is not a cursor; send `next` of the previous step unchanged")
    log, partition, slice_, block_log, block, decided_at, run_id = found.groups()
    if block is not None:
        return BlockPlace(int(block_log), int(block))
    if decided_at is not None:
        return RunPlace(int(decided_at), run_id or "")
    return SlicePlace(int(log), int(partition), int(slice_))
