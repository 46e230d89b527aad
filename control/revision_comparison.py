"""What two revisions of a meter make of the same events, subject by subject (pure)."""

from collections.abc import Iterable
from dataclasses import dataclass

from meterline.usage import UsageRow


@dataclass(frozen=True, slots=True)
class SubjectDifference:
    """One subject in the revision in force and in another; None where it has no events there."""

    subject: str
    before: UsageRow | None
    after: UsageRow | None

    @property
    def difference(self) -> int:
        """How much more the other has, a scaled integer; where nothing counted, it is 0."""
        return _value(self.after) - _value(self.before)

    @property
    def differs(self) -> bool:
        """Whether a value differs, or how many events counted or were rejected."""
        return _values(self.before) != _values(self.after)


def compared(before: Iterable[UsageRow], after: Iterable[UsageRow]) -> list[SubjectDifference]:
    """The subjects of either answer, in order. Rows are totals by subject."""
    old = {row.subject or "": row for row in before}
    new = {row.subject or "": row for row in after}
    return [
        SubjectDifference(name, old.get(name), new.get(name)) for name in sorted({**old, **new})
    ]


def _value(row: UsageRow | None) -> int:
    return 0 if row is None or not row.count else row.value


def _values(row: UsageRow | None) -> tuple[int | None, int, int]:
    if row is None:
        return None, 0, 0
    return row.value if row.count else None, row.count, row.rejected
