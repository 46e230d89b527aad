"""Usage rows to what each subject says (pure), in memory that is bounded however many rows, or rows
of one subject, there are.

Rows come by subject and groups, in portions. What a subject says is at hand when the next one
begins. Beyond the bound of a body its entries are counted and measured, and no longer kept.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

import msgspec

from meterline.delivery import digest_of
from meterline.limits import (
    DELIVERY_BODY_BYTES_MAX,
    ENTRIES_ENCODED,
    GROUP_VALUES_COUNTED_MAX,
    LEFT_OUT_KEPT_MAX,
)
from meterline.number import text
from meterline.report.correction import Groups
from meterline.report.filter import ReportFilter
from meterline.report.run import Run
from meterline.usage import UsageRow
from meterline.window import rfc3339_ms

_DIGEST_BYTES: Final = 32


@dataclass(slots=True)
class LeftOut:
    """Groups of a subject that have usage and do not pass the filter; all others, where they are
    too many to be kept.
    """

    groups: set[Groups] = field(default_factory=set)
    too_many: bool = False

    def add(self, groups: Groups) -> None:
        """Keep one, within the bound."""
        if len(self.groups) < LEFT_OUT_KEPT_MAX:
            self.groups.add(tuple(sorted(groups)))
        else:
            self.too_many = True

    def __contains__(self, groups: object) -> bool:
        return self.too_many or groups in self.groups


@dataclass(frozen=True, slots=True)
class SubjectUsage:
    """What a subject says: the entries that passed the filter.

    `usage` is their JSON array; None where that alone is larger than a body may be. `size` is its
    length and `digest` that of its bytes, in any case. `values` has for each group-by key how many
    different values it has, up to a bound; it is empty for a subject with few entries. `rows` and
    `left_out` are kept where they are asked for, within bounds.
    """

    subject: str
    usage: bytes | None
    size: int
    digest: bytes
    entries: int
    total: int
    values: tuple[tuple[str, int], ...] = ()
    rows: tuple[UsageRow, ...] = ()
    left_out: LeftOut = field(default_factory=LeftOut)


@dataclass(slots=True)
class Figures:
    """What a run says of all its entries; values are scaled integers."""

    entries: int = 0
    filtered_out: int = 0
    total: int = 0
    total_filtered_out: int = 0


class Gathering:
    """Judges rows by a filter and gathers what each subject says."""

    def __init__(self, run: Run, filter_: ReportFilter, *, keeps_rows: bool = False) -> None:
        self.figures = Figures()
        self._filter = filter_
        self._keeps_rows = keeps_rows
        self._window = (rfc3339_ms(run.from_ms), rfc3339_ms(run.to_ms))
        self._open: _Subject | None = None

    def add(self, rows: Iterable[UsageRow]) -> list[SubjectUsage]:
        """Take rows in; the subjects that ended, those with an entry that passed."""
        ended: list[SubjectUsage] = []
        figures, open_ = self.figures, self._open
        for row in rows:
            assert row.subject is not None, "reports are split by subject"
            if open_ is None or open_.subject != row.subject:
                ended += self.end()
                self._open = open_ = _Subject(row.subject, self._window, keeps=self._keeps_rows)
            if self._filter.accepts(row.subject, row.value):
                figures.entries += 1
                figures.total += row.value
                open_.add(row)
            else:
                figures.filtered_out += 1
                figures.total_filtered_out += row.value
                open_.leave_out(row)
        return ended

    def end(self) -> list[SubjectUsage]:
        """The subject that is open, if any of its entries passed: no more rows of it come."""
        open_, self._open = self._open, None
        return [] if open_ is None or not open_.entries else [open_.finished()]


class _Subject:
    """One subject while its rows come."""

    def __init__(self, subject: str, window: tuple[str, str], *, keeps: bool) -> None:
        self.subject = subject
        self.entries = 0
        self._window = window
        self._keeps = keeps
        self._total = 0
        self._waiting: list[UsageRow] = []
        self._rows: list[UsageRow] = []
        self._left_out = LeftOut()
        self._parts: list[bytes] | None = []  # None once they are too many
        self._size = 1  # of the array so far: "[", then entries with "," or "]" behind each
        self._digest = blake2b(b"[", digest_size=_DIGEST_BYTES)
        self._values: dict[str, set[int]] = {}

    def add(self, row: UsageRow) -> None:
        self.entries += 1
        self._total += row.value
        self._waiting.append(row)
        if len(self._waiting) >= ENTRIES_ENCODED:
            self._count_values()
            self._encode()

    def leave_out(self, row: UsageRow) -> None:
        if self._keeps:
            self._left_out.add(row.groups)

    def finished(self) -> SubjectUsage:
        if self._size == 1:  # few entries, as nearly always: no need for parts
            usage = msgspec.json.encode(self._documents())
            if len(usage) <= DELIVERY_BODY_BYTES_MAX:
                return self._with(usage, len(usage), digest_of(usage), self._waiting)
        self._count_values()
        self._encode()
        self._digest.update(b"]")
        whole = None if self._parts is None else b"[" + b",".join(self._parts) + b"]"
        return self._with(whole, self._size, self._digest.digest(), self._rows)

    def _with(
        self, usage: bytes | None, size: int, digest: bytes, rows: Sequence[UsageRow]
    ) -> SubjectUsage:
        return SubjectUsage(
            self.subject,
            usage,
            size,
            digest,
            self.entries,
            self._total,
            tuple((name, len(found)) for name, found in self._values.items()),
            tuple(rows) if self._keeps else (),
            self._left_out,
        )

    def _documents(self) -> list[dict[str, object]]:
        from_, to = self._window
        return [
            {
                "subject": self.subject,
                "value": msgspec.Raw(text(row.value).encode()),
                "valueText": text(row.value),
                "groupBy": dict(row.groups),
                "windowStart": from_,
                "windowEnd": to,
            }
            for row in self._waiting
        ]

    def _encode(self) -> None:
        """Move what waits into the parts; drop all of them beyond the bound."""
        if not self._waiting:
            return
        part = msgspec.json.encode(self._documents())[1:-1]
        if self._size > 1:
            self._digest.update(b",")
        self._digest.update(part)
        self._size += len(part) + 1
        if self._size > DELIVERY_BODY_BYTES_MAX:
            self._parts = None
            self._rows = []
        if self._parts is not None:
            self._parts.append(part)
            if self._keeps:
                self._rows += self._waiting
        self._waiting = []

    def _count_values(self) -> None:
        for row in self._waiting:
            for name, value in row.groups:
                found = self._values.setdefault(name, set())
                if len(found) < GROUP_VALUES_COUNTED_MAX:
                    found.add(hash(value))


def too_large(usage: SubjectUsage, size: int) -> str:
    """Why a subject's delivery cannot be made, and what to do, in words; `size` is the length that
    its body would have.
    """
    counted = ", ".join(
        f"{name} {'at least ' if number >= GROUP_VALUES_COUNTED_MAX else ''}{number:,}"
        for name, number in sorted(usage.values, key=lambda it: -it[1])
    )
    keys = f" Its group-by keys have so many values: {counted}." if counted else ""
    return (
        f"The body for subject {usage.subject!r} would have {size:,} bytes in {usage.entries:,}"
        f" entries, more than the {DELIVERY_BODY_BYTES_MAX:,} bytes that can be sent.{keys} Group"
        " the report by fewer keys, or filter it; then ask for a revision of this window"
        " (`revise: true`)."
    )
