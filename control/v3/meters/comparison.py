"""What two revisions of a meter make of the same events, subject by subject."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from meterline.usage import UsageRow

Blocks = AsyncIterator[list[UsageRow]]


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


@dataclass(slots=True)
class Comparison:
    """A page of the subjects behind `after`, equal ones too if they are wanted, and one more where
    there are more; all others are only counted, for there may be a million.
    """

    limit: int
    after: str | None = None
    include_equal: bool = False
    subjects: int = 0
    differing: int = 0
    found: list[SubjectDifference] = field(default_factory=list)

    def add(self, one: SubjectDifference) -> None:
        """The next subject, by name."""
        self.subjects += 1
        self.differing += one.differs
        wanted = self.include_equal or one.differs
        if wanted and len(self.found) <= self.limit and _behind(self.after, one.subject):
            self.found.append(one)


async def compared(before: Blocks, after: Blocks) -> AsyncIterator[SubjectDifference]:
    """The subjects of either answer, in order. Rows are totals by subject, in order."""
    old, new = _rows(before), _rows(after)
    one, other = await anext(old, None), await anext(new, None)
    while one is not None or other is not None:
        subject = min(row.subject or "" for row in (one, other) if row is not None)
        mine = one if one is not None and (one.subject or "") == subject else None
        theirs = other if other is not None and (other.subject or "") == subject else None
        yield SubjectDifference(subject, mine, theirs)
        if mine is not None:
            one = await anext(old, None)
        if theirs is not None:
            other = await anext(new, None)


async def _rows(blocks: Blocks) -> AsyncIterator[UsageRow]:
    async for block in blocks:
        for row in block:
            yield row


def _behind(after: str | None, subject: str) -> bool:
    return after is None or subject > after


def _value(row: UsageRow | None) -> int:
    return 0 if row is None or not row.count else row.value


def _values(row: UsageRow | None) -> tuple[int | None, int, int]:
    if row is None:
        return None, 0, 0
    return row.value if row.count else None, row.count, row.rejected
